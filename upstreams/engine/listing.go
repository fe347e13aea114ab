package engine

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// listingMost is the maximum number of an engine's models that are tracked.
const listingMost = 1024

// Listing tracks an engine's models from list to list. A model is added by the first list that has
// it, and removed by the second list in a row that lacks it, because an engine that starts or swaps
// models may show an incomplete list for a moment. The zero value has no models and no list. A
// Listing is not safe for concurrent use.
type Listing struct {
	Listed bool // at least one list was read
	models map[string]ModelInfo
	absent map[string]bool // models that the newest list lacked
}

// Observe records a newer list, and reports whether the set of models or their kinds have changed.
func (f *Listing) Observe(infos []ModelInfo) (changed bool) {
	if len(infos) > listingMost { // keep the same models, whatever the order of the list
		infos = slices.SortedFunc(slices.Values(infos), func(a, b ModelInfo) int { return cmp.Compare(a.ID, b.ID) })
	}
	next, absent := make(map[string]ModelInfo, len(infos)), map[string]bool{}
	for i := range infos {
		if m := &infos[i]; len(next) < listingMost {
			next[m.ID] = ModelInfo{ID: m.ID, Kind: m.Kind, Parent: m.Parent, Aliases: m.Aliases}
		}
	}
	for id, m := range f.models {
		if _, listed := next[id]; !listed && !f.absent[id] {
			next[id], absent[id] = m, true
		}
	}
	same := func(a, b ModelInfo) bool { return a.Kind == b.Kind && a.Parent == b.Parent }
	changed = !f.Listed || !maps.EqualFunc(f.models, next, same)
	f.Listed, f.models, f.absent = true, next, absent
	return changed
}

// All returns the models, ordered by name.
func (f *Listing) All() []ModelInfo {
	var out []ModelInfo
	for _, id := range slices.Sorted(maps.Keys(f.models)) {
		out = append(out, f.models[id])
	}
	return out
}

// KindOf returns a model's kind, as the engine reports it or as the model's name suggests.
func KindOf(p *Profile, m *ModelInfo) string {
	kind, _ := p.kindOf(m)
	return kind
}

// AliasesOf returns the other names that an engine accepts for a model, including the name
// without the tag that the engine adds.
func AliasesOf(p *Profile, m *ModelInfo) []string {
	if name, tagged := strings.CutSuffix(m.ID, p.spec.ImplicitTag); tagged && p.spec.ImplicitTag != "" {
		return append(slices.Clone(m.Aliases), name)
	}
	return m.Aliases
}
