package proxy

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"penstock/proxy/guard"
	"penstock/proxy/listen"
)

// errorFlushTime is how long calls that the drain has ended may take to write their error, and
// clients to read it. hurriedFlushTime is that time after a second signal: the kernel has the
// errors by then and sends them even when the process has ended.
const (
	errorFlushTime   = 2 * time.Second
	hurriedFlushTime = 250 * time.Millisecond
)

// drain ends the public side in steps. /-/ready answers 503, and answers ask clients to close. The
// listener accepts for timeouts.linger more, so that balancers notice. Then it accepts no more,
// idle connections close, and running calls get timeouts.drain to finish. Those that are left get
// an error in their stream and errorFlushTime to send it. Then drain cuts what has not ended: half
// a head, a body that does not arrive, a client that does not read. Options.Hurry skips every wait
// but hurriedFlushTime.
func (e *Edge) drain() {
	t := e.reloads.Running().Config.Timeouts
	e.log.Info("draining", zap.Int64("calls", e.services.Calls.InFlight()))
	listen.NotifyStopping("draining")
	if e.opts.SharedPort && e.admin != nil {
		// The next process has this port too, and must not be taken for one that is not ready.
		e.admin.LeavePort()
		_ = e.shutAdmin() // it ends with the process at the latest
	}
	e.draining.Store(true)
	e.waitOrHurry(t.Linger.D(), func() bool { return false })
	e.watch.CloseGracefully()
	gone := func() bool { return e.watch.Open() == 0 }
	if !e.waitOrHurry(t.Drain.D(), gone) {
		if calls := e.services.Calls.InFlight(); calls > 0 && e.cut.Load() == 0 {
			e.log.Warn("drain time is over", zap.Int64("calls", calls))
		}
		e.watch.EachWaiter(func(w listen.Waiter) { w.(*Call).Drain() })
		if !e.waitOrHurry(errorFlushTime, gone) {
			e.wait(hurriedFlushTime, nil, func() bool { return e.watch.Busy() == 0 })
		}
		e.watch.CloseConns()
		e.wait(errorFlushTime, nil, func() bool { return e.services.Calls.InFlight() == 0 })
		e.waitOrHurry(errorFlushTime, gone)
	}
	limit, cancel := e.shutdownContext()
	defer cancel()
	_ = e.public.ShutdownWithContext(limit) // closes connections that have sent nothing
	e.log.Info("drained", zap.Int64("calls", e.services.Calls.InFlight()))
}

// waitOrHurry waits until done, for d at most, and not at all after the second signal. It reports
// whether it is done. The first wait that the second signal ends records how many calls that cuts.
func (e *Edge) waitOrHurry(d time.Duration, done func() bool) bool {
	all := e.wait(d, e.opts.Hurry, done)
	select {
	case <-e.opts.Hurry:
		if calls := e.services.Calls.InFlight(); !e.hasty {
			e.hasty = true
			e.cut.Store(calls)
			if calls > 0 {
				e.log.Warn("a second signal ends what runs", zap.Int64("calls", calls))
			}
		}
	default:
	}
	return all
}

// Cut returns how many calls ran when the operator's hurry ended a drain.
func (e *Edge) Cut() int64 { return e.cut.Load() }

// shutdownContext returns the context of a listener's shutdown. It ends after errorFlushTime, and
// hurriedFlushTime after the second signal at the latest.
func (e *Edge) shutdownContext() (context.Context, context.CancelFunc) {
	limit, cancel := context.WithTimeout(context.Background(), errorFlushTime)
	go e.guard.Once(guard.Shutdown, func() {
		e.guard.Point("shutdown.patience")
		select {
		case <-e.opts.Hurry:
			short, end := context.WithTimeout(limit, hurriedFlushTime)
			<-short.Done()
			end()
			cancel()
		case <-limit.Done():
		}
	})
	return limit, cancel
}

// drainPoll is how often a drain checks whether it is done.
const drainPoll = 5 * time.Millisecond

func (e *Edge) wait(d time.Duration, hurry <-chan struct{}, done func() bool) bool {
	over := time.NewTimer(d)
	defer over.Stop()
	look := time.NewTicker(drainPoll)
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

// close ends what is left: the admin listener, the probes and the watch.
func (e *Edge) close() error {
	err := e.shutAdmin()
	limit, cancel := e.shutdownContext()
	defer cancel()
	err = errors.Join(err, e.set.Close(limit), e.watch.Release())
	if e.admin != nil {
		err = errors.Join(err, e.admin.Release())
	}
	_ = e.services.Tracer.Close(limit) // spans that the collector does not take are no error of the edge
	return err
}

// shutAdmin ends the admin listener. A second call does nothing.
func (e *Edge) shutAdmin() error {
	if e.admin == nil {
		return nil
	}
	limit, cancel := e.shutdownContext()
	defer cancel()
	return e.admin.Shutdown(limit)
}
