package upstreams

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"penstock/config"
)

// quirkTexts says what each quirk means to an operator. Every quirk of config.EngineQuirks has one.
var quirkTexts = map[string]string{
	config.QuirkCancelOnlyStreams: "closing the connection stops a stream, but a plain request runs to its end",
	config.QuirkContinuousUsage:   "tells usage on every chunk of a stream when asked",
	config.QuirkOwnHost:           "checks the Host header: reach it by an address or a local name, else it answers 403 with an empty body",
	config.QuirkLoadsOnDemand:     "loads a listed model at the first request for it, which is slow",

	config.QuirkStreamsTranscriptions: "answers a transcription with events when asked for a stream",
	config.QuirkDeveloperAsSystem:     "knows no role developer: chat messages of that role are sent as system",
}

// WriteReport writes what a detection found, for a person, and the lines of config that follow from it. It is what
// `penstock doctor` prints. Model names are the engine's own; nothing else of its pages is repeated.
func (d *Detection) WriteReport(w io.Writer) error {
	var b bytes.Buffer
	p := d.Profile
	name := p.Title()
	if !d.Recognised {
		name = "not recognised; taken for an " + name
	}
	fmt.Fprintf(&b, "%s\n  engine        %s (%s)\n", d.URL, name, p.Name())
	if d.Version != "" {
		fmt.Fprintf(&b, "  version       %q\n", d.Version)
	}
	switch {
	case d.Healthy:
		fmt.Fprintf(&b, "  health        good: GET %s answers %d\n", p.health.path, d.Health)
	case d.Health != 0:
		fmt.Fprintf(&b, "  health        BAD: GET %s answers %d\n", p.health.path, d.Health)
	default:
		fmt.Fprintf(&b, "  health        BAD: GET %s is not answered\n", p.health.path)
	}
	if d.Refused != 0 {
		fmt.Fprintf(&b, "  key           %s: GET %s answers %d\n", d.keyAdvice(), p.spec.Models[0].Path, d.Refused)
	}
	d.writeCapacity(&b)
	if len(d.Models) == 0 && d.Refused == 0 {
		b.WriteString("  models        it lists none\n")
	}
	for i := range d.Models {
		fmt.Fprintf(&b, "  model         %s\n", describeModel(&d.Models[i]))
	}
	if p.Path(config.OpChat) == "" {
		fmt.Fprintf(&b, "  does only     %s\n", strings.Join(operations(p), ", "))
	}
	var paths []string
	for _, op := range operations(p) {
		if path := p.Path(op); path != defaultPaths[op] {
			paths = append(paths, op+" at "+path)
		}
	}
	if len(paths) > 0 {
		fmt.Fprintf(&b, "  paths         %s\n", strings.Join(paths, ", "))
	}
	if member := p.TokenLimitMember(); member != "" {
		fmt.Fprintf(&b, "  token limit   reads only %s\n", member)
	}
	if refused := p.RefusedMembers(); len(refused) > 0 {
		fmt.Fprintf(&b, "  refused       %s\n", strings.Join(refused, ", "))
	}
	for _, q := range p.Quirks() {
		fmt.Fprintf(&b, "  quirk         %s: %s\n", q, quirkTexts[q])
	}
	d.writeConfig(&b)
	_, err := w.Write(b.Bytes())
	return err
}

// operations are those that the profile has a path for.
func operations(p *Profile) []string {
	return slices.DeleteFunc(slices.Clone(config.EngineOperations), func(op string) bool { return p.Path(op) == "" })
}

func (d *Detection) keyAdvice() string {
	if d.Keyed {
		return "REFUSED, it is not the one that this engine was started with"
	}
	return "NEEDED, give it with --api-key"
}

func (d *Detection) writeCapacity(b *bytes.Buffer) {
	l := limitsOf(config.Concurrency{}, d.Slots, d.Profile)
	source := map[string]string{
		LimitFromEngine:  "as the engine says",
		LimitFromProfile: "a guess for this engine, which does not say; set concurrency to what it was started with",
		LimitFromDefault: "a guess; set concurrency to what the engine can do",
	}[l.Source]
	fmt.Fprintf(b, "  capacity      %d at once (%s)\n", l.Text, source)
	if d.Load == nil {
		b.WriteString("  load          it does not tell; others' work on it stays unseen\n")
		return
	}
	fmt.Fprintf(b, "  load          %d running, %d waiting (GET %s)\n", d.Load.Running, d.Load.Waiting, d.Load.Source)
}

func describeModel(m *ModelInfo) string {
	out := strconv.Quote(m.ID)
	if m.Context > 0 {
		out += fmt.Sprintf(", context %d", m.Context)
	}
	if m.Vision {
		out += ", takes images"
	}
	if m.LoadedKnown && !m.Loaded {
		out += ", not loaded"
	}
	return out
}

// writeConfig writes the lines to paste.
func (d *Detection) writeConfig(b *bytes.Buffer) {
	p := d.Profile
	fmt.Fprintf(b, "\nupstreams:\n  - name: %s\n    url: %s\n    engine: %s\n", p.Name(), d.URL, p.Name())
	if d.Keyed || d.Refused != 0 {
		b.WriteString("    api_key: \"${ENGINE_API_KEY}\"   # or file:PATH\n")
	}
	if native := p.NativeDialects(); len(native) > 0 {
		fmt.Fprintf(b, "    #native: [%s]   # sends it these requests as they are, in place of translating them\n", strings.Join(native, ", "))
	}
	if d.Slots == 0 {
		fmt.Fprintf(b, "    concurrency: %d\n", limitsOf(config.Concurrency{}, 0, p).Text)
	}
	b.WriteString("models:\n")
	models := d.Models
	if len(models) == 0 {
		models = []ModelInfo{{ID: "MODEL"}}
	}
	for i := range models {
		id := strconv.Quote(models[i].ID)
		fmt.Fprintf(b, "  - id: %s\n", id)
		kind, guessed := p.kindOf(&models[i])
		switch {
		case guessed:
			fmt.Fprintf(b, "    kind: %s   # a guess from its name\n", kind)
		case kind != config.KindChat:
			fmt.Fprintf(b, "    kind: %s\n", kind)
		}
		if models[i].Vision && kind == config.KindChat {
			b.WriteString("    input_modalities: [text, image]\n")
		}
		fmt.Fprintf(b, "    deployments: [{ upstream: %s }]\n", p.Name())
	}
}
