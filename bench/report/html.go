package report

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"penstock/bench/result"
)

//go:embed assets
var assets embed.FS

// measureWords are the measures in words for people, with the formula.
var measureWords = map[string]struct{ label, formula string }{
	result.TTFT:             {"Time to first token", "first token − sent; text, reasoning or part of a tool call, of speech the first byte of sound"},
	result.TTFV:             {"Time to first visible token", "first text or tool call − sent; reasoning does not count"},
	result.TPOT:             {"Time per output token", "(last − first token) ÷ (n − 1), one sample a request; the first token is not in it"},
	result.ITL:              {"Time between tokens", "gap between reads that brought tokens, pooled over requests"},
	result.E2EL:             {"End to end", "last byte − sent"},
	result.TTFTFromSchedule: {"Time to first token, from schedule", "first token − scheduled: what a user would feel who came at that moment"},
	result.E2ELFromSchedule: {"End to end, from schedule", "last byte − scheduled"},
	result.ScheduleDelay:    {"Delay of sending", "sent − scheduled: waiting for a free place, or for the client itself"},
	result.Queue:            {"Queue of the edge", "as the edge says in its answer"},
	result.Connect:          {"Connecting", "new connections only"},
}

// reportColumns are the statistics of the table of latencies.
var reportColumns = []string{"mean", "p50", "p90", "p95", "p99", "p99.9", "max"}

// WriteHTML writes the report: one page that needs no network, whose tables need no script either. It holds what the result holds:
// no prompt, no reply and no key.
func WriteHTML(w io.Writer, r *result.Result) error {
	t, err := template.ParseFS(assets, "assets/report.html")
	if err != nil {
		return err
	}
	page := newPage(r)
	var b bytes.Buffer
	if err := t.Execute(&b, page); err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

func asset(name string) string {
	b, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return string(b)
}

// reportPage is what the template shows: everything is text already.
type reportPage struct {
	Title, Subtitle, Date, Duration string
	Valid, Interrupted              bool
	Verdict                         string
	Reasons                         []result.Reason
	Figures                         []figure
	Latency                         table
	Stages                          *table
	Parts                           []table
	Errors, Faults, Checks, Events  *table
	Second                          *table
	Setup                           []table
	Plots                           []plot
	Groups                          []plotGroup
	Command                         string
	CSS                             template.CSS
	PlotCSS                         template.CSS
	PlotJS, JS                      template.JS
	Licence                         string
}

// figure is a large number at the top.
type figure struct{ Name, Value, Unit, Note string }

// plotGroup is a section of plots.
type plotGroup struct{ ID, Title, Text string }

// table is rows of text; Wide is how many of the first columns are words and not numbers.
type table struct {
	Title, Note string
	Head        []string
	Rows        []row
	Words       int
}

// Narrow says that the table has too few columns to fill the page.
func (t table) Narrow() bool { return len(t.Head) <= 5 }

type row struct {
	Class string
	Cells []cell
}

type cell struct{ Text, Note string }

func cells(texts ...string) []cell {
	out := make([]cell, len(texts))
	for i, t := range texts {
		out[i].Text = t
	}
	return out
}

func newPage(r *result.Result) *reportPage {
	p := r.Penstock
	g := &reportPage{
		Title: r.ModelID, Subtitle: p.Target.BaseURL, Date: r.Date, Duration: secondsText(r.Duration),
		Valid: p.Verdict.Valid, Interrupted: p.Interrupted, Reasons: p.Verdict.Reasons,
		Latency: latencyTable(&p.Total), Command: strings.Join(p.Command, " "), Plots: plots(p),
		CSS: template.CSS(asset("report.css")), PlotCSS: template.CSS(asset("uPlot.min.css")), //nolint:gosec // our own files
		PlotJS: template.JS(asset("uPlot.iife.min.js")), JS: template.JS(asset("report.js")), //nolint:gosec // our own files
		Licence: asset("uPlot.LICENSE"),
	}
	if t, err := time.ParseInLocation("20060102-150405", r.Date, time.Local); err == nil {
		g.Date = t.Format("2 January 2006, 15:04")
	}
	g.Verdict = "The result is valid."
	if !p.Verdict.Valid {
		g.Verdict = "The result is not valid."
	}
	g.Figures = figures(p)
	if len(p.Stages) > 1 {
		g.Stages = stageTable(p)
	}
	for _, part := range []struct {
		name string
		of   map[string]*result.Summary
		min  int
	}{{"By dialect", p.ByDialect, 2}, {"By upstream", p.ByUpstream, 1}} {
		if len(part.of) >= part.min {
			g.Parts = append(g.Parts, partTable(part.name, part.of))
		}
	}
	g.Errors, g.Faults = errorTables(&p.Total)
	g.Checks = checkTable(p.Assertions)
	g.Events = eventTable(p.Events)
	if p.Compare != nil {
		g.Second = secondTable(p)
	}
	g.Setup = setupTables(r)
	for _, s := range []plotGroup{
		{"load", "Over load", "Each point is a stage of the run."},
		{"time", "Over time", "Seconds since the start; percentiles of what happened in each interval."},
		{"spread", "Distributions", "The share of samples that took at most so long."},
		{"engine", "What engine and edge say", "Their own metrics, sampled during the run."},
	} {
		for _, c := range g.Plots {
			if c.Group == s.ID {
				g.Groups = append(g.Groups, s)
				break
			}
		}
	}
	return g
}

func secondsText(s float64) string {
	if s < 120 {
		return result.NumberText(s) + " s"
	}
	return strconv.FormatFloat(s/60, 'f', 1, 64) + " min"
}

// ms is a latency for people, as short as the table allows.
func ms(v float64) string { return result.NumberText(v) }

func opt(v *float64) string {
	if v == nil {
		return "–"
	}
	return result.NumberText(*v)
}

func shareText(v *float64) string {
	if v == nil {
		return "–"
	}
	return strconv.FormatFloat(100**v, 'f', 2, 64) + " %"
}

func whole[N int | int64](v *N) string {
	if v == nil {
		return "–"
	}
	return thousands(int64(*v))
}

// thousands groups digits with thin spaces.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

func figures(p *result.Penstock) []figure {
	s := &p.Total
	both := func(m string) (string, string) {
		d := s.Latency[m]
		if d == nil || d.Count == 0 {
			return "–", "not measured"
		}
		return ms(d.Quantile(50)), "median, p99 " + ms(d.Quantile(99))
	}
	ttft, ttftNote := both(result.TTFT)
	itl, itlNote := both(result.ITL)
	e2e, e2eNote := both(result.E2EL)
	out := []figure{
		{"Requests", opt(s.RequestThroughput), "/s", thousands(int64(s.Completed)) + " completed"},
		{"Output", opt(s.OutputThroughput), "tok/s", whole(s.OutputTokens) + " tokens"},
		{"First token", ttft, "ms", ttftNote},
		{"Between tokens", itl, "ms", itlNote},
		{"End to end", e2e, "ms", e2eNote},
		{"Errors", shareText(s.ErrorRate), "", thousands(int64(s.Failed)) + " failed"},
	}
	if len(p.Objectives) > 0 {
		var names []string
		for _, o := range p.Objectives {
			if o.Measure == "error_rate" {
				continue
			}
			names = append(names, o.Measure+" "+strconv.FormatFloat(o.Limit, 'f', -1, 64))
		}
		out = append(out, figure{"Goodput", opt(s.Goodput), "/s", shareText(s.GoodShare) + " within " + strings.Join(names, ", ")})
	}
	if p.Search != nil && p.Search.Rate != nil {
		out = append(out, figure{"Highest load within objectives", result.NumberText(*p.Search.Rate), "/s", brokeNote(p.Search)})
	}
	return out
}

func brokeNote(s *result.Search) string {
	if s.Limit == nil {
		return "no limit was found"
	}
	return "at " + result.NumberText(*s.Limit) + " /s: " + strings.Join(s.Broke, ", ")
}

func latencyTable(s *result.Summary) table {
	t := table{Title: "Latency", Note: "Milliseconds.", Head: append([]string{"measure", "samples"}, reportColumns...), Words: 1}
	for _, m := range result.Measures() {
		d, words := s.Latency[m], measureWords[m]
		r := row{Cells: []cell{{Text: words.label, Note: words.formula}}}
		if d == nil || d.Count == 0 {
			why := s.Unmeasured[m]
			if why == "" {
				why = "no samples"
			}
			r.Class = "none"
			r.Cells[0].Note += "; not measured: " + why
			r.Cells = append(r.Cells, cells("0", "–", "–", "–", "–", "–", "–", "–")...)
			t.Rows = append(t.Rows, r)
			continue
		}
		r.Cells = append(r.Cells, cell{Text: thousands(d.Count)})
		for _, c := range reportColumns {
			k, _ := result.ParseKey(c + "_" + m + "_ms")
			r.Cells = append(r.Cells, cell{Text: ms(k.Of(d))})
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// summaryHead are the columns that a line about a summary has.
var summaryHead = []string{"requests", "errors", "req/s", "tok/s", "TTFT p50", "p99", "ITL p50", "p99", "E2E p50", "p99"}

func summaryCells(s *result.Summary) []cell {
	out := cells(thousands(int64(s.Requests)), shareText(s.ErrorRate), opt(s.RequestThroughput), opt(s.OutputThroughput))
	for _, m := range []string{result.TTFT, result.ITL, result.E2EL} {
		for _, p := range []float64{50, 99} {
			v := math.NaN()
			if d := s.Latency[m]; d != nil && d.Count > 0 {
				v = d.Quantile(p)
			}
			out = append(out, cell{Text: ms(v)})
		}
	}
	return out
}

func stageTable(p *result.Penstock) *table {
	t := &table{Title: "Stages", Note: "Latencies in milliseconds, from sending.", Head: append([]string{"stage"}, summaryHead...), Words: 1}
	for i := range p.Stages {
		s := &p.Stages[i]
		first := cell{Text: s.Name}
		if s.Met != nil && !*s.Met {
			first.Note = "objectives not met: " + strings.Join(s.Broke, ", ")
		} else if s.Met != nil {
			first.Note = "objectives met"
		}
		t.Rows = append(t.Rows, row{Cells: append([]cell{first}, summaryCells(&s.Summary)...)})
	}
	return t
}

func partTable(title string, of map[string]*result.Summary) table {
	t := table{Title: title, Head: append([]string{"name"}, summaryHead...), Words: 1}
	for _, name := range sortedKeys(of) {
		t.Rows = append(t.Rows, row{Cells: append(cells(name), summaryCells(of[name])...)})
	}
	return t
}

func errorTables(s *result.Summary) (errs, faults *table) {
	if len(s.Errors) > 0 {
		errs = &table{Title: "Failed requests", Head: []string{"kind", "status", "code", "requests", "share"}, Words: 3}
		for _, e := range s.Errors {
			status := "–"
			if e.Status != 0 {
				status = strconv.Itoa(e.Status)
			}
			class := "bad"
			if e.Expected == e.Count {
				class = ""
			}
			part := float64(e.Count) / float64(max(1, s.Requests))
			errs.Rows = append(errs.Rows, row{Class: class, Cells: cells(e.Kind, status, e.Code, thousands(int64(e.Count))+e.Belongs(), shareText(&part))})
		}
	}
	if len(s.StreamFaults) > 0 {
		faults = &table{Title: "Streams that were wrong", Note: "Every stream is checked while it is timed.", Head: []string{"fault", "streams"}, Words: 1}
		for _, k := range sortedKeys(s.StreamFaults) {
			faults.Rows = append(faults.Rows, row{Class: "bad", Cells: []cell{{k, faultWords[k]}, {Text: thousands(int64(s.StreamFaults[k]))}}})
		}
	}
	return errs, faults
}

// faultWords are the faults of streams in words.
var faultWords = map[string]string{
	result.FaultNoEnd: "it ended without what ends a stream of its dialect", result.FaultUnparsed: "an event is not the JSON that it should be",
	result.FaultAfterEnd: "content came after the end", result.FaultOrder: "events came in an order that the dialect forbids",
	result.FaultLost:     "there were fewer events with text than tokens, where all others have one for each",
	result.FaultNoUsage:  "usage was asked for and did not come",
	result.FaultToolJSON: "the arguments of a tool call are not JSON", result.FaultEmpty: "it ended well, without any token",
	result.FaultNoDone: "it ended well, but the [DONE] behind it did not come",
}

func checkTable(all []result.Assertion) *table {
	if len(all) == 0 {
		return nil
	}
	t := &table{Title: "Checks", Head: []string{"result", "condition", "why"}, Words: 3}
	for _, a := range all {
		r := row{Class: "good", Cells: cells("passed", a.Text, a.Reason)}
		if !a.OK {
			r.Class, r.Cells[0].Text = "bad", "failed"
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

func eventTable(events []result.Event) *table {
	if len(events) == 0 {
		return nil
	}
	t := &table{Title: "Events", Note: "Lost: requests that failed within 10 s after the event. Recovery: from the event to the last of them.", Head: []string{"event", "at", "took", "lost", "recovery"}, Words: 1}
	for _, e := range events {
		r := row{Cells: []cell{{eventText(&e), e.Error}, {Text: secondsText(e.StartS)}, {Text: secondsText(e.EndS - e.StartS)}, {Text: strconv.Itoa(e.Lost)}, {Text: "–"}}}
		if e.RecoveryS != nil {
			r.Cells[4].Text = secondsText(*e.RecoveryS)
		}
		if e.Error != "" {
			r.Class = "bad"
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// eventText is what happened, without the word that says to whom.
func eventText(e *result.Event) string { return strings.TrimPrefix(e.Action, "fleet=") }

// secondTable is the comparison with --compare-url.
func secondTable(p *result.Penstock) *table {
	c := p.Compare
	t := &table{
		Title: "Beside a second target",
		Note:  fmt.Sprintf("%s and %s, interleaved: %s pairs of requests. Milliseconds; the difference is what the first adds.", p.Target.BaseURL, c.Target.BaseURL, thousands(int64(c.Pairs))),
		Head:  []string{"measure", "first", "second", "difference", "interval", "verdict"}, Words: 1,
	}
	for _, d := range c.Differences {
		word := "no difference"
		if d.Significant {
			word = "differs"
		}
		t.Rows = append(t.Rows, row{Cells: []cell{
			{Text: measureWords[d.Measure].label + ", " + d.Statistic},
			{Text: ms(d.First)},
			{Text: ms(d.Second)},
			{Text: ms(d.Delta)},
			{Text: result.NumberText(d.Low) + " to " + result.NumberText(d.High), Note: strconv.FormatFloat(100*d.Confidence, 'f', -1, 64) + " %"},
			{Text: word},
		}})
	}
	return t
}

// setupTables say how it was measured.
func setupTables(r *result.Result) []table {
	p := r.Penstock
	list := func(title string, pairs ...string) table {
		t := table{Title: title, Words: 2}
		for pair := range slices.Chunk(pairs, 2) {
			if pair[1] != "" {
				t.Rows = append(t.Rows, row{Cells: cells(pair...)})
			}
		}
		return t
	}
	mix := func(m map[string]float64) string {
		var out []string
		for _, k := range sortedKeys(m) {
			out = append(out, k+" "+strconv.FormatFloat(100*m[k], 'g', 3, 64)+" %")
		}
		return strings.Join(out, ", ")
	}
	counts := func(m map[string]int) string {
		var out []string
		for _, k := range sortedKeys(m) {
			out = append(out, k+" "+thousands(int64(m[k])))
		}
		return strings.Join(out, ", ")
	}
	load := list("Load",
		"target", p.Target.BaseURL+" "+p.Target.Engine, "model", r.ModelID, "dialects", mix(p.Load.Mix), "mode", p.Load.Mode+" loop", "arrivals", p.Load.Arrival,
		"rate asked for", opt(p.Load.RequestedRate), "rate delivered", opt(p.Load.AchievedRate), "measured", secondsText(r.Duration),
		"warm-up", strconv.Itoa(p.Load.WarmupRequests)+" requests", "seed", strconv.FormatUint(p.Seed, 10),
		"input tokens", whole(p.Total.InputTokens), "cached share", shareText(p.Total.CachedShare), "tokens counted by", counts(p.Tokens.Output))
	c := p.Client
	client := list("Client",
		"processor", p.Environment.CPU, "cores used", strconv.Itoa(c.GOMAXPROCS), "busy", shareText(c.CPUShare), "waited for them", shareText(c.CPUWaitShare), "busiest second", shareText(c.CPUMaxShare),
		"longest stop of the collector", result.NumberText(c.GCPauseMaxMs)+" ms", "timers late, p99", p99Text(c.WakeDelay), "connections", strconv.Itoa(c.Connections),
		"frames that came together", shareText(p.Total.CoalescedShare), "penstock", p.Environment.Version, "system", p.Environment.OS+"/"+p.Environment.Arch+", "+p.Environment.Go)
	out := []table{load, client}
	if f := p.Floor; f != nil {
		t := list("Floor", "first token, p99", p99Text(f.TTFT), "error of gaps, p99", p99Text(f.ITLError), "end to end, p99", p99Text(f.E2EL))
		t.Note = "What this client measures of a server in its own process that answers at once: no finer claim can be made."
		out = append(out, t)
	}
	if l := p.Leave; l != nil {
		verified := "could not be watched: " + l.Reason
		if l.Verified != nil {
			verified = "the server did not free them: " + l.Reason
			if *l.Verified {
				verified = "the server freed them"
			}
		}
		out = append(out, list("Clients that left", "left", strconv.Itoa(l.Left), "phase", l.Phase, "verified", verified, "freed, p99", p99Text(l.Freed), "watched", l.Source))
	}
	return out
}

func p99Text(d *result.Distribution) string {
	if d == nil || d.Count == 0 {
		return ""
	}
	return ms(d.Quantile(99)) + " ms"
}
