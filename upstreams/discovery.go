package upstreams

import (
	"context"
	"net/url"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/upstreams/http1"
)

// lookupTimeout bounds what a plan waits for the first answer of a discovery, and one look-up of a
// name.
const lookupTimeout = 2 * time.Second

// endpoint is one engine process that a discovery has found. The zero endpoint stands for what has
// not been found yet: it is dialled by the name in its URL.
type endpoint struct {
	key     string  // what makes it this one, beside the upstream's name and URL
	label   string  // what it is called behind the upstream's name
	address string  // what is dialled: an address, with a port if that is not the URL's
	weight  float64 // of the upstream's weight; 0: all of it
}

// discovery keeps the endpoints of one base URL, or of what else they are looked up by. No request
// ever waits for it: it looks up in the background, keeps the last good answer, and asks for a new
// plan when the answer changes.
type discovery struct {
	host string   // whose addresses are looked up
	srv  *srvName // in place of host; nil: none

	mu      sync.Mutex
	every   time.Duration
	current []endpoint // sorted; empty until the first good answer
	cancel  context.CancelFunc
}

// discoveryKey is what upstreams have in common that share a discovery; empty: the upstream has
// none.
func discoveryKey(spec *config.Upstream, base string) string {
	switch r := spec.Resolve; {
	case r.SRV != "":
		return "srv " + r.SRV
	case r.Every > 0:
		return base
	}
	return ""
}

// newDiscovery makes the discovery of an upstream that has one.
func newDiscovery(spec *config.Upstream, base string) *discovery {
	d := &discovery{every: spec.Resolve.Every.D()}
	if name := spec.Resolve.SRV; name != "" {
		d.host, d.srv = name, &srvName{name: name}
	} else if u, err := url.Parse(base); err == nil { // base is normalised
		d.host = u.Hostname()
	}
	return d
}

// lookUp asks every discovery of the specs for its first answer, all that are new at the same time.
func (p *Plan) lookUp(specs []config.Upstream) {
	var all sync.WaitGroup
	defer all.Wait()
	for i := range specs {
		base, err := http1.NormalizeURL(specs[i].URL)
		if err != nil { // add reports what is wrong
			continue
		}
		key := discoveryKey(&specs[i], base)
		if key == "" || p.discoveries[key] != nil {
			continue
		}
		p.set.mu.Lock()
		d := p.set.discoveries[key]
		p.set.mu.Unlock()
		if d == nil {
			d = newDiscovery(&specs[i], base)
			all.Go(func() {
				defer p.set.o.Guard.Catch(guardAddresses, nil)
				d.lookup(context.Background(), p.set)
			})
		}
		p.discoveries[key] = d
	}
}

// endpoints returns what is known to belong to an upstream, which lookUp has asked for: one, or
// several by a discovery. While that has found none, one without an address stands for them.
func (p *Plan) endpoints(spec *config.Upstream, base string) []endpoint {
	d := p.discoveries[discoveryKey(spec, base)]
	if d == nil {
		return []endpoint{{}}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.every = spec.Resolve.Every.D()
	if len(d.current) == 0 {
		return []endpoint{{}}
	}
	return slices.Clone(d.current)
}

// lookup asks once and reports whether the answer is another one. A failed or empty answer changes
// nothing.
func (d *discovery) lookup(ctx context.Context, s *Set) (changed bool) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	s.o.Guard.Point(guardAddresses)
	var found []endpoint
	var err error
	if d.srv != nil {
		found, err = d.srv.lookup(ctx, &s.o)
	} else {
		found, err = lookupHost(ctx, &s.o, d.host)
	}
	if err != nil || len(found) == 0 {
		if ctx.Err() != context.Canceled {
			s.o.Log.Warn("upstream's name does not resolve: the addresses that it had, if any, stay in use",
				zap.String("host", d.host))
		}
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Equal(found, d.current) {
		return false
	}
	d.current = found
	return true
}

func (d *discovery) start(s *Set) {
	ctx, cancel := context.WithCancel(context.Background())
	d.mu.Lock()
	d.cancel = cancel
	d.mu.Unlock()
	go s.o.Guard.Loop(ctx.Done(), guardAddresses, func() { d.run(ctx, s) })
}

func (d *discovery) run(ctx context.Context, s *Set) {
	for {
		d.mu.Lock()
		every := d.every
		if len(d.current) == 0 {
			every = min(every, 5*time.Second)
		}
		d.mu.Unlock()
		timer := time.NewTimer(every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if d.lookup(ctx, s) && ctx.Err() == nil && s.o.OnAddresses != nil {
			s.o.OnAddresses()
		}
	}
}

func (d *discovery) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cancel != nil {
		d.cancel()
	}
}
