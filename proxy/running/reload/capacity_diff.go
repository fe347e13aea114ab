package reload

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"penstock/config"
	"penstock/proxy/front/plaintext"
	"penstock/proxy/running/snapshot"
	"penstock/routing"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

type capacitySide struct {
	file   *config.File
	routes *routing.Table
	limits func(*upstreams.Upstream) upstreams.Limits
	// isConfigured reports whether an upstream is configured. It is set only for the new
	// configuration.
	isConfigured func(upstreams.ID) bool
}

// sumRouteSlots sums the slots that calls of the model's kind can use at a route's upstreams.
func (s *capacitySide) sumRouteSlots(r *routing.Route) (slots int, ids []upstreams.ID, assumed bool) {
	kind := s.file.Models[r.Index].Kind
	for _, t := range r.Targets() {
		if slices.Contains(ids, t.Upstream.ID()) {
			continue
		}
		ids = append(ids, t.Upstream.ID())
		if t.Tier != r.Targets()[0].Tier || t.Arm != "" { // other tiers and arms do not count
			continue
		}
		l := s.limits(t.Upstream)
		slots += slotsForKind(kind, l)
		assumed = assumed || l.Source == engine.SlotsOfProfile || l.Source == engine.SlotsDefault
	}
	return slots, ids, assumed
}

func slotsForKind(kind string, l upstreams.Limits) int {
	switch {
	case kind == config.ModelKindTranscription || kind == config.ModelKindSpeech:
		return l.Audio
	case l.Shared || kind != config.ModelKindChat:
		return l.Text
	}
	return l.Text + l.Vision
}

// compareCapacity returns the models whose slots or upstreams change, in the order of the new file.
// Removed models come last. It reports that the routes in lost, which would lose their capacity,
// have no slots afterwards.
func compareCapacity(old, next *capacitySide, lost []*routing.Route) []CapacityChange {
	before := map[string]*routing.Route{}
	for _, r := range old.routes.Routes() {
		before[r.ID] = r
	}
	var out []CapacityChange
	for _, r := range next.routes.Routes() {
		c := CapacityChange{Model: r.ID, Kind: string(config.SettingChanged)}
		var now, was []upstreams.ID
		c.SlotsAfter, now, c.Assumed = next.sumRouteSlots(r)
		if slices.Contains(lost, r) {
			c.SlotsAfter, c.Assumed = 0, false
		}
		if b := before[r.ID]; b != nil {
			c.SlotsBefore, was, _ = old.sumRouteSlots(b)
		} else {
			c.Kind = string(config.SettingAdded)
		}
		delete(before, r.ID)
		c.Added = len(idsNotIn(now, was))
		countRemovedUpstreams(&c, idsNotIn(was, now), next)
		if c.Kind == string(config.SettingAdded) || c.SlotsBefore != c.SlotsAfter || c.Added+c.Draining+c.Dropped > 0 {
			out = append(out, c)
		}
	}
	for _, r := range old.routes.Routes() {
		if before[r.ID] == nil {
			continue
		}
		slots, ids, _ := old.sumRouteSlots(r)
		c := CapacityChange{Model: r.ID, Kind: string(config.SettingRemoved), SlotsBefore: slots}
		countRemovedUpstreams(&c, ids, next)
		out = append(out, c)
	}
	return out
}

func countRemovedUpstreams(c *CapacityChange, ids []upstreams.ID, next *capacitySide) {
	for _, id := range ids {
		if next.isConfigured(id) {
			c.Dropped++
		} else {
			c.Draining++
		}
	}
}

func idsNotIn(a, b []upstreams.ID) (out []upstreams.ID) {
	for _, id := range a {
		if !slices.Contains(b, id) {
			out = append(out, id)
		}
	}
	return out
}

// modelsLosingCapacity returns the models that can serve calls now, but that the plan would leave
// without a slot or without an upstream that accepts calls. It first probes the upstreams that the
// plan adds to these models.
func modelsLosingCapacity(ctx context.Context, old *snapshot.Snapshot, next *capacitySide,
	plan *upstreams.ChangePlan,
) []*routing.Route {
	var risky []*routing.Route
	var unknown []*upstreams.Upstream
	for _, r := range next.routes.Routes() {
		before, ok := old.ModelByID(r.ID)
		if !ok || !canServe(before) || next.canServe(r) {
			continue
		}
		risky = append(risky, r)
		for _, t := range r.Targets() {
			unknown = append(unknown, t.Upstream)
		}
	}
	if len(risky) == 0 {
		return nil
	}
	plan.ProbeAdded(ctx, unknown)
	return slices.DeleteFunc(risky, next.canServe)
}

// canServe reports whether at least one upstream that accepts calls has a slot for the model.
func canServe(m *snapshot.Model) bool {
	return slices.ContainsFunc(m.Route.Targets(), func(t routing.Target) bool {
		return slotsForKind(m.Config.Kind, t.Upstream.Limits()) > 0 && t.Upstream.UnavailableReason(t.Served) == ""
	})
}

func (s *capacitySide) canServe(r *routing.Route) bool {
	return slices.ContainsFunc(r.Targets(), func(t routing.Target) bool { return s.unavailableReason(r, &t) == "" })
}

func (s *capacitySide) unavailableReason(r *routing.Route, t *routing.Target) string {
	if slotsForKind(s.file.Models[r.Index].Kind, s.limits(t.Upstream)) == 0 {
		return fmt.Sprintf("upstream %s: its concurrency has no slots for this kind of model", t.Upstream.Label())
	}
	return t.Upstream.UnavailableReason(t.Served)
}

func (s *capacitySide) capacityProblem(r *routing.Route) config.Problem {
	var reasons []string
	for _, t := range r.Targets() {
		if reason := s.unavailableReason(r, &t); !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	return s.file.ProblemAt(fmt.Sprintf("models[%d].deployments", r.Index), fmt.Sprintf(
		"the model %s would be left without a slot (%s): bring an upstream of it up first, or apply it all the same with \"penstock reload --force\"",
		r.ID, strings.Join(reasons, "; ")))
}

// WriteDiff writes what changes when one configuration replaces another. It writes one line per
// model whose slots change, and one per changed setting. It needs no running edge and does not
// query the engines, so it estimates slots that the files do not set.
func WriteDiff(w io.Writer, old, next *config.File) error {
	var sides [2]capacitySide
	for i, f := range []*config.File{old, next} {
		set, err := upstreams.NewSet(upstreams.Options{})
		if err != nil {
			return err
		}
		defer set.Close(context.Background()) //nolint:errcheck // nothing of it was ever live
		plan, err := set.PlanChanges(f.Upstreams, f.Models, f.Engines...)
		if err != nil {
			return err
		}
		routes, err := routing.BuildTable(f, plan, nil)
		if err != nil {
			return err
		}
		sides[i] = capacitySide{file: f, routes: routes, limits: plan.PlannedLimits, isConfigured: plan.HasUpstream}
	}
	for _, c := range compareCapacity(&sides[0], &sides[1], nil) {
		fmt.Fprintln(w, " ", plaintext.CleanLine(c.String()))
	}
	for _, c := range config.Diff(old, next) {
		fmt.Fprintln(w, " ", plaintext.CleanLine(c.String()))
	}
	return nil
}
