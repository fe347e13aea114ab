package jwks

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"penstock/proxy/auth/jwt"
	"penstock/proxy/guard"
)

const (
	refreshEvery = 5 * time.Minute
	leastPause   = 5 * time.Second // between fetches that tokens ask for
	mostBackoff  = time.Minute
)

// Options of a Keeper.
type Options struct {
	Log   *zap.Logger
	Guard *guard.Guard
	// OnLoss is called when a set has lost a key: what began with tokens of that key may have to end.
	OnLoss func()
}

// Keeper keeps the key sets of issuers. Its methods may be called from any goroutine.
type Keeper struct {
	opts  Options
	fetch func(ctx context.Context, url string) (*jwt.Set, error)

	mu      sync.Mutex
	sources map[string]*Source // by URL
	closed  bool
}

// New returns a Keeper without sources.
func New(o Options) *Keeper { return &Keeper{opts: o, fetch: fetch, sources: map[string]*Source{}} }

// Source returns what knows the set at a URL. It is fetched once Follow names it.
func (k *Keeper) Source(url string) *Source {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.sources[url]
	if s == nil {
		s = &Source{url: url, keeper: k, nudge: make(chan struct{}, 1)}
		k.sources[url] = s
	}
	return s
}

// Follow has the sets at these URLs followed, and no others.
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

// Close ends all fetching.
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
	cancel context.CancelFunc // while it is followed; held by Keeper.mu
	nudge  chan struct{}

	set     atomic.Pointer[jwt.Set]
	fetched atomic.Int64 // Unix time of the set; 0: there is none
	failed  atomic.Uint64
	trouble atomic.Pointer[string] // why the last fetch failed
}

// Keys returns the set that was fetched last, nil before the first.
func (s *Source) Keys() *jwt.Set { return s.set.Load() }

// Missing asks for a newer set: a token names a key that this one does not have. It returns at
// once.
func (s *Source) Missing() {
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

// State is what an operator sees of a source.
type State struct {
	Keys     int
	Fetched  time.Time // zero: never
	Failures uint64    // since the start
	Trouble  string    // why the last fetch failed; empty if it did not
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

// follow fetches the set whenever it is time, until ctx ends.
func (s *Source) follow(ctx context.Context) {
	pause := time.Duration(0)
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
		if !s.wait(ctx, wait) {
			return
		}
	}
}

// wait waits until the next fetch is due: after most, or when a token asks for it.
func (s *Source) wait(ctx context.Context, most time.Duration) bool {
	due := time.NewTimer(most)
	defer due.Stop()
	quiet := time.NewTimer(leastPause)
	defer quiet.Stop()
	var nudge chan struct{} // heard once the fetch before is long enough ago
	for {
		select {
		case <-due.C:
			return true
		case <-quiet.C:
			nudge = s.nudge
		case <-nudge:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// refresh fetches the set once.
func (s *Source) refresh(ctx context.Context) error {
	log := s.keeper.opts.Log
	set, err := s.keeper.fetch(ctx, s.url)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		s.failed.Add(1)
		text := err.Error()
		if s.trouble.Swap(&text) == nil {
			log.Warn("an issuer's keys cannot be fetched: those that were fetched last stay", zap.String("jwks", s.url),
				zap.String("problem", text))
		}
		return err
	}
	if s.trouble.Swap(nil) != nil {
		log.Info("an issuer's keys are fetched again", zap.String("jwks", s.url))
	}
	before := s.set.Swap(set)
	s.fetched.Store(time.Now().Unix())
	if before != nil && !before.Within(set) {
		log.Info("an issuer has withdrawn a key: its tokens are refused", zap.String("jwks", s.url),
			zap.Int("keys", set.Len()))
		s.keeper.opts.OnLoss()
	}
	return nil
}
