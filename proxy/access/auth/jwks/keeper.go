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
	refreshEvery = 5 * time.Minute
	leastPause   = 5 * time.Second // minimum time between fetches for tokens
	mostBackoff  = time.Minute

	longestWait  = time.Second      // maximum time that a token waits for a fetch
	mostWaiting  = 64               // maximum number of waiting tokens of one issuer
	absentFor    = 30 * time.Second // how long a kid counts as absent from the set
	suspectPause = 30 * time.Second // minimum time between fetches because of bad signatures
	mostAbsent   = 1024             // maximum number of remembered kids
)

// Options configure a Keeper.
type Options struct {
	Log   *zap.Logger
	Guard *guard.Guard
	// OnLoss is called when a set has lost a key. Calls with tokens that the lost key verified may
	// have to end.
	OnLoss func()
}

// Keeper keeps the key sets of issuers up to date. Its methods may be called from any goroutine.
type Keeper struct {
	opts  Options
	fetch func(ctx context.Context, url string) (*jwt.Set, error)

	mu      sync.Mutex
	sources map[string]*Source // by URL
	closed  bool
}

// New returns a Keeper without sources.
func New(o Options) *Keeper { return &Keeper{opts: o, fetch: fetch, sources: map[string]*Source{}} }

// Source returns the source of the set at a URL. The set is fetched once Follow lists it.
func (k *Keeper) Source(url string) *Source {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.sources[url]
	if s == nil {
		s = &Source{url: url, keeper: k, nudge: make(chan struct{}, 1), ended: make(chan struct{}), absent: map[jwt.Print]time.Time{}}
		k.sources[url] = s
	}
	return s
}

// Follow makes the keeper fetch the sets at these URLs, and no others.
func (k *Keeper) Follow(urls []string) {
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
			s.end()
			delete(k.sources, url)
		case s.cancel == nil:
			s.begin()
		}
	}
}

// Close stops all fetching.
func (k *Keeper) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	for _, s := range k.sources {
		s.end()
	}
}

// Source is the key set at one URL.
type Source struct {
	url    string
	keeper *Keeper
	cancel context.CancelFunc // set while the source is followed; guarded by Keeper.mu
	nudge  chan struct{}

	set     atomic.Pointer[jwt.Set]
	fetched atomic.Int64 // Unix time at which the set was fetched; 0: there is no set
	failed  atomic.Uint64
	trouble atomic.Pointer[string] // why the last fetch failed

	mu       sync.Mutex
	fetching bool
	good     bool // the last fetch succeeded
	asked    bool // a token has requested a fetch that has not started
	// closed when the running fetch ends, or if none is running, the next fetch
	ended    chan struct{}
	waiting  int                     // number of waiting tokens
	suspects time.Time               // when a bad signature last caused a fetch
	absent   map[jwt.Print]time.Time // headers of tokens for which the set has no key, with the time until which they count as absent
}

// miss records that the set has no key for tokens with that header. The caller must hold mu.
func (s *Source) miss(header jwt.Print, now time.Time) {
	if len(s.absent) >= mostAbsent { // most are guessed kids; kids in use are recorded again
		clear(s.absent)
	}
	s.absent[header] = now.Add(absentFor)
}

// Keys returns the set that was fetched last, or nil before the first fetch.
func (s *Source) Keys() *jwt.Set { return s.set.Load() }

// Renew requests a newer set for a token that the current set does not verify, and waits for at
// most a second until a fetch has ended. suspect means that the set has a key for the token, but
// the signature is wrong under that key. After Renew the caller calls Keys again. If final is true,
// the keys decide about the token: a fetch that started after the call to Renew has ended, or no
// fetch is due for such a token. final is false if the fetch has not ended, if it started before
// the call, or if too many tokens wait.
func (s *Source) Renew(t *jwt.Token, suspect bool) (final bool) {
	ended, fresh, final := s.join(t, suspect, time.Now())
	if ended == nil {
		return final
	}
	late := time.NewTimer(longestWait)
	defer late.Stop()
	select {
	case <-ended:
		final = fresh
	case <-late.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting--
	if set := s.Keys(); final && s.good && set != nil && !set.Knows(t) {
		s.miss(t.Header(), time.Now())
	}
	return final
}

// join makes a token wait for the running fetch, or requests a new fetch, and then fresh is true.
// If join returns no channel, the token does not wait, and Renew returns final.
func (s *Source) join(t *jwt.Token, suspect bool, now time.Time) (ended <-chan struct{}, fresh, final bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := !s.fetching && !s.asked
	if !suspect && now.Before(s.absent[t.Header()]) {
		return nil, false, true
	}
	if suspect && idle && now.Sub(s.suspects) < suspectPause {
		return nil, false, true
	}
	if s.waiting >= mostWaiting {
		return nil, false, false
	}
	s.waiting++
	if suspect && idle {
		s.suspects = now
	}
	if !s.fetching {
		s.asked = true
		select {
		case s.nudge <- struct{}{}:
		default:
		}
	}
	return s.ended, !s.fetching, false
}

// State is the state of a source, for operators.
type State struct {
	Keys     int
	Fetched  time.Time // zero: never
	Failures uint64    // failed fetches since the start
	Trouble  string    // why the last fetch failed; empty if it succeeded
}

// State returns the state of the source.
func (s *Source) State() (st State) {
	if set := s.set.Load(); set != nil {
		st.Keys, st.Fetched = set.Len(), time.Unix(s.fetched.Load(), 0)
	}
	st.Failures = s.failed.Load()
	if t := s.trouble.Load(); t != nil {
		st.Trouble = *t
	}
	return st
}

func (s *Source) begin() {
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	go s.keeper.opts.Guard.Loop(ctx.Done(), guard.Issuers, func() { s.follow(ctx) })
}

func (s *Source) end() {
	if s.cancel != nil {
		s.cancel()
		s.cancel = nil
	}
}

// follow fetches the set whenever it is due, until ctx ends.
func (s *Source) follow(ctx context.Context) {
	pause := time.Duration(0)
	asked := time.Time{} // when a token last caused a fetch
	for {
		s.keeper.opts.Guard.Point(guard.Issuers)
		err := s.refresh(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := refreshEvery
		if err != nil {
			pause = min(max(2*pause, time.Second), mostBackoff)
			wait = pause
		} else {
			pause = 0
		}
		nudged, ok := s.wait(ctx, wait, time.Until(asked.Add(leastPause)))
		if !ok {
			return
		}
		if nudged {
			asked = time.Now()
		}
	}
}

// wait waits until the next fetch is due. A fetch is due after most, or earlier if a token requests
// one, but never before least has passed. ok is false if ctx has ended.
func (s *Source) wait(ctx context.Context, most, least time.Duration) (nudged, ok bool) {
	due := time.NewTimer(most)
	defer due.Stop()
	quiet := time.NewTimer(least)
	defer quiet.Stop()
	var nudge chan struct{} // not nil once the last fetch for a token is long enough ago
	for {
		select {
		case <-due.C:
			return false, true
		case <-quiet.C:
			nudge = s.nudge
		case <-nudge:
			return true, true
		case <-ctx.Done():
			return false, false
		}
	}
}

// get fetches the set and keeps it, and releases the tokens that wait for the fetch.
func (s *Source) get(ctx context.Context) (before, set *jwt.Set, err error) {
	s.mu.Lock()
	s.fetching, s.asked = true, false
	select {
	case <-s.nudge:
	default:
	}
	s.mu.Unlock()
	defer func() { // even after a panic
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fetching, s.good = false, set != nil
		close(s.ended)
		s.ended = make(chan struct{})
	}()
	if set, err = s.keeper.fetch(ctx, s.url); err != nil {
		return nil, nil, err
	}
	s.fetched.Store(time.Now().Unix())
	return s.set.Swap(set), set, nil
}

// refresh fetches the set once.
func (s *Source) refresh(ctx context.Context) error {
	log := s.keeper.opts.Log
	before, set, err := s.get(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		s.failed.Add(1)
		text := err.Error()
		if s.trouble.Swap(&text) == nil {
			log.Warn("an issuer's keys cannot be fetched: the last ones stay in use", zap.String("jwks", s.url),
				zap.String("problem", text))
		}
		return err
	}
	if s.trouble.Swap(nil) != nil {
		log.Info("an issuer's keys can be fetched again", zap.String("jwks", s.url))
	}
	if before != nil && !before.Within(set) {
		log.Info("an issuer has withdrawn a key: its tokens are refused", zap.String("jwks", s.url),
			zap.Int("keys", set.Len()))
		s.keeper.opts.OnLoss()
	}
	return nil
}
