package proxy

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"penstock/proxy/telemetry/guard"
)

// errorFlushTime is how long ended calls have to write their error, and their clients to read it.
// hurriedErrorFlushTime is enough time to pass the errors to the kernel, which sends them even
// after the process has exited.
const (
	errorFlushTime        = 2 * time.Second
	hurriedErrorFlushTime = 250 * time.Millisecond
)

// shutdownState is the state of an edge's shutdown. The operator's second signal (hurry) shortens
// the shutdown. Only the draining goroutine may call the methods that wait. Any goroutine may read
// the atomic fields.
type shutdownState struct {
	draining         atomic.Bool
	interruptedCalls atomic.Int64 // number of calls that were running when hurry ended a wait

	log          *zap.Logger
	guard        *guard.Guard
	hurry        <-chan struct{} // closed by the second signal; may be nil
	runningCalls func() int64
	hurried      bool
	drainEnd     time.Time // when the drain ends at the latest; zero before the drain
}

func newShutdownState(o *Options, calls func() int64) *shutdownState {
	return &shutdownState{log: o.Log, guard: o.Guard, hurry: o.Hurry, runningCalls: calls}
}

// waitOrHurry waits until done returns true, until d has passed, or until the second signal. It
// returns the last result of done. The first time the second signal ends a wait, waitOrHurry
// records how many calls were running.
func (e *shutdownState) waitOrHurry(d time.Duration, done func() bool) bool {
	all := pollUntil(d, e.hurry, done)
	select {
	case <-e.hurry:
		if calls := e.runningCalls(); !e.hurried {
			e.hurried = true
			e.interruptedCalls.Store(calls)
			if calls > 0 {
				e.log.Warn("a second signal ends what runs", zap.Int64("calls", calls))
			}
		}
	default:
	}
	return all
}

// shutdownContext returns a context that expires after errorFlushTime. After a second signal, the
// context expires hurriedErrorFlushTime after that signal.
func (e *shutdownState) shutdownContext() (context.Context, context.CancelFunc) {
	limit, cancel := context.WithTimeout(context.Background(), errorFlushTime)
	go e.guard.RunWithRecover(guard.PlaceShutdown, func() {
		e.guard.PanicIfInjected("shutdown.patience")
		select {
		case <-e.hurry:
			short, end := context.WithTimeout(limit, hurriedErrorFlushTime)
			<-short.Done()
			end()
			cancel()
		case <-limit.Done():
		}
	})
	return limit, cancel
}

// drainPollInterval is how often a drain checks whether a wait is over.
const drainPollInterval = 5 * time.Millisecond

// pollUntil waits until done returns true, until d has passed, or until hurry is closed. It returns
// the last result of done.
func pollUntil(d time.Duration, hurry <-chan struct{}, done func() bool) bool {
	over := time.NewTimer(d)
	defer over.Stop()
	look := time.NewTicker(drainPollInterval)
	defer look.Stop()
	for !done() {
		select {
		case <-look.C:
		case <-over.C:
			return done()
		case <-hurry:
			return done()
		}
	}
	return true
}
