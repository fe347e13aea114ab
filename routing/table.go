package routing

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"penstock/config"
	"penstock/routing/turns"
	"penstock/upstreams"
)

// UpstreamResolver returns the live upstreams for a configured name. If the name resolves to more
// than one address, each address is an upstream. *upstreams.ChangePlan implements it, and tests use
// a map.
type UpstreamResolver interface {
	Upstream(name string) []*upstreams.Upstream
}

// Table maps every public model name to its Route. It is immutable and safe for concurrent use.
type Table struct {
	byName   map[string]*Route
	patterns []aliasPattern // longest prefix first
	routes   []*Route       // in configuration order
	Claims   *SlotClaims    // claims of all routes
}

// aliasPattern is an alias that ends in "*".
type aliasPattern struct {
	prefix string
	route  *Route
}

// BuildTable compiles the models of f. The routes inherit the state of keep (rotating start, prefix
// index, claims). keep may be nil. BuildTable returns an error only if f was not validated.
func BuildTable(f *config.File, r UpstreamResolver, keep *Table) (*Table, error) {
	t := &Table{byName: make(map[string]*Route, len(f.Models)), Claims: &SlotClaims{}}
	if keep != nil {
		t.Claims = keep.Claims
	}
	external := make(map[string]bool, len(f.Upstreams))
	for i := range f.Upstreams {
		external[f.Upstreams[i].Name] = f.Upstreams[i].External
	}
	for i := range f.Models {
		m := &f.Models[i]
		route, err := newRoute(f, i, external, r, keep)
		if err != nil {
			return nil, err
		}
		route.claims = t.Claims
		t.routes = append(t.routes, route)
		t.byName[m.ID] = route
		for _, alias := range m.Aliases {
			if prefix, ok := strings.CutSuffix(alias, "*"); ok {
				t.patterns = append(t.patterns, aliasPattern{prefix, route})
			} else {
				t.byName[alias] = route
			}
		}
	}
	sort.SliceStable(t.patterns, func(i, j int) bool { return len(t.patterns[i].prefix) > len(t.patterns[j].prefix) })
	return t, nil
}

// previousRoute returns the model's route in t, or nil. t may be nil.
func (t *Table) previousRoute(id string) *Route {
	if t != nil {
		if r, ok := t.byName[id]; ok && r.ID == id {
			return r
		}
	}
	return &Route{startCounter: new(atomic.Uint32), scheduler: new(turns.Scheduler)}
}

func newRoute(f *config.File, index int, external map[string]bool, r UpstreamResolver, keep *Table) (*Route, error) {
	m := &f.Models[index]
	before := keep.previousRoute(m.ID)
	route := &Route{
		ID: m.ID, Index: index, policy: parsePolicy(m.Policy), startCounter: before.startCounter, scheduler: before.scheduler, seed: xxhash.Sum64String(m.ID),
	}
	when := map[int]string{}
	for _, d := range m.Deployments {
		ups := r.Upstream(d.Upstream)
		if len(ups) == 0 {
			return nil, fmt.Errorf("model %s: deployment names upstream %s, which does not exist", m.ID, d.Upstream)
		}
		served := d.Served
		if served == "" {
			served = m.ID
		}
		arm := getOrAddArmNumber(route, &d)
		for _, u := range ups {
			t := Target{
				Upstream: u, Served: served, Tier: d.Tier, isExternal: external[d.Upstream],
				Arm: d.Arm, armNumber: arm, maxPromptTokens: d.PromptTokens.Max, model: u.Models.FindModel(served), requiredFeatures: upstreams.KindFeature(m.Kind),
			}
			route.targets = append(route.targets, t)
			route.hasLengthLimits = route.hasLengthLimits || t.maxPromptTokens > 0
		}
		when[d.Tier] = d.When
	}
	if route.policy != policyRoundRobin && len(route.targets) > 1 {
		var err error
		if route.prefixIndex, err = newPrefixIndex(route.targets, before.prefixIndex, f.Fleet.HasStore()); err != nil {
			return nil, err
		}
	}
	splitTiers(route, when)
	route.initSiblingSpeeds()
	for _, tier := range route.Tiers {
		tier.initSiblingSpeeds()
	}
	return route, nil
}

// initSiblingSpeeds sets siblingSpeeds, which estimates the speed of a target with few measurements
// from the speeds of the other targets.
func (r *Route) initSiblingSpeeds() {
	models := make([]*upstreams.ServedModel, len(r.targets))
	for i := range r.targets {
		models[i] = r.targets[i].model
	}
	r.siblingSpeeds = upstreams.NewSiblingSpeeds(models)
}

// splitTiers sorts a route's targets by tier, and creates the tiers if there is more than one.
func splitTiers(r *Route, when map[int]string) {
	slices.SortStableFunc(r.targets, func(a, b Target) int { return cmp.Compare(a.Tier, b.Tier) })
	if r.targets[len(r.targets)-1].Tier == r.targets[0].Tier {
		return
	}
	for rest := r.targets; len(rest) > 0; {
		tier := rest[0].Tier
		n := slices.IndexFunc(rest, func(t Target) bool { return t.Tier != tier })
		if n < 0 {
			n = len(rest)
		}
		own := *r
		own.targets, own.Tiers, own.When = rest[:n:n], nil, when[tier]
		r.Tiers = append(r.Tiers, &own)
		rest = rest[n:]
	}
}

// Lookup returns the route of a model id or alias. An exact name takes precedence over a name
// without its variant in brackets, and both take precedence over a pattern. A longer pattern takes
// precedence over a shorter one.
func (t *Table) Lookup(model []byte) (*Route, bool) {
	if r, ok := t.byName[string(model)]; ok {
		return r, true
	}
	if r, ok := t.byName[string(config.WithoutVariant(model))]; ok {
		return r, true
	}
	for i := range t.patterns {
		if p := &t.patterns[i]; len(model) >= len(p.prefix) && string(model[:len(p.prefix)]) == p.prefix {
			return p.route, true
		}
	}
	return nil, false
}

// Routes returns all routes in configuration order. Callers must not modify the slice.
func (t *Table) Routes() []*Route { return t.routes }
