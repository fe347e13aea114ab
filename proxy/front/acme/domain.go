package acme

import (
	"crypto/tls"
	"sync"
	"sync/atomic"
	"time"
)

// domains are the domains of one configuration. They never change.
type domains struct {
	order  []*domain
	byName map[string]*domain
}

// domain is one name and the state of its certificate.
type domain struct {
	name    string
	current atomic.Pointer[tls.Certificate] // nil: none was obtained yet

	mu       sync.Mutex
	failures int       // in a row
	trouble  string    // why the last attempt failed; empty: it succeeded
	next     time.Time // of the next check; zero: at once
	nudged   bool      // next was set to now during a check
	hurried  bool      // an operator wants it tried again
	waits    bool      // an order waits for the fleet's store
}

// again schedules the next attempt for the end of the pause after the last one.
func (d *domain) again() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next, d.nudged = time.Time{}, true
	if d.failures > 0 {
		d.failures = 1
	}
}

// failed counts a failure and returns how many there were in a row.
func (d *domain) failed(trouble string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures++
	d.trouble, d.waits = trouble, false
	return d.failures
}

// counted adopts the number of failures that other edges, or this one before its start, have had.
func (d *domain) counted(failures int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waits = false
	if !d.hurried {
		d.failures = max(d.failures, failures)
	}
}

// settled records that a domain needs nothing now.
func (d *domain) settled() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures, d.trouble, d.waits, d.hurried = 0, "", false, false
}

// hurry records whether an operator wants the domain tried again.
func (d *domain) hurry(now bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hurried = now
}

func (d *domain) isHurried() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hurried
}

// wait records that the domain waits for the fleet's store.
func (d *domain) wait() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waits = true
}
