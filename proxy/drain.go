package proxy

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"penstock/proxy/guard"
	"penstock/proxy/listen"
)

// lastWords is how long calls that the drain has ended may take to say why, and their clients to read it; hurriedWords is how long
// when the operator is in a hurry: their answers are in the kernel's hands by then, which go on when the process has ended.
const (
	lastWords    = 2 * time.Second
	hurriedWords = 250 * time.Millisecond
)

// drain ends the public side without cutting anybody short. Readiness turns and answers ask for the connection's end;
// accepting goes on for the linger, so that balancers notice; then nobody new is let in, kept connections leave, and what
// runs may go on for the drain time. What is left gets an error in its stream, and when that has had its time, what has not
// ended is cut: half a head, a body that does not come, a client that does not read. Hurry skips all waiting but a short one for
// the last words.
func (e *Edge) drain() {
	t := e.current.Load().Config.Timeouts
	e.log.Info("draining", zap.Int64("calls", e.calls.InFlight()))
	listen.NotifyStopping("draining")
	if e.opts.SharedPort && e.opts.Admin != nil {
		// The next process has this port too, and must not be taken for one that is not ready.
		_ = listen.CloseAfterBacklog(e.opts.Admin)
		_ = e.shutAdmin() // it ends with the process at the latest
	}
	e.draining.Store(true)
	e.hurried(t.Linger.D(), func() bool { return false })
	e.watch.CloseGracefully()
	gone := func() bool { return e.watch.Open() == 0 }
	if !e.hurried(t.Drain.D(), gone) {
		if calls := e.calls.InFlight(); calls > 0 && e.cut.Load() == 0 {
			e.log.Warn("drain time is over", zap.Int64("calls", calls))
		}
		e.watch.EachWaiter(func(w listen.Waiter) { w.(*Call).Drain() })
		if !e.hurried(lastWords, gone) {
			e.within(hurriedWords, nil, func() bool { return e.watch.Busy() == 0 })
		}
		e.watch.CloseConns()
		e.within(lastWords, nil, func() bool { return e.calls.InFlight() == 0 })
		e.hurried(lastWords, gone)
	}
	limit, cancel := e.patience()
	defer cancel()
	_ = e.public.ShutdownWithContext(limit) // closes what has not said a word
	e.log.Info("drained", zap.Int64("calls", e.calls.InFlight()))
}

// hurried waits until done, for d at most and not at all once the operator is in a hurry. It reports whether it is done. The first
// time that the hurry ends a wait the calls are noted that it cuts.
func (e *Edge) hurried(d time.Duration, done func() bool) bool {
	all := e.within(d, e.opts.Hurry, done)
	select {
	case <-e.opts.Hurry:
		if calls := e.calls.InFlight(); !e.hasty {
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

// patience is how long a listener that is shut may still wait for those who are connected: for lastWords, and no longer than
// hurriedWords once the operator is in a hurry.
func (e *Edge) patience() (context.Context, context.CancelFunc) {
	limit, cancel := context.WithTimeout(context.Background(), lastWords)
	go e.guard.Once(guard.Shutdown, func() {
		e.guard.Point("shutdown.patience")
		select {
		case <-e.opts.Hurry:
			short, end := context.WithTimeout(limit, hurriedWords)
			<-short.Done()
			end()
			cancel()
		case <-limit.Done():
		}
	})
	return limit, cancel
}

// drainPoll is how often a drain looks whether it is over.
const drainPoll = 5 * time.Millisecond

func (e *Edge) within(d time.Duration, hurry <-chan struct{}, done func() bool) bool {
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
	limit, cancel := e.patience()
	defer cancel()
	err = errors.Join(err, e.set.Close(limit), e.watch.Release())
	if e.adminWatch != nil {
		e.adminWatch.CloseConns() // who did not leave in time
		err = errors.Join(err, e.adminWatch.Release())
	}
	_ = e.tracer.Close(limit) // spans that an endpoint does not take are no failure of ours
	return err
}

// shutAdmin ends the admin listener. Who is connected there and has not said what he wants is not waited for any longer than
// others for their answers, and is no failure. A second time it has nothing to do.
func (e *Edge) shutAdmin() error {
	if e.opts.Admin == nil || e.adminShut {
		return nil
	}
	e.adminShut = true
	close(e.closing)
	limit, cancel := e.patience()
	defer cancel()
	if err := e.admin.ShutdownWithContext(limit); limit.Err() == nil {
		return err
	}
	return nil
}
