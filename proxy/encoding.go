package proxy

import (
	"penstock/translate/chat"
	"penstock/upstreams"
)

// encoding returns how an engine wants a chat request, without the served name. It is worked out once a profile.
func (e *Edge) encoding(p *upstreams.Profile) chat.EngineFormat {
	if t, ok := e.encodings.Load(p); ok {
		return *t.(*chat.EngineFormat)
	}
	effort, words, off, on := p.ReasoningForm()
	t := &chat.EngineFormat{
		TokenMember:     p.TokenLimitMember(),
		ContinuousUsage: p.ContinuousUsage(),
		Reasoning:       &chat.Reasoning{Effort: effort, Words: words, Off: members(off), On: members(on)},
		Prefill:         members(p.Prefill()),

		DeveloperAsSystem: p.DeveloperAsSystem(),
	}
	e.encodings.Store(p, t)
	return *t
}

func members(in []upstreams.Member) []chat.Member {
	out := make([]chat.Member, len(in))
	for i, m := range in {
		out[i] = chat.Member(m)
	}
	return out
}

// refusedMembers are the request members that steer any of the engines. They are refused whatever engine a call would go
// to, so that the same request means the same everywhere.
func refusedMembers(all *upstreams.Profiles) *chat.Refusals {
	var out []string
	seen := map[string]bool{}
	for _, p := range all.All() {
		for _, m := range p.RefusedMembers() {
			if !seen[m] {
				seen[m] = true
				out = append(out, m)
			}
		}
	}
	return chat.NewRefusals(out...)
}
