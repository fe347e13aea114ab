package upstreams

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/upstreams/dns"
	"penstock/upstreams/http1"
	"penstock/upstreams/kubernetes"
)

// lookupTimeout is the timeout of each look-up. It is also how long a plan waits for the first
// result of a discovery.
const lookupTimeout = 2 * time.Second

// discoveredEndpoint is one engine process that a discovery has found. Until a discovery
// succeeds, the zero discoveredEndpoint is a placeholder, and the edge dials the host in the
// upstream's URL.
type discoveredEndpoint struct {
	key         string  // identifies the endpoint, together with the upstream's name and URL
	label       string  // the endpoint's name, appended to the upstream's name
	address     string  // the address to dial, including the port if it differs from the port in the URL
	origin      string  // where the endpoint was found, for the operator
	weight      float64 // factor for the upstream's weight; 0 means 1
	engine      string  // profile used if the configuration names none; empty if unknown
	concurrency int     // replaces the configured concurrency, unless 0
}

func (e *discoveredEndpoint) newSettings(spec *config.Upstream, p *ChangePlan) *settings {
	st := &settings{
		spec: *spec, weight: cmp.Or(spec.Weight, 1) * cmp.Or(e.weight, 1), probe: newProbeSettings(&spec.Probe),
		endpoint: *e,
	}
	if e.concurrency > 0 {
		st.spec.Concurrency = config.Concurrency{Shared: e.concurrency}
	}
	open := cmp.Or(spec.Engine, config.EngineAuto) == config.EngineAuto
	if _, err := p.profiles.InitialProfile(e.engine); open && err == nil && e.engine != "" {
		st.spec.Engine = e.engine
	}
	return st
}

// endpointDiscovery tracks the endpoints of one base URL, SRV name or set of pods. It runs in the
// background, keeps the last successful result, and requests a new plan when the result changes. No
// client request waits for a discovery.
type endpointDiscovery struct {
	name     string                 // the query, for the operator
	resolver dns.Name               // nil if pods are watched
	pods     *kubernetes.PodWatcher // nil if names are looked up

	mu            sync.Mutex
	interval      time.Duration
	endpoints     []discoveredEndpoint // in a stable order
	readyKeys     map[string]bool      // by endpoint key; true if the pod is ready
	hasSucceeded  bool                 // at least one look-up has succeeded
	failingSince  time.Time            // when look-ups began to fail; zero if the last look-up succeeded
	lastSuccess   time.Time            // when a look-up last succeeded; zero if never
	failureText   string               // why look-ups fail
	failedLookups uint64               // failed look-ups
	cancel        context.CancelFunc

	series      *metrics.Set // guarded by the set's mutex
	metricsName string       // source name in the metrics; guarded by the set's mutex
}

// discoveryKey returns the key under which upstreams share a discovery. The key is empty for an
// upstream without discovery.
func discoveryKey(spec *config.Upstream, base string) string {
	switch r := spec.Resolve; {
	case spec.Kubernetes.IsSet():
		return "kubernetes " + urlPort(base) + " " + spec.Kubernetes.String()
	case r.SRV != "":
		return "srv " + r.SRV
	case r.Every > 0:
		return base
	}
	return ""
}

func urlPort(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return cmp.Or(u.Port(), http1.DefaultPort(u.Scheme))
}

// newDiscovery returns the discovery of an upstream, or nil if the upstream needs no discovery.
func (s *Set) newDiscovery(spec *config.Upstream, base string) *endpointDiscovery {
	d := &endpointDiscovery{interval: spec.Resolve.Every.D()}
	if spec.Kubernetes.IsSet() {
		port, _ := strconv.Atoi(urlPort(base))
		d.pods = kubernetes.New(&spec.Kubernetes, port, kubernetes.Options{Log: s.o.Log, Guard: s.o.Guard})
		d.name = d.pods.String()
	} else if name := spec.Resolve.SRV; name != "" {
		d.resolver = dns.NewService(name)
		d.name = d.resolver.String()
	} else if u, err := url.Parse(base); err == nil { // base is already normalised
		d.resolver = dns.Host(u.Hostname())
		d.name = d.resolver.String()
	}
	return d
}

// awaitDiscoveries waits for the first result of every discovery that the specs need. New
// discoveries run in parallel.
func (p *ChangePlan) awaitDiscoveries(specs []config.Upstream) {
	var all sync.WaitGroup
	defer all.Wait()
	for i := range specs {
		base, err := http1.NormalizeURL(specs[i].URL)
		if err != nil { // addSpec reports the error
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
			d = p.set.newDiscovery(&specs[i], base)
			all.Go(func() {
				defer p.set.o.Guard.Catch(guardAddresses, nil)
				d.refresh(context.Background(), p.set)
			})
		}
		p.discoveries[key] = d
	}
}

// endpoints returns the endpoints of an upstream: the configured endpoint, or the endpoints that
// the upstream's discovery has found. If the discovery has found no endpoints yet, endpoints
// returns one endpoint without an address.
func (p *ChangePlan) endpoints(spec *config.Upstream, base string) ([]discoveredEndpoint, *endpointDiscovery) {
	d := p.discoveries[discoveryKey(spec, base)]
	if d == nil {
		return []discoveredEndpoint{{}}, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.interval = spec.Resolve.Every.D()
	if len(d.endpoints) == 0 {
		return []discoveredEndpoint{{origin: d.name}}, d
	}
	return slices.Clone(d.endpoints), d
}

// refresh looks up the endpoints once and reports whether they have changed. If the look-up fails,
// or a name server returns an empty result, the previous endpoints stay.
func (d *endpointDiscovery) refresh(ctx context.Context, s *Set) (changed bool) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	s.o.Guard.PanicIfInjected(guardAddresses)
	if d.pods != nil {
		return d.pods.ListOnce(ctx) == nil && d.storeResult(d.podEndpoints())
	}
	found, err := d.resolver.LookUp(ctx, &dns.Resolver{Host: s.o.Lookup, SRV: s.o.LookupSRV})
	if err != nil || len(found) == 0 {
		if ctx.Err() != context.Canceled {
			if d.recordFailure("the name does not resolve") {
				s.o.Log.Warn("upstream's name does not resolve: the addresses that it had, if any, stay in use",
					zap.String("source", d.name))
			}
		}
		return false
	}
	out := make([]discoveredEndpoint, 0, len(found))
	for _, e := range found {
		out = append(out, discoveredEndpoint{key: e.Address, label: e.Address, address: e.Address, origin: d.name, weight: e.Weight})
	}
	return d.storeResult(out, nil)
}

// recordFailure records a failed look-up. It reports whether the previous look-up had succeeded.
func (d *endpointDiscovery) recordFailure(trouble string) (first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failedLookups++
	if d.failureText, first = trouble, d.failingSince.IsZero(); first {
		d.failingSince = time.Now()
	}
	return first
}

// storeResult stores a successful result, and reports whether it differs from the previous one.
// ready contains the keys of the ready endpoints, or is nil if readiness is unknown.
func (d *endpointDiscovery) storeResult(found []discoveredEndpoint, ready map[string]bool) (changed bool) {
	keys := make(map[string]bool, len(found))
	for i := range found {
		keys[found[i].key] = ready[found[i].key]
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	changed = !slices.Equal(found, d.endpoints) || d.pods != nil && !d.hasSucceeded
	d.endpoints, d.readyKeys, d.hasSucceeded = found, keys, true
	d.lastSuccess, d.failingSince, d.failureText = time.Now(), time.Time{}, ""
	return changed
}

// podEndpoints returns the endpoints of the pods that may get calls.
func (d *endpointDiscovery) podEndpoints() (out []discoveredEndpoint, ready map[string]bool) {
	pods, _ := d.pods.Endpoints()
	ready = make(map[string]bool, len(pods))
	for _, p := range pods {
		out = append(out, discoveredEndpoint{
			key: p.Key, label: p.Pod, address: p.Address, origin: d.pods.PodName(p.Pod),
			weight: p.Weight, engine: p.Engine, concurrency: p.Concurrency,
		})
		ready[p.Key] = p.Ready
	}
	return out, ready
}

// start runs the discovery in the background. The caller must hold the set's mutex.
func (d *endpointDiscovery) start(s *Set) {
	d.registerMetrics(s)
	ctx, cancel := context.WithCancel(context.Background())
	d.mu.Lock()
	d.cancel = cancel
	d.mu.Unlock()
	if d.pods == nil {
		go s.o.Guard.Loop(ctx.Done(), guardAddresses, func() { d.run(ctx, s) })
		return
	}
	go s.o.Guard.Loop(ctx.Done(), guardAddresses, func() { d.pods.Run(ctx, func() { d.handlePodsChange(ctx, s) }) })
	if d.pods.HasPool() {
		go s.o.Guard.Loop(ctx.Done(), guardAddresses, func() { d.pods.RunPool(ctx) })
	}
}

func (d *endpointDiscovery) run(ctx context.Context, s *Set) {
	for {
		d.mu.Lock()
		every := d.interval
		if len(d.endpoints) == 0 {
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
		if d.refresh(ctx, s) && ctx.Err() == nil && s.o.OnAddresses != nil {
			s.o.OnAddresses()
		}
	}
}

// handlePodsChange handles an event from the cluster. A deleted pod gets no new calls, even before
// a new plan omits it. Pods whose readiness has changed are probed immediately.
func (d *endpointDiscovery) handlePodsChange(ctx context.Context, s *Set) {
	s.o.Guard.PanicIfInjected(guardAddresses)
	d.mu.Lock()
	before := d.readyKeys
	d.mu.Unlock()
	found, ready := d.podEndpoints()
	changed := d.storeResult(found, ready)
	s.mu.Lock()
	for _, u := range s.byID {
		st := u.settings.Load()
		if st.discovery != d {
			continue
		}
		updatePodGoneState(u, st)
		now, here := ready[st.endpoint.key]
		if was, known := before[st.endpoint.key]; here && known && was != now {
			if !now {
				u.Health.markSuspect()
			}
			u.probeControl.probeNow()
		}
	}
	s.mu.Unlock()
	if changed && ctx.Err() == nil && s.o.OnAddresses != nil {
		s.o.OnAddresses()
	}
}

// updatePodGoneState stops new calls to an upstream while the upstream's discovery does not list its
// pod.
func updatePodGoneState(u *Upstream, st *settings) {
	d := st.discovery
	leaving := d != nil && d.pods != nil && d.isPodGone(st.endpoint.key)
	if u.removal.podGone.Swap(leaving) && !leaving {
		u.hooks.wakeWaiting()
	}
}

// isPodGone reports whether the pod with this key is gone. The placeholder endpoint counts as gone
// if a look-up has succeeded and found no pods.
func (d *endpointDiscovery) isPodGone(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if key == "" {
		return d.hasSucceeded && len(d.endpoints) == 0
	}
	_, here := d.readyKeys[key]
	return !here
}

// stop stops the background work. The caller must hold the set's mutex.
func (d *endpointDiscovery) stop(s *Set) {
	d.mu.Lock()
	if d.cancel != nil {
		d.cancel()
	}
	d.mu.Unlock()
	s.o.Unregister(d.series)
}

func lookupSRV(ctx context.Context, name string) ([]*net.SRV, error) {
	_, records, err := net.DefaultResolver.LookupSRV(ctx, "", "", name)
	return records, err
}

// DiscoveryResult is the result of LookUpEngines.
type DiscoveryResult struct {
	Upstream string        `json:"upstream"`
	Source   string        `json:"source"` // the query
	Engines  []FoundEngine `json:"engines"`
	Trouble  string        `json:"trouble,omitempty"` // why no engine was found
}

// FoundEngine describes one engine that a discovery has found.
type FoundEngine struct {
	Address  string  `json:"address"`
	Pod      string  `json:"pod,omitempty"`
	NotReady bool    `json:"not_ready,omitempty"` // the pod is not ready
	Weight   float64 `json:"weight,omitempty"`    // relative to other engines; 0 if not set
}

// LookUpEngines looks up an upstream's engines once, like an edge does when it starts. It returns nil
// for an upstream without discovery.
func LookUpEngines(ctx context.Context, spec *config.Upstream, r *dns.Resolver) *DiscoveryResult {
	base, err := http1.NormalizeURL(spec.URL)
	if err != nil || discoveryKey(spec, base) == "" {
		return nil
	}
	d := (&Set{o: Options{Log: zap.NewNop()}}).newDiscovery(spec, base)
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	out := &DiscoveryResult{Upstream: spec.Name, Source: d.name, Engines: []FoundEngine{}}
	if d.pods == nil {
		if r == nil {
			r = &dns.Resolver{Host: net.DefaultResolver.LookupHost, SRV: lookupSRV}
		}
		found, err := d.resolver.LookUp(ctx, r)
		for _, e := range found {
			out.Engines = append(out.Engines, FoundEngine{Address: e.Address, Weight: e.Weight})
		}
		switch {
		case err != nil:
			out.Trouble = err.Error()
		case len(found) == 0:
			out.Trouble = "the name exists but has no address"
		}
		return out
	}
	if err := d.pods.ListOnce(ctx); err != nil {
		out.Trouble = err.Error()
		return out
	}
	pods, _ := d.pods.Endpoints()
	for _, p := range pods {
		out.Engines = append(out.Engines, FoundEngine{p.Address, p.Pod, !p.Ready, p.Weight})
	}
	if len(pods) == 0 {
		out.Trouble = "the API server answers, but no selected pod has an address and is not terminating"
	}
	return out
}

// DiscoveryStatus is the status of a discovery in DNS or Kubernetes.
type DiscoveryStatus struct {
	// The query: DNS vllm, SRV _http._tcp.vllm, pods default/app=vllm.
	Source  string  `json:"source"`
	Targets int     `json:"targets"`            // endpoints in the last successful result
	Age     float64 `json:"age_seconds"`        // seconds since the last successful look-up; -1 if none
	Stale   float64 `json:"stale_seconds"`      // seconds since look-ups began to fail; 0 if they succeed
	Trouble string  `json:"trouble,omitempty"`  // why look-ups fail
	Failed  uint64  `json:"failed_since_start"` // failed look-ups
}

// DiscoveryStatuses returns the status of all discoveries, ordered by source.
func (s *Set) DiscoveryStatuses(now time.Time) []DiscoveryStatus {
	s.mu.Lock()
	all := make([]*endpointDiscovery, 0, len(s.discoveries))
	for _, d := range s.discoveries {
		all = append(all, d)
	}
	s.mu.Unlock()
	out := make([]DiscoveryStatus, 0, len(all))
	for _, d := range all {
		out = append(out, d.status(now))
	}
	slices.SortFunc(out, func(a, b DiscoveryStatus) int { return cmp.Compare(a.Source, b.Source) })
	return out
}

func (d *endpointDiscovery) status(now time.Time) DiscoveryStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	st := DiscoveryStatus{Source: d.name, Targets: len(d.endpoints), Age: secondsSince(d.lastSuccess, now), Trouble: d.failureText, Failed: d.failedLookups}
	if !d.failingSince.IsZero() {
		st.Stale = now.Sub(d.failingSince).Seconds()
	}
	if d.pods != nil {
		p := d.pods.Status()
		st.Age, st.Trouble, st.Failed = secondsSince(p.Listed, now), p.Trouble, p.Failed
		if p.Trouble != "" {
			st.Stale = now.Sub(p.Failing).Seconds()
		}
	}
	return st
}

// registerMetrics registers the metrics of the discovery. The caller must hold the set's mutex.
func (d *endpointDiscovery) registerMetrics(s *Set) {
	name := d.name
	for n := 2; s.usesMetricsName(name); n++ { // another discovery has the same source
		name = d.name + " #" + strconv.Itoa(n)
	}
	d.metricsName, d.series = name, metrics.NewSet()
	for metric, read := range map[string]func(DiscoveryStatus) float64{
		"penstock_discovery_targets":       func(d DiscoveryStatus) float64 { return float64(d.Targets) },
		"penstock_discovery_stale_seconds": func(d DiscoveryStatus) float64 { return d.Stale },
		"penstock_discovery_failed_total":  func(d DiscoveryStatus) float64 { return float64(d.Failed) },
	} {
		d.series.NewGauge(metric+"{source="+strconv.Quote(name)+"}", func() float64 { return read(d.status(time.Now())) })
	}
	s.o.Register(d.series)
}

// usesMetricsName reports whether a discovery's metrics use this source name.
func (s *Set) usesMetricsName(name string) bool {
	for _, d := range s.discoveries {
		if d.metricsName == name {
			return true
		}
	}
	return false
}
