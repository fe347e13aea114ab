package engine

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// maxListedModels is the maximum number of models tracked per engine.
const maxListedModels = 1024

// TrackedModels tracks an engine's models across successive lists. It adds a model when a list
// first contains the model, and removes the model after two consecutive lists without it. Two
// lists are required because an engine that is starting or swapping models may briefly show an
// incomplete list. The zero value tracks no models. A TrackedModels is not safe for concurrent
// use.
type TrackedModels struct {
	Listed      bool // at least one list has been read
	models      map[string]ModelInfo
	missingOnce map[string]bool // models missing from the newest list
}

// Update records a new list. It reports whether the models or their kinds have changed.
func (f *TrackedModels) Update(infos []ModelInfo) (changed bool) {
	if len(infos) > maxListedModels { // sort them, so that the same models are kept regardless of their order
		infos = slices.SortedFunc(slices.Values(infos), func(a, b ModelInfo) int { return cmp.Compare(a.ID, b.ID) })
	}
	next, absent := make(map[string]ModelInfo, len(infos)), map[string]bool{}
	for i := range infos {
		if m := &infos[i]; len(next) < maxListedModels {
			next[m.ID] = ModelInfo{ID: m.ID, Kind: m.Kind, Parent: m.Parent, Aliases: m.Aliases}
		}
	}
	for id, m := range f.models {
		if _, listed := next[id]; !listed && !f.missingOnce[id] {
			next[id], absent[id] = m, true
		}
	}
	same := func(a, b ModelInfo) bool { return a.Kind == b.Kind && a.Parent == b.Parent }
	changed = !f.Listed || !maps.EqualFunc(f.models, next, same)
	f.Listed, f.models, f.missingOnce = true, next, absent
	return changed
}

// Models returns the models, ordered by name.
func (f *TrackedModels) Models() []ModelInfo {
	var out []ModelInfo
	for _, id := range slices.Sorted(maps.Keys(f.models)) {
		out = append(out, f.models[id])
	}
	return out
}

// ModelKind returns a model's kind as the engine reports it, or as guessed from the model's name.
func ModelKind(p *Profile, m *ModelInfo) string {
	kind, _ := p.modelKind(m)
	return kind
}

// ModelAliases returns the other names that an engine accepts for a model. If the engine adds a tag to
// names, the aliases include the name without that tag.
func ModelAliases(p *Profile, m *ModelInfo) []string {
	if name, tagged := strings.CutSuffix(m.ID, p.spec.ImplicitTag); tagged && p.spec.ImplicitTag != "" {
		return append(slices.Clone(m.Aliases), name)
	}
	return m.Aliases
}
