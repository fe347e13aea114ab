package upstreams

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/upstreams/engine"
	"penstock/upstreams/http1"
)

// ChangePlan contains the changes to a set for one configuration, ready to commit.
type ChangePlan struct {
	set         *Set
	profiles    *engine.Profiles
	items       []plannedUpstream
	index       map[*Upstream]int // indices into items
	byName      map[string][]*Upstream
	discoveries map[string]*endpointDiscovery
}

type plannedUpstream struct {
	up        *Upstream
	settings  *settings
	transport *http1.Transport // nil if unchanged
	isNew     bool
}

// PlanChanges computes which upstreams a configuration keeps, changes and adds. models determines which
// served names are expected at each upstream. engines contains the user's engine profiles, which
// are added to the bundled profiles. Plan does not change the set, but it reads certificate files.
// It runs new discoveries in parallel, for at most 2 s. If a look-up fails, the plan contains an
// upstream without an address as a placeholder until the discovery succeeds.
func (s *Set) PlanChanges(specs []config.Upstream, models []config.Model, engines ...config.Engine) (*ChangePlan, error) {
	profiles, err := s.profiles.Load().WithUserProfiles(engines)
	if err != nil {
		return nil, err
	}
	p := &ChangePlan{
		set: s, profiles: profiles, discoveries: map[string]*endpointDiscovery{},
		index: make(map[*Upstream]int, len(specs)), byName: make(map[string][]*Upstream, len(specs)),
	}
	p.awaitDiscoveries(specs)
	expected, works := expectedNames(models)
	for i := range specs {
		if err := p.addSpec(&specs[i], expected[specs[i].Name], works[specs[i].Name]); err != nil {
			return nil, fmt.Errorf("upstream %s: %w", specs[i].Name, err)
		}
	}
	return p, nil
}

// expectedNames returns the served names that models expect at each upstream, and the kinds of the
// models behind each name. A served name may belong to models of different kinds.
func expectedNames(models []config.Model) (out map[string][]string, works map[string][]probeTarget) {
	out, works = map[string][]string{}, map[string][]probeTarget{}
	named, seen := map[[2]string]bool{}, map[[3]string]bool{}
	for i := range models {
		for _, d := range models[i].Deployments {
			w := probeTarget{cmp.Or(d.Served, models[i].ID), models[i].Kind}
			if at := [2]string{d.Upstream, w.served}; !named[at] {
				named[at] = true
				out[d.Upstream] = append(out[d.Upstream], w.served)
			}
			if at := [3]string{d.Upstream, w.served, w.kind}; !seen[at] {
				seen[at] = true
				works[d.Upstream] = append(works[d.Upstream], w)
			}
		}
	}
	return out, works
}

func (p *ChangePlan) addSpec(spec *config.Upstream, expected []string, works []probeTarget) error {
	base, err := http1.NormalizeURL(spec.URL)
	if err != nil {
		return err
	}
	endpoints, source := p.endpoints(spec, base)
	for _, e := range endpoints {
		st := e.newSettings(spec, p)
		st.discovery, st.expected, st.probeTargets = source, expected, works
		profile, err := p.profiles.InitialProfile(st.spec.Engine)
		if err != nil {
			return err
		}
		if st.transport, err = newTransportConfig(&st.spec, base, e.address, profile); err != nil {
			return err
		}
		st.transport.options.Guard, st.transport.options.Dial = p.set.o.Guard, p.set.o.Dial
		if err = p.findOrCreate(base, e, profile, st); err != nil {
			return err
		}
	}
	return nil
}

// findOrCreate finds or creates the upstream with this URL and endpoint, and adds it to the plan.
func (p *ChangePlan) findOrCreate(base string, e discoveredEndpoint, profile *engine.Profile, st *settings) error {
	id := ID(st.spec.Name + " " + base)
	if e.key != "" {
		id += ID(" " + e.key)
	}
	st.transport.options.Upstream = string(id)
	item := plannedUpstream{settings: st}
	p.set.mu.Lock()
	item.up = p.set.byID[id]
	p.set.mu.Unlock()
	if item.isNew = item.up == nil; item.isNew {
		item.up = p.set.newUpstream(id, st, base, e, profile)
	}
	st.transport.options.Hosts = item.up.client.hosts
	// A retiring upstream also gets a new transport, because its old one may be closed before the
	// upstream is revived.
	if item.isNew || item.up.removal.isRetiring.Load() || item.up.settings.Load().transport.digest != st.transport.digest {
		var err error
		if item.transport, err = http1.NewTransport(st.transport.options); err != nil {
			return err
		}
		if item.isNew {
			item.up.client.transport.Store(item.transport)
		}
	}
	p.index[item.up] = len(p.items)
	p.items = append(p.items, item)
	p.byName[st.spec.Name] = append(p.byName[st.spec.Name], item.up)
	return nil
}

func (s *Set) newUpstream(id ID, st *settings, base string, e discoveredEndpoint, profile *engine.Profile) *Upstream {
	label := st.spec.Name
	if e.label != "" {
		label += "@" + e.label
	}
	u := &Upstream{identity: identity{id, st.spec.Name, label, base, e.address}, set: s}
	u.hooks = upstreamHooks{log: s.o.Log.With(zap.String("upstream", label)), guard: s.o.Guard, wakeWaiting: func() { s.o.OnRoom(u) }}
	u.hooks.modelsChanged = s.o.OnModels
	if s.o.SlotAccount != nil {
		u.hooks.slotAccount = func() FleetSlotAccount { return s.o.SlotAccount(u) }
	}
	u.client.hosts = http1.NewHostWatch(func(noReuse time.Duration) {
		u.hooks.log.Warn("unsolicited bytes from upstream: keep-alive disabled",
			zap.Duration("for", noReuse))
	})
	u.settings.Store(st)
	u.engine.Store(profile)
	u.Health.hooks, u.Health.onReturn, u.Health.facts.changedAt = &u.hooks, u.resetAfterReturn, time.Now()
	u.Health.Wake.Init(u.probeControl.requestWake)
	u.Health.Wake.Configure(st.spec.Wake)
	u.Health.facts.liveness.fall, u.Health.facts.liveness.rise = st.probe.fall, st.probe.rise
	u.Breaker.hooks, u.Breaker.onHalfOpen = &u.hooks, u.generations.scheduleBreakerTrial
	u.Breaker.openUntil.Store(breakerClosed)
	u.Models.init(u, profile, st)
	u.slots.hooks = &u.hooks
	u.slots.configure(&st.spec, st.weight, profile)
	u.probeControl.firstVerdict = make(chan struct{})
	u.generations.up = u
	u.series.createMetrics(u)
	return u
}

// Upstream returns the planned upstreams with a configured name: a single upstream, or an upstream
// for each discovered endpoint. It returns nil if the plan does not contain the name.
func (p *ChangePlan) Upstream(name string) []*Upstream { return p.byName[name] }

// Profiles returns the plan's engine profiles.
func (p *ChangePlan) Profiles() *engine.Profiles { return p.profiles }

// PlannedLimits returns the slot limits that an upstream will have after the commit. If the
// configuration does not set the limits, a later report of the engine may replace them. For an
// upstream that is not in the plan, PlannedLimits returns the zero value.
func (p *ChangePlan) PlannedLimits(u *Upstream) Limits {
	i, ok := p.index[u]
	if !ok {
		return Limits{}
	}
	st, profile := p.items[i].settings, u.engine.Load()
	if now := u.settings.Load(); now.spec.Engine != st.spec.Engine {
		profile = p.profiles.FallbackProfile(st.spec.Engine)
	}
	return u.slots.limitsWith(&st.spec, profile)
}

// HasUpstream reports whether the plan contains the upstream with this ID.
func (p *ChangePlan) HasUpstream(id ID) bool {
	return slices.ContainsFunc(p.items, func(item plannedUpstream) bool { return item.up.identity.id == id })
}

// IsNew reports whether the plan adds the upstream.
func (p *ChangePlan) IsNew(u *Upstream) bool {
	i, ok := p.index[u]
	return ok && p.items[i].isNew
}

// ProbeAdded must be called before the commit. It sends one probe to each of the given upstreams
// that the plan adds, in parallel. It returns when every probe has a verdict (see
// UnavailableReason) or ctx is done.
func (p *ChangePlan) ProbeAdded(ctx context.Context, ups []*Upstream) {
	var all sync.WaitGroup
	for _, u := range ups {
		if !p.IsNew(u) {
			continue
		}
		all.Go(func() {
			defer p.set.o.Guard.Catch(guardProbe, nil)
			st := u.settings.Load()
			transport, err := http1.NewTransport(st.transport.options.ProbeOptions())
			if err != nil {
				panicIfTesting("probe transport: " + err.Error())
				return
			}
			defer transport.Close()
			probe := newProber(u, transport.PageFetcher(), transport.CloseIdle)
			probe.engine = st.spec.Engine
			probe.probeOnce(ctx)
		})
	}
	all.Wait()
}

// transportConfig describes an upstream's transports. A reload compares two digests to detect
// changes, including changed certificate files. A digest reveals no secret.
type transportConfig struct {
	options http1.TransportOptions
	digest  [sha256.Size]byte
}

func newTransportConfig(spec *config.Upstream, base, address string, profile *engine.Profile) (transportConfig, error) {
	u, err := url.Parse(base)
	if err != nil {
		return transportConfig{}, err
	}
	o := http1.TransportOptions{URL: base, IdleTimeout: profile.KeepAlive(), APIKey: spec.APIKey.Value()}
	sum := sha256.New()
	if u.Scheme == "https" {
		files := http1.TLSFiles{CA: spec.TLS.CA, Cert: spec.TLS.Cert, Key: spec.TLS.Key, Insecure: spec.TLS.Insecure}
		if o.TLS, err = http1.LoadTLS(files, u.Hostname(), func(part []byte) {
			h := sha256.Sum256(part)
			sum.Write(h[:])
		}); err != nil {
			return transportConfig{}, err
		}
	}
	if address != "" {
		if !profile.HasQuirk(config.QuirkOwnHost) {
			o.Host = u.Host
		}
		if !hasPort(address) {
			address = net.JoinHostPort(address, cmp.Or(u.Port(), http1.DefaultPort(u.Scheme)))
		}
		u.Host = address
		o.URL = u.String()
	}
	fmt.Fprintf(sum, "%q %q %d %q %t", o.URL, o.Host, o.IdleTimeout, o.APIKey, spec.TLS.Insecure)
	l := transportConfig{options: o}
	sum.Sum(l.digest[:0])
	return l, nil
}

func hasPort(address string) bool {
	_, err := netip.ParseAddrPort(address)
	return err == nil
}
