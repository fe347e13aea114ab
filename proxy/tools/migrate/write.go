package migrate

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"penstock/config"
	"penstock/proxy/front/plaintext"
)

func (p *conversionPlan) renderYAML() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Made of a configuration of %s by \"penstock init --from\". Every setting and its meaning: penstock check --example.\n", p.program)
	if len(p.notes) > 0 {
		b.WriteString("#\n# What is different, or has no counterpart:\n")
		for _, note := range p.notes {
			fmt.Fprintf(&b, "# - %s\n", note)
		}
	}
	b.WriteString("\nlisten: 127.0.0.1:4000              # the API; for other machines 0.0.0.0:4000, behind TLS\n" +
		"admin: { listen: 127.0.0.1:9090 }   # status page, metrics, reload; a token: lets you drain upstreams, too\n")
	if p.logLevel != "" {
		fmt.Fprintf(&b, "log: { level: %s }\n", p.logLevel)
	}
	if p.requestBody != "" {
		fmt.Fprintf(&b, "limits: { request_body: %s }\n", p.requestBody)
	}
	if t := p.timeouts.String(); t != "" {
		fmt.Fprintf(&b, "timeouts: %s\n", t)
	}
	if p.attempts > 0 {
		fmt.Fprintf(&b, "retry: { attempts: %d }\n", p.attempts)
	}
	p.writeKeys(&b)
	b.WriteString("\nupstreams:\n")
	for _, u := range p.upstreams {
		u.writeYAML(&b)
	}
	b.WriteString("\n# In front of busy engines calls wait in a model's queue; after its wait, or where it is full, they get 429.\nmodels:\n")
	for _, m := range p.models {
		m.writeYAML(&b)
	}
	return b.Bytes()
}

// writeKeys writes the client keys. If there are external upstreams, each key gets the consent to
// use them, because the other program allows every key to use every engine.
func (p *conversionPlan) writeKeys(b *bytes.Buffer) {
	consent := ""
	if slices.ContainsFunc(p.upstreams, func(u *upstream) bool { return u.external }) {
		var tiers []string
		for tier := range config.MaxTier + 1 {
			in := func(d deployment) bool { return d.tier == tier }
			if slices.ContainsFunc(p.models, func(m *model) bool { return slices.ContainsFunc(m.deployments, in) }) {
				tiers = append(tiers, strconv.Itoa(tier))
			}
		}
		consent = "    tiers: [" + strings.Join(tiers, ", ") + "]   # its prompts may go to external upstreams, too\n"
	}
	b.WriteString("\nkeys:\n")
	for _, k := range p.keys {
		fmt.Fprintf(b, "  - id: %s\n    hash: %q\n%s", k.id, k.hash, consent)
	}
}

func (u *upstream) writeYAML(b *bytes.Buffer) {
	for i, line := range u.command {
		lead := "  #   "
		if i == 0 {
			lead = "  # started by: "
		}
		fmt.Fprintf(b, "%s%s\n", lead, plaintext.CleanLine(line))
	}
	fmt.Fprintf(b, "  - name: %s\n    url: %s\n", quoteYAML(u.name), strconv.Quote(u.url))
	if u.engine != "" {
		fmt.Fprintf(b, "    engine: %s\n", u.engine)
	}
	if u.apiKey != "" {
		fmt.Fprintf(b, "    api_key: %s\n", strconv.Quote(u.apiKey))
	}
	if u.concurrency > 0 {
		fmt.Fprintf(b, "    concurrency: %d\n", u.concurrency)
	}
	if u.weight > 0 && u.weight != 1 {
		fmt.Fprintf(b, "    weight: %s\n", strconv.FormatFloat(u.weight, 'f', -1, 64))
	}
	if u.external {
		b.WriteString("    external: true   # prompts leave the house: only calls of keys with its tier in tiers go there\n")
	}
}

func (m *model) writeYAML(b *bytes.Buffer) {
	fmt.Fprintf(b, "  - id: %s\n", quoteYAML(m.id))
	switch {
	case m.guessed:
		fmt.Fprintf(b, "    kind: %s   # a guess from its name\n", m.kind)
	case m.kind != config.ModelKindChat:
		fmt.Fprintf(b, "    kind: %s\n", m.kind)
	}
	if m.name != "" {
		fmt.Fprintf(b, "    name: %s\n", quoteYAML(m.name))
	}
	writeList(b, "aliases", m.aliases)
	b.WriteString("    deployments:\n")
	for _, d := range m.deployments {
		fmt.Fprintf(b, "      - { upstream: %s", quoteYAML(d.upstream.name))
		if d.served != m.id {
			fmt.Fprintf(b, ", served: %s", quoteYAML(d.served))
		}
		if d.tier > 0 {
			fmt.Fprintf(b, ", tier: %d", d.tier)
		}
		b.WriteString(" }\n")
	}
	if m.kind == config.ModelKindChat {
		fmt.Fprintf(b, "    queue: { depth: %d, wait: 20s }\n", 4*max(m.slots, 16))
	}
	writeList(b, "fallback", m.fallback)
	if t := m.timeouts.String(); t != "" {
		fmt.Fprintf(b, "    timeouts: %s\n", t)
	}
	if m.vision {
		b.WriteString("    input_modalities: [text, image]\n")
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"context_length", m.context}, {"max_output_length", m.maxOutput}, {"capacity_tpm", m.tpm}} {
		if n.value > 0 {
			fmt.Fprintf(b, "    %s: %d\n", n.name, n.value)
		}
	}
	var prices []string
	for i, name := range []string{"input", "output", "cached_input"} {
		if m.pricing[i] != "" {
			prices = append(prices, fmt.Sprintf("%s: %q", name, m.pricing[i]))
		}
	}
	if prices != nil {
		fmt.Fprintf(b, "    pricing: { %s }\n", strings.Join(prices, ", "))
	}
}

func writeList(b *bytes.Buffer, name string, values []string) {
	if len(values) == 0 {
		return
	}
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = quoteYAML(v)
	}
	fmt.Fprintf(b, "    %s: [%s]\n", name, strings.Join(quoted, ", "))
}

// String returns the timeouts as a YAML mapping. If none is set, it returns "".
func (t timeouts) String() string {
	var parts []string
	for _, c := range []struct {
		name    string
		seconds float64
	}{{"connect", t.connect}, {"first_event", t.firstEvent}, {"answer", t.answer}} {
		if c.seconds > 0 {
			parts = append(parts, fmt.Sprintf("%s: %dms", c.name, max(int64(c.seconds*1000), 1)))
		}
	}
	if parts == nil {
		return ""
	}
	return strings.ReplaceAll("{ "+strings.Join(parts, ", ")+" }", "000ms", "s")
}

func quoteYAML(s string) string { return strconv.Quote(escapeReferences(s)) }

// escapeReferences escapes ${ in s, so that it is not read as a reference to a variable.
func escapeReferences(s string) string { return strings.ReplaceAll(s, "${", "$${") }
