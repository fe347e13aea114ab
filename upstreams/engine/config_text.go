package engine

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"penstock/config"
)

// WriteConfig writes a configuration for all detected engines. It contains one upstream for each
// engine, and each model once with all engines that list it. `doctor` prints this configuration,
// `init` writes it to a file, and an edge that starts without a configuration file uses it.
func WriteConfig(w io.Writer, engines []Detection) error {
	var b bytes.Buffer
	names := upstreamNames(engines)
	b.WriteString("upstreams:\n")
	for i := range engines {
		engines[i].writeUpstream(&b, names[i])
	}
	b.WriteString("models:\n")
	for _, m := range mergeModels(engines, names) {
		m.write(&b)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// upstreamNames returns a name for each engine. The name consists of the host and port, so that the
// results of two runs can be combined in one file. If the host is an IP address, the profile's name
// is used instead of the host.
func upstreamNames(engines []Detection) []string {
	used := map[string]bool{}
	out := make([]string, len(engines))
	for i := range engines {
		out[i] = engines[i].upstreamName()
		for n := 2; used[out[i]]; n++ {
			out[i] = engines[i].upstreamName() + "-" + strconv.Itoa(n)
		}
		used[out[i]] = true
	}
	return out
}

func (d *Detection) upstreamName() string {
	u, err := url.Parse(d.URL)
	if err != nil || u.Hostname() == "" {
		return d.Profile.Name()
	}
	host := u.Hostname()
	switch ip := net.ParseIP(host); {
	case host == "localhost", ip != nil && ip.IsLoopback():
		host = d.Profile.Name()
	case ip != nil:
		host = d.Profile.Name() + "-" + host
	}
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z') {
			return r
		}
		return '-'
	}, host)
	if port := u.Port(); port != "" {
		name += "-" + port
	}
	return strings.Trim(name, "-")
}

func (d *Detection) writeUpstream(b *bytes.Buffer, name string) {
	p := d.Profile
	fmt.Fprintf(b, "  - name: %s\n    url: %s\n    engine: %s\n", name, d.URL, p.Name())
	if d.Keyed || d.Refused != 0 {
		b.WriteString("    api_key: \"${ENGINE_API_KEY}\"   # or file:PATH\n")
	}
	if PriorityOrder(p) != "" && p.spec.Flags.Priorities != "" {
		fmt.Fprintf(b, "    #priorities: true   # with %s: it serves calls of the first class first\n", p.spec.Flags.Priorities)
	}
	proven := func(t FeatureTrial) bool { return t.Name == trialPrefill && t.Verdict == TrialOK }
	if slices.ContainsFunc(d.Tried, proven) && !ContinuesAnswers(p) {
		b.WriteString("    prefill: proven   # models' retry.resume may use it\n")
	}
	if d.Slots == 0 {
		n, _ := p.Slots(0)
		fmt.Fprintf(b, "    concurrency: %d\n", n)
	}
	switch {
	case !p.HasQuirk(config.QuirkLoadsOnDemand):
	case d.Residents > 0:
		fmt.Fprintf(b, "    residents: %d   # as it says; calls for other models wait in their queues for their turn\n", d.Residents)
	default:
		b.WriteString("    #residents: 1   # how many models it keeps in memory; give them a queue, in which calls wait for their turn\n")
	}
}

// servedModel is a model and the engines that list it.
type servedModel struct {
	id         string
	kind       string
	guessed    bool // the kind is guessed from the name
	vision     bool // all engines accept images; a request may go to any of them
	takesTurns bool // an engine keeps fewer models loaded than it lists, so they take turns
	slots      int  // total number of slots at the engines
	upstreams  []string
}

// placeholderModelID is the model id for an engine that lists no models.
const placeholderModelID = "MODEL"

// UsableModels returns the listed models whose names are valid model ids, so that clients can
// request them. For an engine that serves a single purpose and has no model list, it returns one
// model, which is named after the engine's profile.
func (d *Detection) UsableModels() []ModelInfo {
	served := slices.DeleteFunc(slices.Clone(d.Models), func(m ModelInfo) bool { return !config.CanBeModelID(m.ID) })
	if len(d.Models) == 0 && d.Refused == 0 && d.Recognised && d.Profile.Path(config.OpChat) == "" {
		return []ModelInfo{{ID: d.Profile.Name()}}
	}
	return served
}

func mergeModels(engines []Detection, names []string) []*servedModel {
	var out []*servedModel
	byID := map[string]*servedModel{}
	for i := range engines {
		d := &engines[i]
		slots, _ := d.Profile.Slots(d.Slots)
		models := d.UsableModels()
		if len(models) == 0 {
			models = []ModelInfo{{ID: placeholderModelID}}
		}
		for j := range models {
			kind, guessed := d.Profile.modelKind(&models[j])
			m := byID[models[j].ID]
			if m == nil {
				m = &servedModel{id: models[j].ID, kind: kind, guessed: guessed, vision: true}
				byID[m.id] = m
				out = append(out, m)
			}
			if m.kind != kind { // if engines disagree about a model's kind, the first engine decides
				continue
			}
			m.vision = m.vision && models[j].Vision
			m.takesTurns = m.takesTurns || d.Residents > 0 && d.Residents < len(models)
			m.slots += slots
			m.upstreams = append(m.upstreams, names[i])
		}
	}
	return out
}

// maxSuggestedQueueDepth is the maximum queue depth that WriteConfig suggests. In a longer queue,
// the last calls would time out.
const maxSuggestedQueueDepth = 256

func (m *servedModel) write(b *bytes.Buffer) {
	fmt.Fprintf(b, "  - id: %s", strings.ReplaceAll(strconv.Quote(m.id), "${", "$${"))
	if m.id == placeholderModelID {
		b.WriteString("   # it lists none: put the name here that the engine knows its model by")
	}
	b.WriteString("\n")
	switch {
	case m.guessed:
		fmt.Fprintf(b, "    kind: %s   # a guess from its name\n", m.kind)
	case m.kind != config.ModelKindChat:
		fmt.Fprintf(b, "    kind: %s\n", m.kind)
	}
	if m.vision && m.kind == config.ModelKindChat {
		b.WriteString("    input_modalities: [text, image]\n")
	}
	switch {
	case m.takesTurns:
		b.WriteString("    queue: { depth: 50, wait: 60s }\n")
	case m.kind == config.ModelKindChat:
		fmt.Fprintf(b, "    queue: { depth: %d, wait: 20s }\n", min(4*m.slots, maxSuggestedQueueDepth))
	}
	deployments := make([]string, len(m.upstreams))
	for i, u := range m.upstreams {
		deployments[i] = "{ upstream: " + u + " }"
	}
	fmt.Fprintf(b, "    deployments: [%s]\n", strings.Join(deployments, ", "))
}
