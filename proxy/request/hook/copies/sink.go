package copies

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/telemetry/guard"
)

// The results of a copy, in metrics and the log: it was delivered, or why it was lost.
const (
	delivered       = "delivered"
	lostFull        = "full"
	lostUnreachable = "unreachable"
	lostTimeout     = "timeout"
	lostStatus      = "status"
	lostWrite       = "write"
	lostEnded       = "ended"
)

// words describes for operators why copies were lost.
var words = map[string]string{
	lostFull:        "the sink is slower than the calls, or memory is too small",
	lostUnreachable: "sink not reachable",
	lostTimeout:     "the sink did not take them in time",
	lostStatus:      "the sink answered with an error",
	lostWrite:       "the file cannot be written",
	lostEnded:       "the sink was removed, or the edge ended, before they were sent",
}

const (
	// flushTime is the time that a sink has to send its queued copies after it was removed or while
	// the edge exits.
	flushTime = 1500 * time.Millisecond
	// batchCopies and batchBytes limit a batch. A batch has at most batchCopies copies, and ends
	// with the copy with which it reaches batchBytes.
	batchCopies, batchBytes = 64, 1 << 20
	// mostQueued is the maximum number of copies in a sink's queue. It applies in addition to the
	// memory limit.
	mostQueued = 16 << 10
	// A batch is sent at most mostTries times. The first pause between two tries is firstPause, and
	// each later one is twice as long.
	mostTries, firstPause = 4, 250 * time.Millisecond
	// logEvery is the minimum interval between two log lines about lost copies.
	logEvery = 10 * time.Second
)

// settings holds the settings of a hook that require a new sink if they change.
type settings struct {
	after, token string
	timeout      time.Duration
	most, memory int64
}

func settingsOf(h *config.Hook) settings {
	return settings{h.After, h.Token.Value(), h.Timeout.D(), int64(h.Bytes), int64(h.Memory)}
}

// hookSink is the queue of one hook, and the goroutine that empties it.
type hookSink struct {
	copies   *Copies
	name     string
	settings settings
	to       sender

	held atomic.Int64 // bytes held by copies, from their calls until they were sent

	mu     sync.Mutex
	queue  []*entry
	closed bool

	wake   chan struct{} // holds at most one element: the queue has entries
	stop   chan struct{} // closed with closed
	done   chan struct{} // closed once the goroutine has ended
	ctx    context.Context
	cancel context.CancelFunc // cancels the send in progress

	logged struct {
		mu   sync.Mutex
		at   time.Time
		lost int // since then
	}
}

// sender sends lines to a sink. send returns delivered, or the reason why the lines were lost.
type sender interface {
	send(ctx context.Context, lines []byte) (result string)
	end()
}

// open starts the sink of a hook.
func (c *Copies) open(h *config.Hook) *hookSink {
	s := &hookSink{
		copies: c, name: h.Name, settings: settingsOf(h), to: senderOf(h),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go c.opts.Guard.Loop(s.stop, guard.Copies, func() {
		s.run()
		close(s.done)
	})
	return s
}

// close makes the sink accept no more copies, send those that are queued, and end.
func (s *hookSink) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.stop)
		time.AfterFunc(flushTime, func() {
			defer s.copies.opts.Guard.Catch(guard.Copies, nil)
			s.cancel()
		})
	}
}

// ended reports whether the sink's goroutine has ended.
func (s *hookSink) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *hookSink) reserve(n int64) bool {
	if s.held.Add(n) > s.settings.memory {
		s.held.Add(-n)
		return false
	}
	return true
}

func (s *hookSink) free(n int64) { s.held.Add(-n) }

// put adds a copy to the queue, or drops it.
func (s *hookSink) put(e *entry) {
	s.mu.Lock()
	reason := ""
	switch {
	case s.closed:
		reason = lostEnded
	case len(s.queue) >= mostQueued:
		reason = lostFull
	default:
		s.queue = append(s.queue, e)
	}
	s.mu.Unlock()
	if reason != "" {
		s.free(e.held)
		s.lose(1, reason)
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take takes the next batch from the queue. end is true if the sink is closed and has no more
// copies.
func (s *hookSink) take() (batch []*entry, end bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, size := 0, int64(0)
	for n < min(len(s.queue), batchCopies) && size < batchBytes {
		size += s.queue[n].held
		n++
	}
	batch = append(batch, s.queue[:n]...)
	clear(s.queue[:n])
	if s.queue = s.queue[n:]; len(s.queue) == 0 {
		s.queue = nil
	}
	return batch, n == 0 && s.closed
}

// run sends batches until the sink is closed and its queue is empty.
func (s *hookSink) run() {
	for {
		batch, end := s.take()
		switch {
		case end:
			s.to.end()
			s.cancel()
			return
		case len(batch) > 0:
			s.deliver(batch)
		default:
			select {
			case <-s.wake:
			case <-s.stop:
			}
		}
	}
}

// deliver sends a batch, and always frees its memory.
func (s *hookSink) deliver(batch []*entry) {
	reason := lostEnded // after a panic
	defer func() {
		for _, e := range batch {
			s.free(e.held)
		}
		if reason != delivered {
			s.lose(len(batch), reason)
			return
		}
		s.count(reason, len(batch))
		now := time.Now()
		for range batch {
			s.copies.recent.Add(s.name, nil, now)
		}
	}()
	s.copies.opts.Guard.Point(guard.Copies)
	var lines []byte
	var err error
	for _, e := range batch {
		if lines, err = appendLine(lines, s.name, e); err != nil {
			return
		}
	}
	reason = s.send(lines)
}

// send sends lines, repeatedly if necessary, and returns the result.
func (s *hookSink) send(lines []byte) (result string) {
	pause := firstPause
	for try := 1; ; try++ {
		if s.ctx.Err() != nil {
			return lostEnded
		}
		within, cancel := context.WithTimeout(s.ctx, s.settings.timeout)
		result = s.to.send(within, lines)
		if result != delivered && within.Err() != nil {
			result = lostTimeout
		}
		cancel()
		if result == delivered || try == mostTries {
			return result
		}
		select {
		case <-time.After(pause):
			pause *= 2
		case <-s.stop: // there is time for only one more try
			try = max(try, mostTries-1)
		}
	}
}

// lose counts n lost copies, and logs them at most every logEvery.
func (s *hookSink) lose(n int, reason string) {
	s.count(reason, n)
	now := time.Now()
	for range n {
		s.copies.recent.Add(s.name, &reason, now)
	}
	l := &s.logged
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost += n; now.Sub(l.at) < logEvery {
		return
	}
	s.copies.opts.Log.Warn("copies of calls were lost", zap.String("event", "copies_lost"), zap.String("hook", s.name),
		zap.Int("copies", l.lost), zap.String("cause", reason), zap.String("why", words[reason]))
	l.at, l.lost = now, 0
}

func (s *hookSink) count(result string, n int) {
	s.copies.opts.Metrics.GetOrCreateCounter(`penstock_hook_copies_total{hook="` + s.name + `",result="` + result + `"}`).Add(n)
}
