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

// These strings are the results of a copy in metrics and in the log. A result is either delivered
// or the reason why the copy was lost.
const (
	resultDelivered       = "delivered"
	lossReasonFull        = "full"
	lossReasonUnreachable = "unreachable"
	lossReasonTimeout     = "timeout"
	lossReasonStatus      = "status"
	lossReasonWrite       = "write"
	lossReasonEnded       = "ended"
)

var lossReasonDescriptions = map[string]string{
	lossReasonFull:        "the sink is slower than the calls, or memory is too small",
	lossReasonUnreachable: "sink not reachable",
	lossReasonTimeout:     "the sink did not take them in time",
	lossReasonStatus:      "the sink answered with an error",
	lossReasonWrite:       "the file cannot be written",
	lossReasonEnded:       "the sink was removed, or the edge ended, before they were sent",
}

const (
	// flushTimeout is how long a sink may continue to send its queued copies after the sink was
	// removed or when the edge exits.
	flushTimeout = 1500 * time.Millisecond
	// A batch contains at most batchCopies copies. It ends with the copy that increases its size to
	// batchBytes or more.
	batchCopies, batchBytes = 64, 1 << 20
	// maxQueued is the maximum number of copies in a queue. The memory limit also applies.
	maxQueued = 16 << 10
	// A batch is sent at most maxTries times. The first pause lasts firstRetryDelay, and each later
	// pause lasts twice as long as the one before.
	maxTries, firstRetryDelay = 4, 250 * time.Millisecond
	lossLogInterval           = 10 * time.Second
)

// sinkSettings are the settings of a hook that require a new sink when they change.
type sinkSettings struct {
	after, token     string
	timeout          time.Duration
	maxBytes, memory int64
}

func hookSettings(h *config.Hook) sinkSettings {
	return sinkSettings{h.After, h.Token.Value(), h.Timeout.D(), int64(h.Bytes), int64(h.Memory)}
}

// hookSink is the queue of one hook. A separate goroutine sends the queued copies.
type hookSink struct {
	copies   *CopySinks
	name     string
	settings sinkSettings
	sender   sinkSender

	heldBytes atomic.Int64 // bytes reserved for copies that have not been sent yet

	mu     sync.Mutex
	queue  []*queuedCopy
	closed bool

	wake   chan struct{} // buffered; receives a value when entries are added to the queue
	stop   chan struct{} // closed when the field closed is set to true
	done   chan struct{}
	ctx    context.Context
	cancel context.CancelFunc

	logged struct {
		mu   sync.Mutex
		at   time.Time
		lost int // number of copies lost since the time in at
	}
}

// sinkSender sends lines to a sink. send returns either delivered or the reason why the lines were
// lost.
type sinkSender interface {
	send(ctx context.Context, lines []byte) (result string)
	closeConns()
}

func (c *CopySinks) openSink(h *config.Hook) *hookSink {
	s := &hookSink{
		copies: c, name: h.Name, settings: hookSettings(h), sender: newSender(h),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go c.opts.Guard.Loop(s.stop, guard.PlaceCopies, func() {
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
		time.AfterFunc(flushTimeout, func() {
			defer s.copies.opts.Guard.Catch(guard.PlaceCopies, nil)
			s.cancel()
		})
	}
}

func (s *hookSink) isDone() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *hookSink) reserve(n int64) bool {
	if s.heldBytes.Add(n) > s.settings.memory {
		s.heldBytes.Add(-n)
		return false
	}
	return true
}

func (s *hookSink) releaseBytes(n int64) { s.heldBytes.Add(-n) }

func (s *hookSink) enqueue(e *queuedCopy) {
	s.mu.Lock()
	reason := ""
	switch {
	case s.closed:
		reason = lossReasonEnded
	case len(s.queue) >= maxQueued:
		reason = lossReasonFull
	default:
		s.queue = append(s.queue, e)
	}
	s.mu.Unlock()
	if reason != "" {
		s.releaseBytes(e.reserved)
		s.recordLost(1, reason)
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// nextBatch removes the next batch from the queue. end is true if the sink is closed and the queue
// is empty.
func (s *hookSink) nextBatch() (batch []*queuedCopy, end bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, size := 0, int64(0)
	for n < min(len(s.queue), batchCopies) && size < batchBytes {
		size += s.queue[n].reserved
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
			s.sender.closeConns()
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

func (s *hookSink) deliver(batch []*queuedCopy) {
	reason := lossReasonEnded // reported if sending panics
	defer func() {
		for _, e := range batch {
			s.releaseBytes(e.reserved)
		}
		if reason != resultDelivered {
			s.recordLost(len(batch), reason)
			return
		}
		s.countResult(reason, len(batch))
		now := time.Now()
		for range batch {
			s.copies.recent.CountQuestion(s.name, nil, now)
		}
	}()
	s.copies.opts.Guard.PanicIfInjected(guard.PlaceCopies)
	var lines []byte
	var err error
	for _, e := range batch {
		if lines, err = appendJSONLine(lines, s.name, e); err != nil {
			return
		}
	}
	reason = s.sendWithRetries(lines)
}

func (s *hookSink) sendWithRetries(lines []byte) (result string) {
	pause := firstRetryDelay
	for try := 1; ; try++ {
		if s.ctx.Err() != nil {
			return lossReasonEnded
		}
		within, cancel := context.WithTimeout(s.ctx, s.settings.timeout)
		result = s.sender.send(within, lines)
		if result != resultDelivered && within.Err() != nil {
			result = lossReasonTimeout
		}
		cancel()
		if result == resultDelivered || try == maxTries {
			return result
		}
		select {
		case <-time.After(pause):
			pause *= 2
		case <-s.stop: // flushTimeout leaves time for only one more try
			try = max(try, maxTries-1)
		}
	}
}

func (s *hookSink) recordLost(n int, reason string) {
	s.countResult(reason, n)
	now := time.Now()
	for range n {
		s.copies.recent.CountQuestion(s.name, &reason, now)
	}
	l := &s.logged
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost += n; now.Sub(l.at) < lossLogInterval {
		return
	}
	s.copies.opts.Log.Warn("copies of calls were lost", zap.String("event", "copies_lost"), zap.String("hook", s.name),
		zap.Int("copies", l.lost), zap.String("cause", reason), zap.String("why", lossReasonDescriptions[reason]))
	l.at, l.lost = now, 0
}

func (s *hookSink) countResult(result string, n int) {
	s.copies.opts.Metrics.GetOrCreateCounter(`penstock_hook_copies_total{hook="` + s.name + `",result="` + result + `"}`).Add(n)
}
