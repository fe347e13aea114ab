package engine

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// listingMost bounds how many models of one engine are found.
const listingMost = 1024

// Listing is the models that an engine is known to have by its lists: a model is found with the
// first list that has it, and lost with the second in a row that has not. An engine that starts, or
// swaps models, may show a list with holes for a moment. The zero value has none and is of no list.
// It is not safe for concurrent use.
type Listing struct {
	Listed bool // there was a list
	models map[string]ModelInfo
	absent map[string]bool // those that the newest list did not have
}

// Observe takes over a newer list, and reports whether the models have changed, or what they are.
func (f *Listing) Observe(infos []ModelInfo) (changed bool) {
	if len(infos) > listingMost { // the same ones of every list, in whichever order it is
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

// All returns the models in the order of their names.
func (f *Listing) All() []ModelInfo {
	var out []ModelInfo
	for _, id := range slices.Sorted(maps.Keys(f.models)) {
		out = append(out, f.models[id])
	}
	return out
}

// KindOf is the kind of a model of an engine, by what the engine says or its name.
func KindOf(p *Profile, m *ModelInfo) string {
	kind, _ := p.kindOf(m)
	return kind
}

// AliasesOf are the other names that an engine takes for a model, also the one without a tag that
// it adds itself.
func AliasesOf(p *Profile, m *ModelInfo) []string {
	if name, tagged := strings.CutSuffix(m.ID, p.spec.ImplicitTag); tagged && p.spec.ImplicitTag != "" {
		return append(slices.Clone(m.Aliases), name)
	}
	return m.Aliases
}
