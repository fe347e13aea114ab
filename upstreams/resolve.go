package upstreams

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/upstreams/http1"
)

// lookupTimeout bounds one look-up of a name with `resolve`.
const lookupTimeout = 2 * time.Second

// addressWatch keeps the addresses of one base URL's name. No request ever waits for it: it looks
// up in the background, keeps the last good answer, and asks for a new plan when the answer
// changes.
type addressWatch struct {
	host  string
	every time.Duration

	mu      sync.Mutex
	current []string // sorted; empty until the first good answer
	cancel  context.CancelFunc
}

// lookUp asks for the addresses of every name with `resolve`, all names that are new at the same
// time.
func (p *Plan) lookUp(specs []config.Upstream) {
	var all sync.WaitGroup
	defer all.Wait()
	for i := range specs {
		base, err := http1.NormalizeURL(specs[i].URL)
		if err != nil || specs[i].Resolve <= 0 || p.resolving[base] != nil { // add reports what is wrong
			continue
		}
		p.set.mu.Lock()
		r := p.set.watches[base]
		p.set.mu.Unlock()
		if r == nil {
			u, err := url.Parse(base)
			if err != nil { // base is normalised
				continue
			}
			r = &addressWatch{host: u.Hostname(), every: specs[i].Resolve.D()}
			all.Go(func() {
				defer p.set.o.Guard.Catch(guardAddresses, nil)
				r.lookup(context.Background(), p.set)
			})
		}
		p.resolving[base] = r
	}
}

// addresses returns the addresses known for a base URL, which lookUp has asked for. One empty
// address stands for a name that has none yet: it is dialled by name.
func (p *Plan) addresses(base string, every time.Duration) []string {
	r := p.resolving[base]
	if r == nil {
		return []string{""}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.every = cmp.Or(every, r.every)
	if len(r.current) == 0 {
		return []string{""}
	}
	return slices.Clone(r.current)
}

// lookup asks once and reports whether the answer is another one. A failed or empty answer changes
// nothing.
func (r *addressWatch) lookup(ctx context.Context, s *Set) (changed bool) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	s.o.Guard.Point(guardAddresses)
	found, err := s.o.Lookup(ctx, r.host)
	if err != nil || len(found) == 0 {
		if ctx.Err() != context.Canceled {
			s.o.Log.Warn("upstream's name does not resolve: the addresses that it had, if any, stay in use",
				zap.String("host", r.host))
		}
		return false
	}
	slices.Sort(found)
	found = slices.Compact(found)
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Equal(found, r.current) {
		return false
	}
	r.current = found
	return true
}

func (r *addressWatch) start(s *Set) {
	ctx, cancel := context.WithCancel(context.Background())
	r.mu.Lock()
	r.cancel = cancel
	r.mu.Unlock()
	go s.o.Guard.Loop(ctx.Done(), guardAddresses, func() { r.run(ctx, s) })
}

func (r *addressWatch) run(ctx context.Context, s *Set) {
	for {
		r.mu.Lock()
		every := r.every
		if len(r.current) == 0 {
			every = min(every, 5*time.Second)
		}
		r.mu.Unlock()
		timer := time.NewTimer(every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if r.lookup(ctx, s) && ctx.Err() == nil && s.o.OnAddresses != nil {
			s.o.OnAddresses()
		}
	}
}

func (r *addressWatch) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancel != nil {
		r.cancel()
	}
}
