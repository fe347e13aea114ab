package proxy

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"penstock/proxy/front/listen"
	"penstock/proxy/request/call"
)

// drain shuts down the public side in steps:
//
//   - /-/ready responds with 503, and responses ask clients to close their connections.
//   - The listener continues to accept connections for timeouts.linger, so that load balancers
//     notice the drain. If no load balancer routes to the edge (Options.Direct), this step ends
//     when no call is running.
//   - The listener stops accepting, idle connections close, and running calls have timeouts.drain
//     to finish.
//   - Calls that are still running end with an error, and have errorFlushTime to send the error.
//   - The remaining connections are closed. Their clients have sent only part of a head, do not
//     send the body, or do not read the response.
//
// Options.Hurry ends every wait, except that calls have hurriedErrorFlushTime to send their errors.
func (e *Edge) drain() {
	t, end := e.reloads.RunningSnapshot().Config.Timeouts, e.shutdown
	e.log.Info("draining", zap.Int64("calls", end.runningCalls()))
	listen.NotifyStopping("draining")
	if e.opts.SharedPort && e.admin != nil {
		// The next process listens on the same port. A monitor must reach only that process,
		// because this one is no longer ready.
		e.admin.CloseSocket()
		_ = e.shutdownAdmin() // if this fails, the listener ends with the process
	}
	end.draining.Store(true)
	end.drainEnd = time.Now().Add(t.Linger.D() + t.Drain.D() + errorFlushTime)
	e.shadows.CancelAll()
	direct := e.opts.Direct != nil && e.opts.Direct()
	if t.Linger > 0 && !direct {
		e.log.Info("lingering: calls are accepted until balancers notice (timeouts.linger)", zap.String("linger", t.Linger.String()))
	}
	end.waitOrHurry(t.Linger.D(), func() bool { return direct && end.runningCalls() == 0 })
	e.listener.CloseGracefully()
	e.websockets.CloseDisallowedConns()
	e.sessions.EndWithoutModel()
	gone := func() bool { return e.listener.OpenConnCount() == 0 }
	if !end.waitOrHurry(t.Drain.D(), gone) {
		if calls := end.runningCalls(); calls > 0 && end.interruptedCalls.Load() == 0 {
			e.log.Warn("drain time is over", zap.Int64("calls", calls))
		}
		e.listener.EachWaiter(func(w listen.DisconnectWaiter) { w.(*call.Call).CancelForShutdown() })
		if !end.waitOrHurry(errorFlushTime, gone) {
			pollUntil(hurriedErrorFlushTime, nil, func() bool { return e.listener.BusyConnCount() == 0 })
		}
		e.listener.CloseConns()
		pollUntil(errorFlushTime, nil, func() bool { return end.runningCalls() == 0 })
		end.waitOrHurry(errorFlushTime, gone)
	}
	limit, cancel := e.shutdown.shutdownContext()
	defer cancel()
	_ = e.server.ShutdownWithContext(limit) // closes connections that have sent nothing
	e.log.Info("drained", zap.Int64("calls", end.runningCalls()))
}

// close shuts down the remaining components: the admin listener, the probes and the file watch.
func (e *Edge) close() error {
	err := e.shutdownAdmin()
	e.reloads.RunningSnapshot().Issued.Close()
	limit, cancel := e.shutdown.shutdownContext()
	defer cancel()
	err = errors.Join(err, e.upstreamSet.Close(limit), e.listener.StopDisconnectWatch())
	if e.admin != nil {
		err = errors.Join(err, e.admin.CloseConns())
	}
	e.services.Hooks.Close()
	e.hookCopies.Close()
	_ = e.services.Tracer.Close(limit) // losing spans is not an error
	return err
}

// shutdownAdmin shuts the admin listener down. A second call does nothing.
func (e *Edge) shutdownAdmin() error {
	if e.admin == nil {
		return nil
	}
	limit, cancel := e.shutdown.shutdownContext()
	defer cancel()
	return e.admin.Shutdown(limit)
}
