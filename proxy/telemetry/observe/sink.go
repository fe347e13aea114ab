package observe

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"penstock/proxy/telemetry/guard"
)

const (
	maxPendingBytes = 1 << 20
	// gatherTime is how long LogSink collects lines before it writes them. At a thousand requests a
	// second, a write for each line costs a fifth of a request's processor time, because it wakes
	// the Go runtime's monitor thread.
	gatherTime = 20 * time.Millisecond
	// manyPendingBytes ends gatherTime early.
	manyPendingBytes = 64 << 10
	// closeTimeout limits Close, because a blocked reader must not prevent the process from
	// exiting.
	closeTimeout = 2 * time.Second
)

// LogSink is an asynchronous, bounded io.Writer for log lines. Write never waits for the
// destination. Lines that do not fit into the buffer, or that the destination rejects, are dropped
// and counted. LogSink is safe for concurrent use.
type LogSink struct {
	dst     io.Writer
	guard   *guard.Guard
	mu      sync.Mutex
	wake    sync.Cond
	pending []byte
	spare   []byte
	many    chan struct{} // has capacity 1; receives if a lot is pending, or at the end
	closed  bool
	done    chan struct{}
	dropped atomic.Uint64
}

// NewLogSink returns a LogSink and starts its writing goroutine, which Close ends. g catches panics
// in dst.
func NewLogSink(dst io.Writer, g *guard.Guard) *LogSink {
	s := &LogSink{dst: dst, guard: g, many: make(chan struct{}, 1), done: make(chan struct{})}
	s.wake.L = &s.mu
	go g.Loop(s.done, guard.PlaceLog, s.run)
	return s
}

// Write queues a copy of line or drops it.
func (s *LogSink) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.pending)+len(line) > maxPendingBytes {
		s.dropped.Add(1)
		return len(line), nil
	}
	s.pending = append(s.pending, line...)
	s.wake.Broadcast()
	if len(s.pending) >= manyPendingBytes {
		s.stopGathering()
	}
	return len(line), nil
}

func (s *LogSink) stopGathering() {
	select {
	case s.many <- struct{}{}:
	default:
	}
}

// Sync implements zapcore.WriteSyncer. It does nothing, because Close flushes.
func (s *LogSink) Sync() error { return nil }

// Dropped returns the number of lines lost since the edge started.
func (s *LogSink) Dropped() uint64 { return s.dropped.Load() }

// Close writes the buffered lines. If the destination blocks for closeTimeout, Close returns even
// though the goroutine is still running.
func (s *LogSink) Close() error {
	s.mu.Lock()
	s.closed = true
	s.wake.Broadcast()
	s.mu.Unlock()
	s.stopGathering()
	select {
	case <-s.done:
	case <-time.After(closeTimeout):
	}
	return nil
}

func (s *LogSink) run() {
	gather := time.NewTimer(gatherTime)
	defer gather.Stop()
	for s.waitForLine() {
		gather.Reset(gatherTime)
		select {
		case <-gather.C:
		case <-s.many:
		}
		s.mu.Lock()
		chunk := s.pending
		s.pending, s.spare = s.spare[:0], nil
		s.mu.Unlock()
		s.writeChunk(chunk)
		s.spare = chunk
	}
	close(s.done)
}

// waitForLine waits until a line is pending. It returns false if the sink has been closed and all
// lines have been written.
func (s *LogSink) waitForLine() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.pending) == 0 && !s.closed {
		s.wake.Wait()
	}
	return len(s.pending) > 0
}

// writeChunk writes a chunk of lines. If a pipe is closed or a disk is full, the lines are lost,
// but no request fails.
func (s *LogSink) writeChunk(chunk []byte) {
	taken := 0
	defer func() { s.dropped.Add(uint64(bytes.Count(chunk[taken:], []byte{'\n'}))) }()
	s.guard.PanicIfInjected(guard.PlaceLog)
	if n, err := s.dst.Write(chunk); err != nil {
		taken = n
		return
	}
	taken = len(chunk)
}
