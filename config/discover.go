package config

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
)

// Listed is a model in an engine's model list.
type Listed struct {
	Name, Kind string
	Parent     string // base model of an adapter
	Aliases    []string
}

const maxDiscovered = 256

// WithListed returns f with the models published by its discover entries. listed contains the
// engines' model lists by upstream. The result omits models that f discovered earlier. Names in the
// file take precedence: model ids, aliases and served names. An adapter is published under its own
// name with the settings of its base model.
func WithListed(f *File, listed map[string][]Listed) *File {
	if len(f.Discover) == 0 {
		return written(f)
	}
	out := *written(f)
	out.Models, out.LeftOut = slices.Clone(out.Models), map[string]int{}
	p := publisher{out: &out, written: len(out.Models), served: map[place]int{}, ids: map[string]int{}}
	for i := range out.Models {
		p.ids[out.Models[i].ID] = i
		for _, d := range out.Models[i].Deployments {
			if _, twice := p.served[place{d.Upstream, d.Served}]; !twice {
				p.served[place{d.Upstream, d.Served}] = i
			}
		}
	}
	for i := range f.Discover {
		d := &f.Discover[i]
		all := slices.Clone(listed[d.Upstream])
		slices.SortFunc(all, func(a, b Listed) int { // base models before adapters
			return cmp.Or(cmp.Compare(min(len(a.Parent), 1), min(len(b.Parent), 1)), cmp.Compare(a.Name, b.Name))
		})
		for _, l := range all {
			_, known := p.served[place{d.Upstream, l.Name}]
			if !known && !p.aliasServed(d.Upstream, l.Aliases) && matches(d.Match, l.Name) && !p.publish(d, l) {
				p.served[place{d.Upstream, l.Name}] = leftOut // other entries then skip the model
				out.LeftOut[d.Upstream]++
			}
		}
	}
	return &out
}

// Published returns f's discovered models by upstream, as model lists.
func Published(f *File) map[string][]Listed {
	out := map[string][]Listed{}
	for i := range f.Models {
		if m := &f.Models[i]; m.Discovered {
			for _, d := range m.Deployments {
				out[d.Upstream] = append(out[d.Upstream], Listed{Name: d.Served, Kind: m.Kind, Parent: m.Parent})
			}
		}
	}
	return out
}

// Discovered counts an upstream's discovered models. LeftOut counts the models omitted because
// their names are invalid, there are too many, or their names are in the file.
type Discovered struct {
	Upstream        string
	Models, LeftOut int
}

// DiscoveredModels counts the discovered models of each upstream in discover.
func DiscoveredModels(f *File) (out []Discovered) {
	published := Published(f)
	for i := range f.Discover {
		name := f.Discover[i].Upstream
		if !slices.ContainsFunc(out, func(d Discovered) bool { return d.Upstream == name }) {
			out = append(out, Discovered{name, len(published[name]), f.LeftOut[name]})
		}
	}
	return out
}

// SameDiscovered reports whether two files have the same discovered models and the same number of
// omitted ones.
func SameDiscovered(f, next *File) bool {
	discovered := func(f *File) []Model { return f.Models[len(written(f).Models):] }
	return reflect.DeepEqual(discovered(f), discovered(next)) && maps.Equal(f.LeftOut, next.LeftOut)
}

func written(f *File) *File {
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

// leftOut marks a listed model that is not published.
const leftOut = -1

type place struct{ upstream, served string }

type publisher struct {
	out     *File
	written int            // number of models from the file, which precede the discovered ones
	served  map[place]int  // indices of models
	ids     map[string]int // indices of models
}

// publish adds a model that an upstream lists. If a discovered model already has that name, publish
// adds the upstream to it. It reports whether the model is published.
func (p *publisher) publish(d *Discover, l Listed) bool {
	id, at := d.Prefix+l.Name, place{d.Upstream, l.Name}
	if l.Name == "" || !CanBeModelID(id) {
		return false
	}
	if base := WithoutVariant(id); base != id && p.named(base) {
		return false // the model without the suffix also serves the variant
	}
	m := p.model(d, &l)
	if i, taken := p.ids[id]; taken {
		same := func(x Deployment) bool { return x.Upstream == d.Upstream }
		if i < p.written || p.out.Models[i].Kind != m.Kind || slices.ContainsFunc(p.out.Models[i].Deployments, same) {
			return false
		}
		p.out.Models[i].Deployments = append(p.out.Models[i].Deployments, m.Deployments...)
		if m.PromptCache == CachePerKey {
			p.out.Models[i].PromptCache = CachePerKey
		}
		p.served[at] = i
		return true
	}
	if len(p.out.Models)-p.written >= maxDiscovered || p.aliased(id) {
		return false
	}
	m.ID = id
	p.ids[id], p.served[at] = len(p.out.Models), len(p.out.Models)
	p.out.Models = append(p.out.Models, m)
	return true
}

func (p *publisher) model(d *Discover, l *Listed) (m Model) {
	m.SetDefaults()
	m.Kind, m.Queue = cmp.Or(d.Kind, l.Kind, KindChat), d.Queue
	at := Deployment{Upstream: d.Upstream, Served: l.Name}
	if base, known := p.served[place{d.Upstream, l.Parent}]; known && base != leftOut && l.Parent != "" {
		m = p.out.Models[base]
		m.Name, m.Aliases, m.Created = "", nil, 0
		of := func(of Deployment) bool { return of.Upstream == d.Upstream && of.Served == l.Parent }
		if i := slices.IndexFunc(m.Deployments, of); i >= 0 { // the tier and the consent come from the base model
			at.Tier, at.When = m.Deployments[i].Tier, m.Deployments[i].When
		}
	} else if m.Kind == KindChat && p.salted(d.Upstream) {
		m.PromptCache = CachePerKey
	}
	m.Discovered, m.Parent, m.Deployments = true, l.Parent, []Deployment{at}
	return m
}

// salted reports whether any model in the file separates the prompt caches of keys at an upstream.
func (p *publisher) salted(upstream string) bool {
	return slices.ContainsFunc(p.out.Models[:p.written], func(m Model) bool {
		return m.PromptCache == CachePerKey &&
			slices.ContainsFunc(m.Deployments, func(d Deployment) bool { return d.Upstream == upstream })
	})
}

// aliasServed reports whether the file already serves the model at the upstream under one of the
// engine's aliases.
func (p *publisher) aliasServed(upstream string, aliases []string) bool {
	return slices.ContainsFunc(aliases, func(alias string) bool {
		i, known := p.served[place{upstream, alias}]
		return known && i != leftOut && i < p.written
	})
}

// named reports whether any id or alias in the file matches.
func (p *publisher) named(id string) bool {
	i, taken := p.ids[id]
	return taken && i < p.written || p.aliased(id)
}

const maxVariant = 8

// WithoutVariant returns a model name without a trailing variant such as [1m]. Agents append a
// variant to request a property such as a long context. It removes only one variant.
func WithoutVariant[T ~string | ~[]byte](model T) T {
	n := len(model)
	if n == 0 || model[n-1] != ']' {
		return model
	}
	for i := n - 2; i >= 0 && i >= n-2-maxVariant; i-- {
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

// aliased reports whether any alias in the file matches.
func (p *publisher) aliased(id string) bool {
	for i := range p.out.Models[:p.written] {
		for _, alias := range p.out.Models[i].Aliases {
			if matches(alias, id) {
				return true
			}
		}
	}
	return false
}
