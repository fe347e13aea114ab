package endpoint

import (
	"sync"

	"penstock/config"
	"penstock/translate/chat"
	"penstock/upstreams/engine"
)

// Formats remembers how engines want a chat request. It may be used from any goroutine.
type Formats struct {
	byProfile sync.Map // *engine.Profile → *chat.EngineFormat
}

// of returns the format of an engine, without what differs from call to call.
func (f *Formats) of(p *engine.Profile) chat.EngineFormat {
	if t, ok := f.byProfile.Load(p); ok {
		return *t.(*chat.EngineFormat)
	}
	effort, words, off, on := p.ReasoningForm()
	t := &chat.EngineFormat{
		TokenMember:     p.TokenLimitMember(),
		ContinuousUsage: p.Has(config.QuirkContinuousUsage),
		Reasoning:       &chat.ReasoningFormat{Effort: effort, Words: words, Off: members(off), On: members(on)},
		Prefill:         members(p.Prefill()),

		DeveloperAsSystem: p.Has(config.QuirkDeveloperAsSystem),
	}
	f.byProfile.Store(p, t)
	return *t
}

// Forget drops all formats, after a reload that brings other profiles.
func (f *Formats) Forget() { f.byProfile.Clear() }

func members(in []engine.Member) []chat.Member {
	out := make([]chat.Member, len(in))
	for i, m := range in {
		out[i] = chat.Member(m)
	}
	return out
}
