package upstreams

// ReasoningForm says how the engine is told a reasoning effort: the member that takes the effort's word (empty: none), the
// words it takes (empty: all), and the members to add when reasoning is switched off ("none") or on.
func (p *Profile) ReasoningForm() (member string, words []string, off, on []Member) {
	return p.spec.Reasoning.Effort, p.spec.Reasoning.Words, p.off, p.on
}
