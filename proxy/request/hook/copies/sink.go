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

// These strings are the result of a copy in metrics and in the log: either delivered, or the reason
// why the copy was lost.
const (
	delivered       = "delivered"
	lostFull        = "full"
	lostUnreachable = "unreachable"
	lostTimeout     = "timeout"
	lostStatus      = "status"
	lostWrite       = "write"
	lostEnded       = "ended"
)

var words = map[string]string{
	lostFull:        "the sink is slower than the calls, or memory is too small",
	lostUnreachable: "sink not reachable",
	lostTimeout:     "the sink did not take them in time",
	lostStatus:      "the sink answered with an error",
	lostWrite:       "the file cannot be written",
	lostEnded:       "the sink was removed, or the edge ended, before they were sent",
}

const (
	// flushTime is how long a sink may continue to send its queued copies after the sink was
	// removed or when the edge exits.
	flushTime = 1500 * time.Millisecond
	// A batch contains at most batchCopies copies. It ends with the copy that makes it reach
	// batchBytes.
	batchCopies, batchBytes = 64, 1 << 20
	// mostQueued is the maximum number of copies in a queue. The memory limit applies as well.
	mostQueued = 16 << 10
	// A batch is sent at most mostTries times. The first pause lasts firstPause, and each later
	// pause lasts twice as long as the one before.
	mostTries, firstPause = 4, 250 * time.Millisecond
	logEvery              = 10 * time.Second
)

// settings are the settings of a hook that require a new sink when they change.
type settings struct {
	after, token string
	timeout      time.Duration
	most, memory int64
}

func settingsOf(h *config.Hook) settings {
	return settings{h.After, h.Token.Value(), h.Timeout.D(), int64(h.Bytes), int64(h.Memory)}
}

// hookSink is the queue of one hook. A goroutine sends the queued copies.
type hookSink struct {
	copies   *Copies
	name     string
	settings settings
	to       sender

	held atomic.Int64 // bytes held by copies that were not sent yet

	mu     sync.Mutex
	queue  []*entry
	closed bool

	wake   chan struct{} // buffered; receives a value when the queue has entries
	stop   chan struct{} // closed when the field closed is set to true
	done   chan struct{}
	ctx    context.Context
	cancel context.CancelFunc

	logged struct {
		mu   sync.Mutex
		at   time.Time
		lost int // number of copies lost since the time at
	}
}

// sender sends lines to a sink. send returns the constant delivered or the reason why the lines
// were lost.
type sender interface {
	send(ctx context.Context, lines []byte) (result string)
	end()
}

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

// nextBatch removes the next batch from the queue. end is true if the sink is closed and the queue
// is empty.
func (s *hookSink) nextBatch() (batch []*entry, end bool) {
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

func (s *hookSink) run() {
	for {
		batch, end := s.nextBatch()
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

func (s *hookSink) deliver(batch []*entry) {
	reason := lostEnded // the reason that is reported if sending panics
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
		case <-s.stop: // flushTime leaves time for only one more try
			try = max(try, mostTries-1)
		}
	}
}

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
