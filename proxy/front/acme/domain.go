package acme

import (
	"crypto/tls"
	"sync"
	"sync/atomic"
	"time"
)

// domains are the domains in one configuration. They are immutable.
type domains struct {
	list   []*managedDomain
	byName map[string]*managedDomain
}

type managedDomain struct {
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

// markDueNow makes the domain due immediately. The recorded pause after the last attempt still
// applies, but consecutive failures count as a single failure.
func (d *managedDomain) markDueNow() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nextCheck, d.nextReset = time.Time{}, true
	if d.failures > 0 {
		d.failures = 1
	}
}

func (d *managedDomain) recordFailure(trouble string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures++
	d.lastProblem, d.waitsForStore = trouble, false
	return d.failures
}

// adoptFailures adopts the recorded number of failures. The record may come from another edge or
// from before a restart.
func (d *managedDomain) adoptFailures(failures int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waitsForStore = false
	if !d.operatorRequested {
		d.failures = max(d.failures, failures)
	}
}

func (d *managedDomain) recordSuccess() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures, d.lastProblem, d.waitsForStore, d.operatorRequested = 0, "", false, false
}

func (d *managedDomain) setOperatorRequested(now bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.operatorRequested = now
}

func (d *managedDomain) isOperatorRequested() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.operatorRequested
}

func (d *managedDomain) setWaitsForStore() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waitsForStore = true
}
