package acme

import (
	"bytes"
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// sharing is a manager's part in a fleet.
type sharing struct {
	m     *Manager
	store Shared
	again atomic.Bool // all is to be read: there are other domains

	mu      sync.Mutex // held while the store is read: what is read is taken in order
	looks   int
	account []byte                  // the text of the account's key; nil: there is none yet
	strange bool                    // the store has an account's key that this edge cannot open
	there   map[string]*certificate // in the store, by domain
	orders  map[string]runningOrder // by domain

	held holding
}

// certificate is what is known of a domain's certificate in the store.
type certificate struct {
	raw   []byte // of the certificate itself
	stale bool   // sealed by a key that this edge does not have: it is left alone
}

// ShareBy has a manager share what it obtains with the other edges of a fleet. It is called before
// Run, and Follow must run beside it.
func ShareBy(m *Manager, s Shared) {
	m.fleet = &sharing{m: m, store: s, there: map[string]*certificate{}, orders: map[string]runningOrder{}}
}

const (
	// spreadTime is how long the answer to a challenge is in the store before the authority is asked
	// to look: within it every edge that reaches the store has read it.
	spreadTime = 4 * followPeriod
	// wholeEach so many looks everything is read: what is gone, or was changed behind the change
	// number, is put right.
	wholeEach = 60
)

// Follow takes over what the other edges of the fleet obtain, until ctx ends. It keeps the claim of
// this edge, too.
func Follow(ctx context.Context, m *Manager) { m.fleet.follow(ctx) }

func (s *sharing) follow(ctx context.Context) {
	tick := time.NewTicker(followPeriod)
	defer tick.Stop()
	for {
		if s.store.Available() {
			_ = s.look(ctx) // it is asked again
		}
		s.held.keep(ctx, s.store)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// readAgain has all read again: there are other domains.
func (s *sharing) readAgain() { s.again.Store(true) }

// look reads what is new in the store, takes it over and puts right what is wrong there.
func (s *sharing) look(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.again.Swap(false) || s.looks%wholeEach == 0
	reading, cancel := context.WithTimeout(ctx, followPeriod)
	defer cancel()
	entries, whole, err := s.store.Changes(reading, all)
	if err != nil {
		s.again.Store(all)
		return err
	}
	s.looks++
	if whole {
		clear(s.there)
		clear(s.orders)
		s.account, s.strange = nil, false
	}
	for _, e := range entries {
		s.take(e)
	}
	s.restore(ctx)
	return nil
}

// take takes over an entry of the store. The caller holds mu.
func (s *sharing) take(e Entry) {
	switch e.Kind {
	case EntryAccount:
		s.strange = e.State == Stale
		if e.State == Good {
			s.takeAccount(e)
		}
	case EntryCertificate:
		switch e.State {
		case Good:
			s.takeCertificate(e)
		case Stale:
			s.there[e.Name] = &certificate{stale: true}
		case Forged, Older, Broken: // it is put right
			delete(s.there, e.Name)
		}
	case EntryOrder:
		delete(s.orders, e.Name)
		var o runningOrder
		if e.State == Good && json.Unmarshal(e.Text, &o) == nil && o.URL != "" {
			s.orders[e.Name] = o
		}
	case EntryAnswer:
		if e.State == Good {
			s.m.answers.share(e.Name, e.Text)
		}
	}
}

// takeAccount takes over the account's key, which the folder keeps, too.
func (s *sharing) takeAccount(e Entry) {
	if _, err := parseKey(e.Text); err != nil {
		e.State = Broken
		s.store.Refuse(e)
		return
	}
	s.account = e.Text
	own, err := s.m.folder.readAccount()
	if err == nil && !bytes.Equal(own, e.Text) {
		err = s.m.folder.write(accountFile, e.Text)
	}
	if err != nil {
		s.m.opts.Log.Warn("the account's key of the fleet cannot be kept in tls.acme.folder", zap.Error(err))
	}
}

// takeCertificate puts a certificate of the store into use, if it is not older than this edge's.
func (s *sharing) takeCertificate(e Entry) {
	d := s.m.set.Load().byName[e.Name]
	if d == nil {
		return // a reload that brings the domain has all read again
	}
	pair, err := parsePair(e.Name, e.Text)
	if err != nil {
		e.State = Broken
		s.store.Refuse(e)
		return
	}
	own := d.current.Load()
	switch {
	case own != nil && pair.Leaf.NotBefore.Before(own.Leaf.NotBefore):
		e.State = Older
		s.store.Refuse(e)
		delete(s.there, e.Name)
		return
	case own != nil && bytes.Equal(own.Certificate[0], pair.Certificate[0]):
		s.there[e.Name] = &certificate{raw: pair.Certificate[0]}
		return
	}
	s.there[e.Name] = &certificate{raw: pair.Certificate[0]}
	s.m.use(d, pair)
	s.m.opts.Log.Info("certificate taken over from the fleet",
		zap.String("domain", e.Name), zap.Time("not_after", pair.Leaf.NotAfter))
	keepPair(s.m, e.Name, e.Text)
	d.lookNow()
	wake(s.m)
}

// restore puts into the store what it lacks and this edge has. The caller holds mu.
func (s *sharing) restore(ctx context.Context) {
	for _, d := range s.m.set.Load().order {
		pair := d.current.Load()
		if pair == nil || s.there[d.name] != nil {
			continue
		}
		key, ok := pair.PrivateKey.(crypto.Signer)
		if !ok {
			continue
		}
		text, err := encodePair(key, pair.Certificate)
		if err == nil {
			err = s.put(ctx, Entry{Kind: EntryCertificate, Name: d.name, Text: text}, false)
		}
		if err == nil {
			s.there[d.name] = &certificate{raw: pair.Certificate[0]}
		}
	}
	if s.account != nil || s.strange {
		return
	}
	if own, err := s.m.folder.readAccount(); err == nil && own != nil {
		if s.put(ctx, Entry{Kind: EntryAccount, Text: own}, false) == nil {
			s.account = own
		}
	}
}

func (s *sharing) put(ctx context.Context, e Entry, claimed bool) error {
	ctx, cancel := context.WithTimeout(ctx, followPeriod)
	defer cancel()
	return s.store.Put(ctx, e, claimed)
}

// accountKey returns the key of the fleet's account, which the first edge makes that orders.
func (s *sharing) accountKey(ctx context.Context) (crypto.Signer, error) {
	key, err := s.firstAccountKey(ctx)
	if errors.Is(err, ErrChanged) { // another edge has made one at the same time
		if err := s.look(ctx); err != nil {
			return nil, err
		}
		return s.firstAccountKey(ctx)
	}
	return key, err
}

func (s *sharing) firstAccountKey(ctx context.Context) (crypto.Signer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.account != nil {
		return parseKey(s.account)
	}
	key, text, err := ownAccountKey(s.m.folder)
	if err != nil || s.strange { // that of the store is sealed for others: this edge has one of its own
		return key, err
	}
	if err := s.put(ctx, Entry{Kind: EntryAccount, Text: text}, false); err != nil {
		return nil, err
	}
	s.account = text
	return key, nil
}

// show puts the answer to a challenge into the store, and waits until the other edges have it.
func (s *sharing) show(ctx context.Context, domain string, a *answer) error {
	if err := s.putJSON(ctx, EntryAnswer, domain, a); err != nil {
		return err
	}
	select {
	case <-time.After(spreadTime):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *sharing) putJSON(ctx context.Context, kind EntryKind, domain string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(ctx, Entry{Kind: kind, Name: domain, Text: text}, true)
}

// end takes an entry of an order out, which is to be done also when the order was given up.
func (s *sharing) end(ctx context.Context, kind EntryKind, domain string) {
	_ = s.putJSON(context.WithoutCancel(ctx), kind, domain, struct{}{}) // the next order replaces it
}
