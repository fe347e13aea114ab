package jwks

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"penstock/proxy/access/auth/jwt"
	"penstock/proxy/telemetry/guard"
)

const (
	refreshInterval  = 5 * time.Minute
	minFetchInterval = 5 * time.Second // minimum time between fetches for tokens
	maxBackoff       = time.Minute

	maxTokenWait         = time.Second      // maximum time that a token waits for a fetch
	maxWaitingTokens     = 64               // maximum number of waiting tokens per issuer
	absentTTL            = 30 * time.Second // how long a missing kid counts as absent
	badSignatureInterval = 30 * time.Second // minimum time between fetches because of bad signatures
	maxAbsentKids        = 1024             // maximum number of remembered kids
)

// Options configures a KeySetKeeper.
type Options struct {
	Log   *zap.Logger
	Guard *guard.Guard
	// OnLoss is called when an issuer has removed a key from its set. The caller may have to end
	// calls whose token was verified with that key.
	OnLoss func()
}

// KeySetKeeper keeps the key sets of issuers up to date. Its methods may be called by multiple
// goroutines.
type KeySetKeeper struct {
	opts  Options
	fetch func(ctx context.Context, url string) (*jwt.Set, error)

	mu      sync.Mutex
	sources map[string]*Source
	closed  bool
}

// New returns a KeySetKeeper without sources.
func New(o Options) *KeySetKeeper {
	return &KeySetKeeper{opts: o, fetch: fetchKeySet, sources: map[string]*Source{}}
}

// Source returns the Source for a URL. The KeySetKeeper does not fetch the set until FollowURLs is
// called with the URL.
func (k *KeySetKeeper) Source(url string) *Source {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.sources[url]
	if s == nil {
		s = &Source{url: url, keeper: k, fetchRequests: make(chan struct{}, 1), fetchDone: make(chan struct{}), absentUntil: map[jwt.Thumbprint]time.Time{}}
		k.sources[url] = s
	}
	return s
}

// FollowURLs makes the KeySetKeeper fetch exactly the sets at the given URLs.
func (k *KeySetKeeper) FollowURLs(urls []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	named := make(map[string]bool, len(urls))
	for _, url := range urls {
		named[url] = true
	}
	for url, s := range k.sources {
		switch {
		case !named[url]:
			s.stopFetching()
			delete(k.sources, url)
		case s.cancel == nil:
			s.startFetching()
		}
	}
}

// Close stops all fetching.
func (k *KeySetKeeper) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	for _, s := range k.sources {
		s.stopFetching()
	}
}

// Source is the key set at a URL.
type Source struct {
	url           string
	keeper        *KeySetKeeper
	cancel        context.CancelFunc // not nil while the source is followed; guarded by KeySetKeeper.mu
	fetchRequests chan struct{}

	set          atomic.Pointer[jwt.Set]
	fetchedAt    atomic.Int64 // Unix time of the last successful fetch; 0 if no fetch has succeeded
	failureCount atomic.Uint64
	lastError    atomic.Pointer[string]

	mu             sync.Mutex
	fetching       bool
	lastFetchOK    bool
	fetchRequested bool // whether a token has requested a fetch that has not started yet
	// fetchDone is closed at the end of the current fetch or, if none is running, of the next
	// fetch.
	fetchDone      chan struct{}
	waitingTokens  int
	badSignatureAt time.Time // when a wrong signature last caused a fetch
	// When each kid stops counting as absent, keyed by the hash of the token's header.
	absentUntil map[jwt.Thumbprint]time.Time
}

// recordAbsent records that the set has no key for tokens with this header. The caller must hold
// mu.
func (s *Source) recordAbsent(header jwt.Thumbprint, now time.Time) {
	// Most entries come from guessed kids; real ones are recorded again.
	if len(s.absentUntil) >= maxAbsentKids {
		clear(s.absentUntil)
	}
	s.absentUntil[header] = now.Add(absentTTL)
}

// Keys returns the set fetched last, or nil if no set was fetched.
func (s *Source) Keys() *jwt.Set { return s.set.Load() }

// Renew requests a newer set for a token that the current set cannot verify, and waits up to a
// second for the end of a fetch. suspect is true if the set contains the token's key but the
// signature is wrong. After Renew, the caller must call Keys again.
//
// If final is true, the result of Keys decides about the token, because a fetch has started and
// ended during Renew, or because the token must not cause a fetch. If final is false, the token may
// still be valid. This is the case if the fetch has not ended, if it had already started before
// Renew, or if too many tokens are waiting.
func (s *Source) Renew(t *jwt.Token, suspect bool) (final bool) {
	ended, fresh, final := s.joinFetch(t, suspect, time.Now())
	if ended == nil {
		return final
	}
	late := time.NewTimer(maxTokenWait)
	defer late.Stop()
	select {
	case <-ended:
		final = fresh
	case <-late.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waitingTokens--
	if set := s.Keys(); final && s.lastFetchOK && set != nil && !set.HasKeyFor(t) {
		s.recordAbsent(t.HeaderHash(), time.Now())
	}
	return final
}

// joinFetch lets a token wait for the current fetch. If fresh is true, the token waits for a new
// fetch instead. If ended is nil, the token must not wait, and Renew returns final immediately.
func (s *Source) joinFetch(t *jwt.Token, suspect bool, now time.Time) (ended <-chan struct{}, fresh, final bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := !s.fetching && !s.fetchRequested
	if !suspect && now.Before(s.absentUntil[t.HeaderHash()]) {
		return nil, false, true
	}
	if suspect && idle && now.Sub(s.badSignatureAt) < badSignatureInterval {
		return nil, false, true
	}
	if s.waitingTokens >= maxWaitingTokens {
		return nil, false, false
	}
	s.waitingTokens++
	if suspect && idle {
		s.badSignatureAt = now
	}
	if !s.fetching {
		s.fetchRequested = true
		select {
		case s.fetchRequests <- struct{}{}:
		default:
		}
	}
	return s.fetchDone, !s.fetching, false
}

// SourceState describes a source for operators.
type SourceState struct {
	Keys     int
	Fetched  time.Time // time of the last successful fetch; zero if no fetch has succeeded
	Failures uint64
	Trouble  string // why the last fetch failed; empty if the last fetch succeeded
}

// State returns the state of the source.
func (s *Source) State() (st SourceState) {
	if set := s.set.Load(); set != nil {
		st.Keys, st.Fetched = set.Len(), time.Unix(s.fetchedAt.Load(), 0)
	}
	st.Failures = s.failureCount.Load()
	if t := s.lastError.Load(); t != nil {
		st.Trouble = *t
	}
	return st
}

func (s *Source) startFetching() {
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	go s.keeper.opts.Guard.Loop(ctx.Done(), guard.PlaceIssuers, func() { s.fetchLoop(ctx) })
}

func (s *Source) stopFetching() {
	if s.cancel != nil {
		s.cancel()
		s.cancel = nil
	}
}

func (s *Source) fetchLoop(ctx context.Context) {
	pause := time.Duration(0)
	asked := time.Time{} // when the last fetch for a token started
	for {
		s.keeper.opts.Guard.PanicIfInjected(guard.PlaceIssuers)
		err := s.refresh(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := refreshInterval
		if err != nil {
			pause = min(max(2*pause, time.Second), maxBackoff)
			wait = pause
		} else {
			pause = 0
		}
		nudged, ok := s.waitForNextFetch(ctx, wait, time.Until(asked.Add(minFetchInterval)))
		if !ok {
			return
		}
		if nudged {
			asked = time.Now()
		}
	}
}

// waitForNextFetch waits until the next fetch is due, at most for the duration most. If a token
// requests a fetch, the fetch is due earlier, but not before least has passed. ok is false if ctx
// is done.
func (s *Source) waitForNextFetch(ctx context.Context, most, least time.Duration) (nudged, ok bool) {
	due := time.NewTimer(most)
	defer due.Stop()
	quiet := time.NewTimer(least)
	defer quiet.Stop()
	var nudge chan struct{} // not nil once least has passed
	for {
		select {
		case <-due.C:
			return false, true
		case <-quiet.C:
			nudge = s.fetchRequests
		case <-nudge:
			return true, true
		case <-ctx.Done():
			return false, false
		}
	}
}

func (s *Source) fetchOnce(ctx context.Context) (before, set *jwt.Set, err error) {
	s.mu.Lock()
	s.fetching, s.fetchRequested = true, false
	select {
	case <-s.fetchRequests:
	default:
	}
	s.mu.Unlock()
	defer func() { // deferred so that it runs even after a panic
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fetching, s.lastFetchOK = false, set != nil
		close(s.fetchDone)
		s.fetchDone = make(chan struct{})
	}()
	if set, err = s.keeper.fetch(ctx, s.url); err != nil {
		return nil, nil, err
	}
	s.fetchedAt.Store(time.Now().Unix())
	return s.set.Swap(set), set, nil
}

func (s *Source) refresh(ctx context.Context) error {
	log := s.keeper.opts.Log
	before, set, err := s.fetchOnce(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		s.failureCount.Add(1)
		text := err.Error()
		if s.lastError.Swap(&text) == nil {
			log.Warn("an issuer's keys cannot be fetched: the last ones stay in use", zap.String("jwks", s.url),
				zap.String("problem", text))
		}
		return err
	}
	if s.lastError.Swap(nil) != nil {
		log.Info("an issuer's keys can be fetched again", zap.String("jwks", s.url))
	}
	if before != nil && !before.IsSubsetOf(set) {
		log.Info("an issuer has withdrawn a key: its tokens are refused", zap.String("jwks", s.url),
			zap.Int("keys", set.Len()))
		s.keeper.opts.OnLoss()
	}
	return nil
}
