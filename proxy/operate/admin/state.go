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

// CheckState judges the current state for the log and the status.StateWatch, even if no page is
// open. It should be called about every second, but not concurrently. CheckState omits the lists
// that only pages show, because with thousands of calls or keys, these lists would cause most of
// the edge's allocations.
func (s *Server) CheckState() {
	now := time.Now()
	in := status.Input{Now: now, KeysOver: func(ids map[string]bool) []status.Key {
		if ids == nil {
			return nil
		}
		return keyLimitStatuses(s.opts.Reloads.RunningSnapshot(), s.opts.Calls, ids, now)
	}}
	s.problemLog.logProblems(judgeEdgeState(s, &in), s.opts.Log)
}

// LastStateVerdict returns the verdict of the last CheckState.
func LastStateVerdict(s *Server) status.Verdict {
	if v := s.lastVerdict.Load(); v != nil {
		return *v
	}
	return status.Verdict{}
}

func (s *Server) buildStatus(who authenticatedCaller) *status.Status {
	now := time.Now()
	out := judgeEdgeState(s, &status.Input{
		Flights: s.opts.InFlight(now), Ended: s.opts.Calls.Recent.Newest(status.MaxShownEnded, now),
		Keys: keyLimitStatuses(s.opts.Reloads.RunningSnapshot(), s.opts.Calls, nil, now), Now: now,
	})
	out.Operable = out.Operable && config.AdminRoleAllows(who.role, config.AdminRoleAll)
	return out
}

// judgeEdgeState judges the state. The caller must have set in.Now, and may have set the lists in in.
func judgeEdgeState(s *Server, in *status.Input) *status.Status {
	snap, now, all := s.opts.Reloads.RunningSnapshot(), in.Now, s.opts.Set.All()
	queues := map[string]*status.Queue{}
	for i := range snap.Models {
		if m := &snap.Models[i]; m.Queue != nil {
			queues[m.Config.ID] = &status.Queue{
				Waiting: m.Queue.WaitingCallCount(), Depth: m.Config.Queue.Depth,
				Wait: m.Config.Queue.Wait.D().Seconds(),
			}
		}
	}
	in.Routes, in.Upstreams, in.Calls, in.Queues = snap.Routes, all, s.opts.Calls, queues
	out := status.New(in)
	out.Build, out.Version, out.Since, out.Started = build.Version(), snap.Version, snap.Since, s.opts.Started
	out.Process = processName(s.opts.Started)
	out.RejectsConnections = s.opts.TurnedAway(now)
	out.OnAdminPort, out.AdminPortShared = s.sharedPort.countOtherProcesses(now)
	out.Panicking, out.Unsaved = s.opts.Guard.StormPlace(now), s.opts.Calls.Usage.UnsavedTime().Seconds()
	out.Draining, out.Connections = s.opts.Draining(), s.opts.Connections()
	out.Operable = snap.Config.Admin.RequiresToken()
	out.Retries.Used, out.Retries.Allowed = s.opts.Retries.Usage(now, snap.Config.Retry.Budget)
	for _, g := range s.opts.Reloads.VersionsInUse() {
		out.Generations = append(out.Generations, status.ConfigGeneration{
			Version: g.Version, Since: g.Since,
			Calls: g.Calls(),
		})
	}
	out.Certificate = s.opts.Certificate()
	out.AdminCertificate = status.CertificateOf(s.opts.Listener.Certificate.ValidityPeriod())
	out.LastReload = reloadStatus(s.opts.Reloads.LastResult())
	out.Fleet = s.opts.Fleet.State()
	for _, d := range s.opts.Set.DiscoveryStatuses(now) {
		out.Discoveries = append(out.Discoveries, status.Discovery{DiscoveryStatus: d})
	}
	for _, d := range snap.DiscoveredModelCounts() {
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
			setting, _ := s.opts.Board.OperatorMode(u.ID())
			out.Upstreams[i].ModeWho = setting.Who
		}
	}
	out.SetVerdict(&s.watch)
	s.lastVerdict.Store(&out.Verdict)
	return out
}

func reloadStatus(r *reload.Result) *status.Reload {
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

// keyLimitStatuses returns the keys with the given ids (nil means all), sorted by id, followed by their
// groups.
func keyLimitStatuses(snap *snapshot.Snapshot, calls *observe.Calls, ids map[string]bool, now time.Time) []status.Key {
	today := calls.Usage.DayUsage(observe.DayOf(now))
	out := make([]status.Key, 0, len(snap.KeyLimits))
	groups := map[string]*status.Key{}
	for id, l := range snap.KeyLimits {
		if ids != nil && !ids[id] {
			continue
		}
		k := keyLimitStatus(id, l, now)
		day := today[id]
		k.Ends, k.Today = snap.ExpiryByKey[id], status.KeyDay{Calls: day.Calls, Tokens: uint64(day.Tokens())}
		if of, name := l.Group(); of != nil {
			g := groups[name]
			if g == nil {
				its := keyLimitStatus(name, of, now)
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

func keyLimitStatus(id string, l *limit.KeyLimiter, now time.Time) status.Key {
	k := status.Key{ID: id, Concurrency: l.ConcurrencyLimit()}
	if level, ok := l.RequestLevel(now); ok {
		k.Requests = &status.LimitUse{Used: level.Limit - level.Remaining, Limit: level.Limit}
	}
	if level, ok := l.TokenLevel(now); ok {
		k.Tokens = &status.LimitUse{Used: level.Limit - level.Remaining, Limit: level.Limit}
	}
	for _, b := range l.BudgetLevels(now) {
		k.Budgets = append(k.Budgets, budgetStatus(&b))
	}
	return k
}

func budgetStatus(l *limit.BudgetLevel) status.Budget {
	b := status.Budget{Name: strings.ReplaceAll(l.Name, " ", "_"), Share: l.UsedFraction(), Renews: l.Renews}
	b.Used, b.Limit = strconv.FormatInt(l.Used.Tokens, 10), strconv.FormatInt(l.Limit.Tokens, 10)
	if l.Spend {
		b.Used, b.Limit = l.Used.Spend.String(), l.Limit.Spend.String()
	}
	return b
}
