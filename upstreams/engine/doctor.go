package engine

import (
	"bytes"
	"context"
	"errors"
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
	config.QuirkOwnHost: "checks the Host header: reach it by an address or a local name, " +
		"else it answers 403 with an empty body",
	config.QuirkLoadsOnDemand: "loads a listed model at the first request for it, which is slow",

	config.QuirkStreamsTranscriptions: "answers a transcription with events when asked for a stream",
	config.QuirkDeveloperAsSystem:     "knows no role developer: chat messages of that role are sent as system",
}

// Doctor writes to w what the engines at urls are, and the configuration lines to paste. own are
// the profiles of a configuration, which are tried as well. The error lists the URLs without an
// answer.
func Doctor(ctx context.Context, w io.Writer, urls []string, apiKey string, own []config.Engine) error {
	profiles, err := LoadProfiles(own)
	if err != nil {
		return err
	}
	var engines []Detection
	var silent []error
	for _, url := range urls {
		found, err := Detect(ctx, url, apiKey, profiles)
		if err != nil {
			silent = append(silent, fmt.Errorf("no engine answers: %w", err))
			continue
		}
		if err := found.WriteReport(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
		engines = append(engines, found)
	}
	if len(engines) > 0 {
		if err := WriteConfig(w, engines); err != nil {
			return err
		}
	}
	return errors.Join(silent...)
}

// WriteReport writes what a detection found, for a person. WriteConfig writes the lines of a
// configuration that follow from it. Model names are the engine's own; nothing else of its pages is
// repeated.
func (d *Detection) WriteReport(w io.Writer) error {
	var b bytes.Buffer
	p, health := d.Profile, d.Profile.Health().Path
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
		fmt.Fprintf(&b, "  health        good: GET %s answers %d\n", health, d.Health)
	case d.Health != 0:
		fmt.Fprintf(&b, "  health        BAD: GET %s answers %d\n", health, d.Health)
	default:
		fmt.Fprintf(&b, "  health        BAD: GET %s is not answered\n", health)
	}
	if d.Refused != 0 {
		fmt.Fprintf(&b, "  key           %s: GET %s answers %d\n", d.keyAdvice(), p.ModelsPage(), d.Refused)
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
	n, source := d.Profile.Slots(d.Slots)
	advice := map[string]string{
		SlotsReported:  "as the engine says",
		SlotsOfProfile: "a guess for this engine, which does not say; set concurrency to what it was started with",
		SlotsDefault:   "a guess; set concurrency to what the engine can do",
	}[source]
	fmt.Fprintf(b, "  capacity      %d at once (%s)\n", n, advice)
	if d.Load == nil {
		b.WriteString("  load          it does not tell; others' work on it stays unseen\n")
		return
	}
	fmt.Fprintf(b, "  load          %d running, %d waiting (GET %s)\n", d.Load.Running, d.Load.Waiting, d.LoadPath)
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
