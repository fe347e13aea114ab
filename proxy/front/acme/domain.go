package acme

import (
	"crypto/tls"
	"sync"
	"sync/atomic"
	"time"
)

// domains are the domains in one configuration. They are immutable.
type domains struct {
	list   []*domain
	byName map[string]*domain
}

type domain struct {
	name    string
	current atomic.Pointer[tls.Certificate] // nil until the first certificate is available

	mu                sync.Mutex
	failures          int
	lastProblem       string // why the last attempt failed; empty if the last attempt succeeded
	nextCheck         time.Time
	nextReset         bool // whether nextCheck was reset while a check was running
	operatorRequested bool
	waitsForStore     bool // whether the domain's order is waiting for the fleet's store
}

// makeDue makes the domain due immediately. The recorded pause after the last attempt still
// applies, but consecutive failures count as a single failure.
func (d *domain) makeDue() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nextCheck, d.nextReset = time.Time{}, true
	if d.failures > 0 {
		d.failures = 1
	}
}

func (d *domain) recordFailure(trouble string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures++
	d.lastProblem, d.waitsForStore = trouble, false
	return d.failures
}

// adoptFailures adopts the recorded number of failures. The record may come from another edge or
// from before a restart.
func (d *domain) adoptFailures(failures int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waitsForStore = false
	if !d.operatorRequested {
		d.failures = max(d.failures, failures)
	}
}

func (d *domain) recordSuccess() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures, d.lastProblem, d.waitsForStore, d.operatorRequested = 0, "", false, false
}

func (d *domain) setOperatorRequested(now bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.operatorRequested = now
}

func (d *domain) isOperatorRequested() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.operatorRequested
}

func (d *domain) setWaitsForStore() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waitsForStore = true
}
