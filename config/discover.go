package config

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
)

// ListedModel is a model in an engine's model list.
type ListedModel struct {
	Name, Kind string
	Parent     string // base model of an adapter
	Aliases    []string
}

const maxDiscoveredModels = 256

// WithDiscoveredModels returns f with the models published by its discover entries. listed contains the
// engines' model lists by upstream. The result omits models that were discovered earlier and are in
// f. Names in the file take precedence: model ids, aliases and served names. An adapter is
// published under its own name with the settings of its base model.
func WithDiscoveredModels(f *File, listed map[string][]ListedModel) *File {
	if len(f.Discover) == 0 {
		return withoutDiscoveredModels(f)
	}
	out := *withoutDiscoveredModels(f)
	out.Models, out.LeftOut = slices.Clone(out.Models), map[string]int{}
	p := modelPublisher{out: &out, writtenCount: len(out.Models), byEngineModel: map[engineModelKey]int{}, byID: map[string]int{}}
	for i := range out.Models {
		p.byID[out.Models[i].ID] = i
		for _, d := range out.Models[i].Deployments {
			if _, twice := p.byEngineModel[engineModelKey{d.Upstream, d.Served}]; !twice {
				p.byEngineModel[engineModelKey{d.Upstream, d.Served}] = i
			}
		}
	}
	for i := range f.Discover {
		d := &f.Discover[i]
		all := slices.Clone(listed[d.Upstream])
		slices.SortFunc(all, func(a, b ListedModel) int { // base models before adapters
			return cmp.Or(cmp.Compare(min(len(a.Parent), 1), min(len(b.Parent), 1)), cmp.Compare(a.Name, b.Name))
		})
		for _, l := range all {
			_, known := p.byEngineModel[engineModelKey{d.Upstream, l.Name}]
			if !known && !p.isServedUnderAlias(d.Upstream, l.Aliases) && matchesPattern(d.Match, l.Name) && !p.publishListedModel(d, l) {
				// Other entries then skip the model.
				p.byEngineModel[engineModelKey{d.Upstream, l.Name}] = unpublishedModelIndex
				out.LeftOut[d.Upstream]++
			}
		}
	}
	return &out
}

// DiscoveredModelsByUpstream returns f's discovered models by upstream, as model lists.
func DiscoveredModelsByUpstream(f *File) map[string][]ListedModel {
	out := map[string][]ListedModel{}
	for i := range f.Models {
		if m := &f.Models[i]; m.Discovered {
			for _, d := range m.Deployments {
				out[d.Upstream] = append(out[d.Upstream], ListedModel{Name: d.Served, Kind: m.Kind, Parent: m.Parent})
			}
		}
	}
	return out
}

// DiscoveredModelCount counts an upstream's discovered models. LeftOut counts omitted models. A model is
// omitted if its name is invalid or in the file, or if there are too many models.
type DiscoveredModelCount struct {
	Upstream        string
	Models, LeftOut int
}

// CountDiscoveredModels counts the discovered models of each upstream in discover.
func CountDiscoveredModels(f *File) (out []DiscoveredModelCount) {
	published := DiscoveredModelsByUpstream(f)
	for i := range f.Discover {
		name := f.Discover[i].Upstream
		if !slices.ContainsFunc(out, func(d DiscoveredModelCount) bool { return d.Upstream == name }) {
			out = append(out, DiscoveredModelCount{name, len(published[name]), f.LeftOut[name]})
		}
	}
	return out
}

// HaveSameDiscoveredModels reports whether two files have the same discovered models and the same number of
// omitted ones.
func HaveSameDiscoveredModels(f, next *File) bool {
	discovered := func(f *File) []Model { return f.Models[len(withoutDiscoveredModels(f).Models):] }
	return reflect.DeepEqual(discovered(f), discovered(next)) && maps.Equal(f.LeftOut, next.LeftOut)
}

func withoutDiscoveredModels(f *File) *File {
	n := slices.IndexFunc(f.Models, func(m Model) bool { return m.Discovered })
	if n < 0 && f.LeftOut == nil {
		return f
	}
	out := *f
	out.LeftOut = nil
	if n >= 0 {
		out.Models = f.Models[:n:n]
	}
	return &out
}

// unpublishedModelIndex marks a listed model that is not published.
const unpublishedModelIndex = -1

type engineModelKey struct{ upstream, served string }

type modelPublisher struct {
	out           *File
	writtenCount  int                    // number of models from the file, which precede the discovered ones
	byEngineModel map[engineModelKey]int // indices of models
	byID          map[string]int         // indices of models
}

// publishListedModel adds a model that an upstream lists. If a discovered model already has that
// name, publishListedModel adds the upstream to that model. It reports whether the model is
// published.
func (p *modelPublisher) publishListedModel(d *ModelDiscovery, l ListedModel) bool {
	id, at := d.Prefix+l.Name, engineModelKey{d.Upstream, l.Name}
	if l.Name == "" || !CanBeModelID(id) {
		return false
	}
	if base := WithoutVariant(id); base != id && p.isNameTaken(base) {
		return false // the model without the suffix also serves the variant
	}
	m := p.publishedModel(d, &l)
	if i, taken := p.byID[id]; taken {
		same := func(x Deployment) bool { return x.Upstream == d.Upstream }
		if i < p.writtenCount || p.out.Models[i].Kind != m.Kind || slices.ContainsFunc(p.out.Models[i].Deployments, same) {
			return false
		}
		p.out.Models[i].Deployments = append(p.out.Models[i].Deployments, m.Deployments...)
		if m.PromptCache == PromptCachePerKey {
			p.out.Models[i].PromptCache = PromptCachePerKey
		}
		p.byEngineModel[at] = i
		return true
	}
	if len(p.out.Models)-p.writtenCount >= maxDiscoveredModels || p.matchesAlias(id) {
		return false
	}
	m.ID = id
	p.byID[id], p.byEngineModel[at] = len(p.out.Models), len(p.out.Models)
	p.out.Models = append(p.out.Models, m)
	return true
}

func (p *modelPublisher) publishedModel(d *ModelDiscovery, l *ListedModel) (m Model) {
	m.SetDefaults()
	m.Kind, m.Queue = cmp.Or(d.Kind, l.Kind, ModelKindChat), d.Queue
	at := Deployment{Upstream: d.Upstream, Served: l.Name}
	if base, known := p.byEngineModel[engineModelKey{d.Upstream, l.Parent}]; known && base != unpublishedModelIndex && l.Parent != "" {
		m = p.out.Models[base]
		m.Name, m.Aliases, m.Created = "", nil, 0
		of := func(of Deployment) bool { return of.Upstream == d.Upstream && of.Served == l.Parent }
		// The tier and the consent come from the base model.
		if i := slices.IndexFunc(m.Deployments, of); i >= 0 {
			at.Tier, at.When = m.Deployments[i].Tier, m.Deployments[i].When
		}
	} else if m.Kind == ModelKindChat && p.hasSaltedCache(d.Upstream) {
		m.PromptCache = PromptCachePerKey
	}
	m.Discovered, m.Parent, m.Deployments = true, l.Parent, []Deployment{at}
	return m
}

// hasSaltedCache reports whether any model in the file keeps a separate prompt cache for each key at an
// upstream.
func (p *modelPublisher) hasSaltedCache(upstream string) bool {
	return slices.ContainsFunc(p.out.Models[:p.writtenCount], func(m Model) bool {
		return m.PromptCache == PromptCachePerKey &&
			slices.ContainsFunc(m.Deployments, func(d Deployment) bool { return d.Upstream == upstream })
	})
}

// isServedUnderAlias reports whether the file already serves the model at the upstream under one of the
// engine's aliases.
func (p *modelPublisher) isServedUnderAlias(upstream string, aliases []string) bool {
	return slices.ContainsFunc(aliases, func(alias string) bool {
		i, known := p.byEngineModel[engineModelKey{upstream, alias}]
		return known && i != unpublishedModelIndex && i < p.writtenCount
	})
}

// isNameTaken reports whether any id or alias in the file matches.
func (p *modelPublisher) isNameTaken(id string) bool {
	i, taken := p.byID[id]
	return taken && i < p.writtenCount || p.matchesAlias(id)
}

const maxVariantBytes = 8

// WithoutVariant returns a model name without a trailing variant such as [1m]. Agents append a
// variant to request a property such as a long context. It removes only one variant.
func WithoutVariant[T ~string | ~[]byte](model T) T {
	n := len(model)
	if n == 0 || model[n-1] != ']' {
		return model
	}
	for i := n - 2; i >= 0 && i >= n-2-maxVariantBytes; i-- {
		c := model[i]
		if c == '[' && i < n-2 {
			return model[:i]
		}
		if !('a' <= c && c <= 'z') && !('0' <= c && c <= '9') {
			break
		}
	}
	return model
}

// matchesAlias reports whether any alias in the file matches.
func (p *modelPublisher) matchesAlias(id string) bool {
	for i := range p.out.Models[:p.writtenCount] {
		for _, alias := range p.out.Models[i].Aliases {
			if matchesPattern(alias, id) {
				return true
			}
		}
	}
	return false
}
