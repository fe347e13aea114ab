package admin

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"penstock/config"
	"penstock/proxy/access/limit"
	"penstock/proxy/build"
	"penstock/proxy/operate/status"
	"penstock/proxy/running/reload"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/observe"
	"penstock/upstreams"
)

// Look judges the current state for the log and the watch, even if no page is open. It should be
// called about every second, but not concurrently. Look omits the lists that only pages show. If
// there are thousands of calls or keys, these lists would cause most of the edge's allocations.
func (s *Server) Look() {
	now := time.Now()
	in := status.Input{Now: now, KeysOver: func(ids map[string]bool) []status.Key {
		if ids == nil {
			return nil
		}
		return keysOf(s.opts.Reloads.Running(), s.opts.Calls, ids, now)
	}}
	s.alarms.look(see(s, &in), s.opts.Log)
}

// VerdictOf returns the verdict of the last Look.
func VerdictOf(s *Server) status.Verdict {
	if v := s.verdict.Load(); v != nil {
		return *v
	}
	return status.Verdict{}
}

func (s *Server) status(who caller) *status.Status {
	now := time.Now()
	out := see(s, &status.Input{
		Flights: s.opts.InFlight(now), Ended: s.opts.Calls.Recent.Newest(status.ShownEnded, now),
		Keys: keysOf(s.opts.Reloads.Running(), s.opts.Calls, nil, now), Now: now,
	})
	out.Operable = out.Operable && config.RoleMay(who.role, config.RoleAll)
	return out
}

// see judges the state. The caller must have set in.Now, and may have set the lists in in.
func see(s *Server, in *status.Input) *status.Status {
	snap, now, all := s.opts.Reloads.Running(), in.Now, s.opts.Set.All()
	queues := map[string]*status.Queue{}
	for i := range snap.Models {
		if m := &snap.Models[i]; m.Queue != nil {
			queues[m.Config.ID] = &status.Queue{
				Waiting: m.Queue.Waiting(), Depth: m.Config.Queue.Depth,
				Wait: m.Config.Queue.Wait.D().Seconds(),
			}
		}
	}
	in.Routes, in.Upstreams, in.Calls, in.Queues = snap.Routes, all, s.opts.Calls, queues
	out := status.Of(in)
	out.Build, out.Version, out.Since, out.Started = build.Version(), snap.Version, snap.Since, s.opts.Started
	out.Process = processName(s.opts.Started)
	out.TurnedAway = s.opts.TurnedAway(now)
	out.OnAdminPort, out.AdminPortShared = s.port.look(now)
	out.Panicking, out.Unsaved = s.opts.Guard.Storm(now), s.opts.Calls.Usage.Unsaved().Seconds()
	out.Draining, out.Connections = s.opts.Draining(), s.opts.Connections()
	out.Operable = snap.Config.Admin.Guarded()
	out.Retries.Used, out.Retries.Allowed = s.opts.Retries.State(now, snap.Config.Retry.Budget)
	for _, g := range s.opts.Reloads.Versions() {
		out.Generations = append(out.Generations, status.Generation{
			Version: g.Version, Since: g.Since,
			Calls: g.Calls(),
		})
	}
	out.Certificate = s.opts.Certificate()
	out.AdminCertificate = status.CertificateOf(s.opts.Listener.Certificate.Valid())
	out.LastReload = pageOf(s.opts.Reloads.Last())
	out.Fleet = s.opts.Fleet.State()
	for _, d := range s.opts.Set.Discoveries(now) {
		out.Discoveries = append(out.Discoveries, status.Discovery{Discovery: d})
	}
	for _, d := range snap.DiscoveredModels() {
		out.Discovered = append(out.Discovered, status.DiscoveredModels(d))
	}
	for i := range snap.Models {
		m := &snap.Models[i]
		shown, c := &out.Models[i], m.Config
		shown.Fallback = c.Fallback
		shown.Found, shown.Deprecated, shown.Sunset = c.Discovered, c.Deprecated, c.Sunset
		if m.Shadow != nil {
			shown.Shadow = status.ShadowOf(c.ID, m.Shadow.Config.ID, float64(c.Shadow.Share)/100, s.opts.Calls)
		}
	}
	out.Issuers, out.Hooks, out.Copies = s.opts.Issuers(now), s.opts.Hooks(now), s.opts.Copies(now)
	for i, u := range all {
		if s.opts.Board != nil && u.Mode() != upstreams.ModeReady {
			setting, _ := s.opts.Board.Mode(u.ID())
			out.Upstreams[i].ModeWho = setting.Who
		}
	}
	out.Judge(&s.watch)
	s.verdict.Store(&out.Verdict)
	return out
}

func pageOf(r *reload.Result) *status.Reload {
	if r == nil {
		return nil
	}
	p := &status.Reload{
		At: r.At, Source: r.Source, OK: r.OK, Unchanged: r.Unchanged, KeysInForce: r.KeysInForce, Version: r.Version,
		Changes: r.Changes, Restart: r.Restart, Problems: r.Problems, Seconds: r.Seconds,
	}
	for _, c := range r.Capacity {
		p.Capacity = append(p.Capacity, c.String())
	}
	return p
}

// keysOf returns the keys with the given ids (nil means all), sorted by id, followed by their
// groups.
func keysOf(snap *snapshot.Snapshot, calls *observe.Calls, ids map[string]bool, now time.Time) []status.Key {
	today := calls.Usage.Day(observe.DayOf(now))
	out := make([]status.Key, 0, len(snap.KeyLimits))
	groups := map[string]*status.Key{}
	for id, l := range snap.KeyLimits {
		if ids != nil && !ids[id] {
			continue
		}
		k := useOf(id, l, now)
		day := today[id]
		k.Ends, k.Today = snap.Ends[id], status.KeyDay{Calls: day.Calls, Tokens: uint64(day.Tokens())}
		if of, name := l.Group(); of != nil {
			g := groups[name]
			if g == nil {
				its := useOf(name, of, now)
				its.IsGroup, g = true, &its
				groups[name] = g
			}
			k.Group = name
			g.Today.Calls, g.Today.Tokens = g.Today.Calls+k.Today.Calls, g.Today.Tokens+k.Today.Tokens
		}
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b status.Key) int { return cmp.Compare(a.ID, b.ID) })
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, *groups[name])
	}
	return out
}

func useOf(id string, l *limit.Key, now time.Time) status.Key {
	k := status.Key{ID: id, Concurrency: l.Concurrency()}
	if level, ok := l.Requests(now); ok {
		k.Requests = &status.Use{Used: level.Limit - level.Remaining, Limit: level.Limit}
	}
	if level, ok := l.Tokens(now); ok {
		k.Tokens = &status.Use{Used: level.Limit - level.Remaining, Limit: level.Limit}
	}
	for _, b := range l.Budgets(now) {
		k.Budgets = append(k.Budgets, budgetOf(&b))
	}
	return k
}

func budgetOf(l *limit.BudgetLevel) status.Budget {
	b := status.Budget{Name: strings.ReplaceAll(l.Name, " ", "_"), Share: l.Share(), Renews: l.Renews}
	b.Used, b.Limit = strconv.FormatInt(l.Used.Tokens, 10), strconv.FormatInt(l.Limit.Tokens, 10)
	if l.Spend {
		b.Used, b.Limit = l.Used.Spend.String(), l.Limit.Spend.String()
	}
	return b
}
