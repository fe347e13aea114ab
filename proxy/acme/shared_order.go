package acme

import (
	"context"
	"crypto"
	"crypto/tls"
	"time"

	"go.uber.org/zap"
	"golang.org/x/crypto/acme"
)

// order obtains the certificate of a domain that is due, if no other edge does, and returns when to
// look again.
func (s *sharing) order(ctx context.Context, d *domain) time.Time {
	order, until := s.claim(ctx, d)
	if order == nil {
		return until
	}
	if due := s.m.due(ctx, d); time.Now().Before(due) { // another edge was faster
		s.release(ctx, d, Released{})
		d.settled()
		return due
	}
	err := s.m.renew(order, d)
	lost := context.Cause(order)
	switch {
	case ctx.Err() != nil: // the edge ends: another goes on
		s.release(ctx, d, Released{})
		return time.Now().Add(leastPause)
	case err != nil && isLost(lost):
		s.release(ctx, d, Released{})
		s.m.opts.Log.Warn("certificate not obtained: another edge goes on with the order",
			zap.String("domain", d.name), zap.String("problem", lost.Error()))
		return waitForStore(d)
	case err != nil:
		s.end(order, EntryOrder, d.name)
		r := s.m.note(d, err)
		s.release(ctx, d, Released{Pause: r.pause, Hurried: max(r.asked, hurriedPause), Failures: r.failures})
		return r.next
	}
	s.end(order, EntryOrder, d.name)
	s.release(ctx, d, Released{})
	if due := s.m.due(ctx, d); time.Now().Before(due) {
		return due
	}
	return d.allowed
}

// publish puts a new certificate into the store and into use. Where the store does not take it,
// look puts it there later.
func (s *sharing) publish(ctx context.Context, d *domain, pair *tls.Certificate, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.there, d.name)
	if err := s.put(ctx, Entry{Kind: EntryCertificate, Name: d.name, Text: text}, true); err != nil {
		s.m.opts.Log.Warn("the certificate could not be put into the fleet's store: that is tried again",
			zap.String("domain", d.name), zap.Error(err))
	} else {
		s.there[d.name] = &certificate{raw: pair.Certificate[0]}
	}
	s.m.use(d, pair)
}

// claim asks for the right to order for a domain. Where it has it, it has read what the store has,
// too, and the order's context ends with the claim. Where it has not, until is when to ask again.
func (s *sharing) claim(ctx context.Context, d *domain) (order context.Context, until time.Time) {
	if !s.store.Available() {
		return nil, waitForStore(d)
	}
	d.mu.Lock()
	hurried := d.hurried
	d.mu.Unlock()
	asking, cancel := context.WithTimeout(ctx, followPeriod)
	defer cancel()
	sent := time.Now()
	c, err := s.store.Claim(asking, d.name, hurried)
	if err != nil {
		return nil, waitForStore(d)
	}
	d.mu.Lock()
	d.waits = false
	if !hurried {
		d.failures = max(d.failures, c.Failures)
	}
	d.mu.Unlock()
	if !c.Granted {
		if c.Wait <= Lease { // another edge tries just now
			d.hurry(false)
		}
		return nil, time.Now().Add(max(c.Wait, followPeriod))
	}
	order, lose := context.WithCancelCause(ctx)
	s.held.set(d.name, sent, lose)
	if err := s.look(ctx); err != nil { // what another edge has obtained meanwhile
		s.release(ctx, d, Released{})
		return nil, waitForStore(d)
	}
	return order, time.Time{}
}

// release gives the claim back.
func (s *sharing) release(ctx context.Context, d *domain, r Released) {
	s.held.set("", time.Time{}, nil)
	d.hurry(false)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), followPeriod)
	defer cancel()
	_ = s.store.Release(ctx, d.name, r) // its lease ends anyway
}

// hurriedPause is between two attempts of a fleet that operators ask for: each of its edges is
// reloaded, and Let's Encrypt allows five failed validations of a name in an hour.
const hurriedPause = 15 * time.Minute

// waitForStore returns when a domain asks the store again.
func waitForStore(d *domain) time.Time {
	d.wait()
	return time.Now().Add(4 * followPeriod)
}

// began puts an order that was begun into the store.
func (s *sharing) began(ctx context.Context, name string, order *acme.Order, key crypto.Signer) error {
	text, err := encodePair(key, nil)
	if err != nil {
		return err
	}
	return s.putJSON(ctx, EntryOrder, name, runningOrder{order.URI, text})
}

// resume returns the order that another edge has begun, with its key; nil: there is none that can
// be ended.
func (s *sharing) resume(ctx context.Context, client *acme.Client, name string) (*acme.Order, crypto.Signer) {
	s.mu.Lock()
	running, ok := s.orders[name]
	s.mu.Unlock()
	if !ok {
		return nil, nil
	}
	key, err := parseKey(running.Key)
	if err != nil {
		return nil, nil
	}
	order, err := client.GetOrder(ctx, running.URL)
	if err != nil || order.Status == acme.StatusInvalid || order.Status == acme.StatusExpired {
		return nil, nil // an authority forgets them after some days
	}
	s.m.opts.Log.Info("the order of another edge is ended", zap.String("domain", name))
	return order, key
}
