package acme

import (
	"crypto/tls"
	"sync"
	"sync/atomic"
	"time"
)

// domains are the domains in one configuration. They are immutable.
type domains struct {
	order  []*domain
	byName map[string]*domain
}

type domain struct {
	name    string
	current atomic.Pointer[tls.Certificate] // nil until the first certificate is available

	mu       sync.Mutex
	failures int
	trouble  string // why the last attempt failed; empty if it succeeded
	next     time.Time
	nudged   bool // whether next was reset while a check was running
	hurried  bool
	waits    bool // whether the domain's order waits for the fleet's store
}

// again makes the domain due immediately. The recorded pause after the last attempt still applies,
// but consecutive failures count as a single failure.
func (d *domain) again() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next, d.nudged = time.Time{}, true
	if d.failures > 0 {
		d.failures = 1
	}
}

func (d *domain) failed(trouble string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures++
	d.trouble, d.waits = trouble, false
	return d.failures
}

// counted adopts the recorded number of failures. The record may come from another edge or from
// before a restart.
func (d *domain) counted(failures int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waits = false
	if !d.hurried {
		d.failures = max(d.failures, failures)
	}
}

func (d *domain) settled() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures, d.trouble, d.waits, d.hurried = 0, "", false, false
}

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

func (d *domain) wait() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waits = true
}
