package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"penstock/config"
)

// quirkTexts explains each quirk in config.EngineQuirks to an operator.
var quirkTexts = map[string]string{
	config.QuirkCancelOnlyStreams: "closing the connection stops a stream, but a plain request runs to its end",
	config.QuirkContinuousUsage:   "reports usage on every chunk of a stream when asked",
	config.QuirkOwnHost: "checks the Host header: reach it by an address or a local name, " +
		"else it answers 403 with an empty body",
	config.QuirkLoadsOnDemand: "loads a listed model at the first request for it, which is slow",

	config.QuirkStreamsTranscriptions: "answers a transcription with events when asked for a stream",
	config.QuirkStreamsSpeech:         "answers speech with events when asked for them",
	config.QuirkTokenTimings:          "reports counts on every chunk of a stream when asked",
	config.QuirkContinuesAnswers:      "continues a last message from the assistant",
	config.QuirkBuffersCalls:          "holds a tool call back until it is complete: it may be silent for minutes while it works",
	config.QuirkRanksTexts:            "reranks texts: documents are sent under that name, as plain strings",
	config.QuirkTranscriptionEvents:   "realtime sessions have vLLM's own events, and audio at 16 kHz",
	config.QuirkDeveloperAsSystem:     "does not know the role developer: chat messages of that role are sent as system",
}

// DoctorOptions configures RunDoctor.
type DoctorOptions struct {
	URLs   []string
	APIKey string
	Own    []config.Engine // profiles from the configuration
	Try    bool            // also run the trials; see Detection.RunTrials
	Model  string          // model used in the trials
	JSON   bool

	Timeouts *config.Timeouts // timeouts from the configuration; if nil, the defaults are used
}

var verdictTexts = map[TrialVerdict]string{
	TrialBad: "BAD: ", TrialUnclear: "unclear: ", TrialSkipped: "not tried: ",
}

// RunDoctor writes a report on the engines at the URLs to w, followed by a configuration that the
// operator can copy. The error lists the URLs that did not respond and the engines that failed a
// trial.
func RunDoctor(ctx context.Context, w io.Writer, o *DoctorOptions) error {
	profiles, err := LoadProfiles(o.Own)
	if err != nil {
		return err
	}
	engines := []Detection{}
	var problems []error
	for _, url := range o.URLs {
		found, err := Detect(ctx, url, o.APIKey, profiles)
		if err != nil {
			problems = append(problems, fmt.Errorf("no engine answers: %w", err))
			continue
		}
		found.timeouts = o.Timeouts
		if found.IsIn(engines) {
			continue // two URLs refer to the same engine, for example with and without /v1
		}
		if o.Try {
			problems = append(problems, found.reportTrials(ctx, o))
		}
		engines = append(engines, found)
		if o.JSON {
			continue
		}
		if err := found.WriteReport(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	switch {
	case o.JSON:
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		problems = append(problems, enc.Encode(engines))
	case len(engines) > 0:
		problems = append(problems, WriteConfig(w, engines))
	}
	return errors.Join(problems...)
}

// IsIn reports whether one of the engines has the same URL as d.
func (d *Detection) IsIn(engines []Detection) bool {
	return slices.ContainsFunc(engines, func(e Detection) bool { return e.URL == d.URL })
}

// reportTrials runs the trials. It returns an error if any trial failed.
func (d *Detection) reportTrials(ctx context.Context, o *DoctorOptions) error {
	if err := d.RunTrials(ctx, o.APIKey, o.Model); err != nil {
		return fmt.Errorf("%s: %w", d.URL, err)
	}
	bad := 0
	for _, t := range d.Tried {
		if t.Verdict == TrialBad {
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%s: %d of %d trials found something to fix", d.URL, bad, len(d.Tried))
	}
	return nil
}

// WriteReport writes the results of Detect for the operator. WriteConfig writes the corresponding
// configuration. The report quotes nothing from the engine's pages except model names.
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
		fmt.Fprintf(&b, "  does only     %s\n", strings.Join(supportedOperations(p), ", "))
	}
	var paths []string
	for _, op := range supportedOperations(p) {
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
	reportRequestForms(&b, p)
	if refused := p.RefusedMembers(); len(refused) > 0 {
		fmt.Fprintf(&b, "  refused       %s\n", strings.Join(refused, ", "))
	}
	for _, q := range p.Quirks() {
		fmt.Fprintf(&b, "  quirk         %s: %s\n", q, quirkTexts[q])
	}
	if len(d.Tried) > 0 {
		fmt.Fprintf(&b, "  tried with    %q\n", d.TriedModel)
	}
	for _, t := range d.Tried {
		fmt.Fprintf(&b, "  %-13s %s%s\n", t.Name, verdictTexts[t.Verdict], t.Text)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// formTexts explains the values of RequestForms to an operator, except as_sent.
var formTexts = []struct {
	name  string
	of    func(f RequestForms) string
	texts map[string]string
}{
	{"tool choice", func(f RequestForms) string { return f.ToolChoice }, map[string]string{
		config.ToolChoiceWords:   "reads auto, none and required: a named tool is sent alone, and required",
		config.ToolChoiceIgnored: "reads none of it: a named tool is sent alone, and none as no tools",
	}},
	{"JSON", func(f RequestForms) string { return f.ResponseFormat }, map[string]string{
		config.ResponseFormatSchemas: "knows no json_object: it is sent as the schema of an object",
		config.ResponseFormatValue:   "takes schemas in the member value, and response_format text is left out",
	}},
	{"null content", func(f RequestForms) string { return f.NullContent }, map[string]string{
		config.NullContentEmpty:             "refused: it is sent as an empty text",
		config.NullContentEmptyWithoutCalls: "refused where there are no tool calls: it is sent as an empty text",
	}},
	{"turns", func(f RequestForms) string { return f.AdjacentTurns }, map[string]string{
		config.AdjacentTurnsJoined: "those of one role in a row are joined",
	}},
}

// reportRequestForms writes which request members this engine accepts only in a particular form.
func reportRequestForms(b *bytes.Buffer, p *Profile) {
	if words := p.Reasoning().Words; len(words) > 0 && p.Path(config.OpChat) != "" {
		fmt.Fprintf(b, "  efforts       takes %s; the nearest is sent\n", strings.Join(words, ", "))
	}
	for _, form := range formTexts {
		if text := form.texts[form.of(p.RequestForms())]; text != "" && p.Path(config.OpChat) != "" {
			fmt.Fprintf(b, "  %-13s %s\n", form.name, text)
		}
	}
}

func supportedOperations(p *Profile) []string {
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
		b.WriteString("  load          not reported; other clients' work on it stays unseen\n")
	} else {
		fmt.Fprintf(b, "  load          %d running, %d waiting (GET %s)\n", d.Load.Running, d.Load.Waiting, d.LoadPath)
	}
	switch {
	case d.CountsPath != "":
		fmt.Fprintf(b, "  progress      by its counters (GET %s): it may be silent for as long as they move\n", d.CountsPath)
	case d.Profile.Path(config.OpChat) != "":
		fmt.Fprintf(b, "  progress      by the answers it gives: %s\n", silenceBoundsText(d.timeouts))
	}
}

// silenceBoundsText describes how long an engine without counters may be silent.
func silenceBoundsText(t *config.Timeouts) string {
	if t == nil {
		t = &config.Defaults().Timeouts
	}
	return fmt.Sprintf("a silent stream fails after %s before its first event and after %s within, a whole answer after %s",
		cmp.Or(t.FirstEvent, config.FirstEventTimeoutWithoutProgress), cmp.Or(t.Idle, config.IdleTimeoutWithoutProgress), t.Answer)
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
