package proxy

import (
	"context"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/guard"
	"penstock/proxy/ledger"
)

// openLedger opens the edge's ledger, nil where it has none. An edge that takes over the ports of
// another waits for the ledger of that one.
func (e *Edge) openLedger(c *config.File) (*ledger.Ledger, error) {
	if c.Ledger.Path == "" {
		return nil, nil
	}
	return ledger.Open(ledger.Options{
		Path: c.Ledger.Path, Usage: e.services.Calls.Usage, Wait: e.opts.SharedPort, Metrics: e.metrics, Log: e.log,
	})
}

// keepLedger writes the ledger until the returned function is called, when all calls have ended.
func (e *Edge) keepLedger() (end func()) {
	if e.ledger == nil {
		return func() {}
	}
	work, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{}, 1)
	go e.guard.Loop(work.Done(), guard.Ledger, func() {
		e.ledger.Run(work)
		ended <- struct{}{}
	})
	return func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(leaveTime): // the disk hangs
			return
		}
		if err := e.ledger.Close(); err != nil {
			e.log.Error("the last second of usage is not in the ledger", zap.Error(err))
		}
	}
}
