package acme

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// leaseMargin before the end of its lease an edge gives up the order: another may begin.
	leaseMargin = time.Second
	// leaseRenewed is how old a claim gets.
	leaseRenewed = Lease / 5
	// followPeriod is how often the store is asked for what is new, and how long its answer may take.
	followPeriod = 500 * time.Millisecond
)

// holding is the claim that this edge has.
type holding struct {
	mu     sync.Mutex
	domain string // empty: none
	good   time.Time
	lose   context.CancelCauseFunc
}

// set is the claim from now on; an earlier one's order ends.
func (h *holding) set(domain string, good time.Time, lose context.CancelCauseFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lose != nil {
		h.lose(nil)
	}
	h.domain, h.good, h.lose = domain, good, lose
}

// keep renews the claim that this edge has, and ends the order when that was not possible in time.
func (h *holding) keep(ctx context.Context, store Shared) {
	h.mu.Lock()
	domain, age := h.domain, time.Since(h.good)
	h.mu.Unlock()
	if domain == "" || age < leaseRenewed {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, followPeriod)
	defer cancel()
	sent := time.Now()
	c, err := store.Claim(ctx, domain, false)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.domain != domain: // it was given back meanwhile
	case err == nil && c.Granted:
		h.good = sent
	case err == nil:
		h.lose(ErrClaimLost)
	case time.Since(h.good) > Lease-leaseMargin:
		h.lose(errStoreLost)
	}
}

// isLost reports whether an order was given up without fault of the authority.
func isLost(err error) bool { return errors.Is(err, ErrClaimLost) || errors.Is(err, errStoreLost) }
