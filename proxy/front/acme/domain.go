package acme

import (
	"crypto/tls"
	"sync"
	"sync/atomic"
	"time"
)

// domains are the domains of one configuration. A domains value does not change.
type domains struct {
	order  []*domain
	byName map[string]*domain
}

// domain is one name and the state of its certificate.
type domain struct {
	name    string
	current atomic.Pointer[tls.Certificate] // nil: not obtained yet

	mu       sync.Mutex
	failures int       // consecutive failures
	trouble  string    // why the last attempt failed; empty if it succeeded
	next     time.Time // time of the next check; zero: at once
	nudged   bool      // next was reset to zero during a check
	hurried  bool      // an operator wants a new attempt
	waits    bool      // an order waits for the fleet's store
}

// again makes the domain due at once, unless the recorded pause after its last attempt is still
// running. Several failures in a row then count as one.
func (d *domain) again() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next, d.nudged = time.Time{}, true
	if d.failures > 0 {
		d.failures = 1
	}
}

// failed counts a failure and returns the number of consecutive failures.
func (d *domain) failed(trouble string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures++
	d.trouble, d.waits = trouble, false
	return d.failures
}

// counted sets the number of failures to the number that other edges, or this edge before its
// restart, have recorded.
func (d *domain) counted(failures int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waits = false
	if !d.hurried {
		d.failures = max(d.failures, failures)
	}
}

// settled records that the domain needs no attempt for now.
func (d *domain) settled() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures, d.trouble, d.waits, d.hurried = 0, "", false, false
}

// hurry records whether an operator wants a new attempt for the domain.
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
