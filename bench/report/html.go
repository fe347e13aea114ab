package report

import (
	"cmp"
	_ "embed"
	"html/template"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"penstock/bench/result"
)

var (
	//go:embed assets/report.html
	pageHTML string
	//go:embed assets/report.css
	pageCSS template.CSS
	//go:embed assets/report.js
	pageJS template.JS
	//go:embed assets/uPlot.min.css
	plotCSS template.CSS
	//go:embed assets/uPlot.iife.min.js
	plotJS template.JS
	//go:embed assets/uPlot.LICENSE
	plotLicence string
)

var measureLabels = map[string]struct{ label, formula string }{
	result.TTFT:             {"Time to first token", "first token − sent; text, reasoning or part of a tool call, of speech the first byte of sound"},
	result.TTFV:             {"Time to first visible token", "first text or tool call − sent; reasoning does not count"},
	result.TPOT:             {"Time per output token", "(last − first token) ÷ (n − 1), one sample a request; the first token is not in it"},
	result.ITL:              {"Time between tokens", "gap between reads that brought tokens, pooled over requests"},
	result.E2EL:             {"End to end", "last byte − sent"},
	result.TTFTFromSchedule: {"Time to first token, from schedule", "first token − scheduled: what a user arriving at that moment would feel"},
	result.E2ELFromSchedule: {"End to end, from schedule", "last byte − scheduled"},
	result.ScheduleDelay:    {"Delay of sending", "sent − scheduled: waiting for a free place, or for the client itself"},
	result.Queue:            {"Queue of the edge", "as the edge says in its answer"},
	result.Connect:          {"Connecting", "new connections only"},
}

// faultDescriptions describes the faults of streams.
var faultDescriptions = map[string]string{
	result.FaultNoEnd:    "it ended without its dialect's end of a stream",
	result.FaultUnparsed: "an event is not the expected JSON",
	result.FaultAfterEnd: "content came after the end",
	result.FaultOrder:    "events came in an order that the dialect forbids",
	result.FaultLost:     "there were fewer events with text than tokens, where all others have one for each",
	result.FaultNoUsage:  "usage was asked for and did not come",
	result.FaultToolJSON: "the arguments of a tool call are not JSON",
	result.FaultEmpty:    "it ended well, without any token",
	result.FaultNoDone:   "it ended well, but no [DONE] followed",
}

// WriteHTML writes the page of a result. The page needs no network, and its tables are readable
// without the script. Like the result, the page contains no prompts, responses or keys.
func WriteHTML(w io.Writer, r *result.Result) error {
	return template.Must(template.New("report").Parse(pageHTML)).Execute(w, newPage(r))
}

// pageData is the template data. All values in it are already formatted.
type pageData struct {
	Title, Subject, Date, Duration, Verdict string
	Explain                                 []string // explanation of the scenario, in paragraphs
	*result.Penstock
	Figures       []headlineFigure
	Tables, Parts []table // Tables precede the plots, and Parts follow them
	Setup         []table
	Plots         []plot
	Groups        []plotGroup
	CSS, PlotCSS  template.CSS
	PlotJS, JS    template.JS
	Licence       string
}

// headlineFigure is a large number at the top of the page.
type headlineFigure struct{ Name, Value, Unit, Note string }

type plotGroup struct{ ID, Title, Text string }

// plotGroups contains all plot sections in order.
var plotGroups = []plotGroup{
	{"load", "Over load", "Each point is a stage of the run."},
	{"time", "Over time", "Seconds since the start; percentiles of what happened in each interval."},
	{"spread", "Distributions", "The share of samples that took at most this long."},
	{"engine", "What engine and edge say", "Their own metrics, sampled during the run."},
}

func newPage(r *result.Result) *pageData {
	p := r.Penstock
	g := &pageData{
		Title: r.ModelID, Subject: p.Target.BaseURL, Date: r.Date,
		Duration: secondsText(r.Duration), Verdict: "The result is valid.", Penstock: p,
		Figures: headlineFigures(p),
		Plots:   allPlots(p),
		CSS:     pageCSS, PlotCSS: plotCSS,
		PlotJS: plotJS, JS: pageJS,
		Licence: plotLicence,
	}
	if s := p.Scenario; s != nil {
		g.Explain = strings.Split(s.Explain, "\n\n")
		if s.OwnFleet { // the ports of such a fleet mean nothing to the reader
			g.Subject = "simulated engines behind an edge"
		}
	}
	g.Setup = setupTables(r, g.Subject)
	if t, err := time.ParseInLocation("20060102-150405", r.Date, time.Local); err == nil {
		g.Date = t.Format("2 January 2006, 15:04")
	}
	if !p.Verdict.Valid {
		g.Verdict = "The result is not valid."
	}
	for _, t := range []table{
		checkTable(p.Assertions), latencyTable(&p.Total), comparisonTable(p), stageTable(p), phaseTable(p),
		errorTable(&p.Total), faultTable(&p.Total), eventTable(p.Events),
	} {
		if len(t.Rows) > 0 {
			g.Tables = append(g.Tables, t)
		}
	}
	for _, t := range []table{breakdownTable("By dialect", p.ByDialect), breakdownTable("By upstream", p.ByUpstream)} {
		if len(t.Rows) > 0 {
			g.Parts = append(g.Parts, t)
		}
	}
	for _, s := range plotGroups {
		if slices.ContainsFunc(g.Plots, func(c plot) bool { return c.Group == s.ID }) {
			g.Groups = append(g.Groups, s)
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

func p99Text(d *result.Distribution) string {
	if d == nil || d.Count == 0 {
		return ""
	}
	return result.NumberText(d.Quantile(99)) + " ms"
}

func headlineFigures(p *result.Penstock) []headlineFigure {
	s := &p.Total
	latency := func(name, m string) headlineFigure {
		d := s.Latency[m]
		if d == nil || d.Count == 0 {
			return headlineFigure{name, "–", "ms", "not measured"}
		}
		return headlineFigure{name, result.NumberText(d.Quantile(50)), "ms", "median, p99 " + result.NumberText(d.Quantile(99))}
	}
	out := []headlineFigure{
		{"Requests", optionalNumberText(s.RequestThroughput), "/s", groupThousands(s.Completed) + " completed"},
		{"Output", optionalNumberText(s.OutputThroughput), "tok/s", optionalInteger(s.OutputTokens) + " tokens"},
		latency("First token", result.TTFT), latency("Between tokens", result.ITL), latency("End to end", result.E2EL),
		{"Errors", shareText(s.ErrorRate), "", groupThousands(s.Failed) + " failed"},
	}
	if len(p.Objectives) > 0 {
		var names []string
		for _, o := range p.Objectives {
			if o.Measure != "error_rate" {
				names = append(names, o.Measure+" "+strconv.FormatFloat(o.Limit, 'f', -1, 64))
			}
		}
		out = append(out, headlineFigure{
			"Goodput", optionalNumberText(s.Goodput), "/s",
			shareText(s.GoodShare) + " within " + strings.Join(names, ", "),
		})
	}
	if f := p.Search; f != nil && f.Rate != nil {
		note := "no limit was found"
		if f.Limit != nil {
			note = "at " + result.NumberText(*f.Limit) + " /s: " + strings.Join(f.Missed, ", ")
		}
		out = append(out, headlineFigure{"Highest load within objectives", result.NumberText(*f.Rate), "/s", note})
	}
	return out
}

func latencyTable(s *result.Summary) table {
	columns := []string{"mean", "p50", "p90", "p95", "p99", "p99.9", "max"}
	t := table{Title: "Latency", Note: "Milliseconds.", Head: append([]string{"measure", "samples"}, columns...), Words: 1}
	for _, m := range result.AllMeasures() {
		d, words := s.Latency[m], measureLabels[m]
		if d == nil || d.Count == 0 {
			why := s.Unmeasured[m]
			if why == "" {
				why = "no samples"
			}
			t.addRow("none", tableCell{words.label, words.formula + "; not measured: " + why}, "0", "–", "–", "–", "–", "–", "–", "–")
			continue
		}
		texts := []string{groupThousands(d.Count)}
		for _, c := range columns {
			k, _ := result.ParseKey(c + "_" + m + "_ms")
			texts = append(texts, result.NumberText(k.FromDistribution(d)))
		}
		t.addRow("", tableCell{words.label, words.formula}, texts...)
	}
	return t
}

func errorTable(s *result.Summary) table {
	t := table{Title: "Failed requests", Head: []string{"kind", "status", "code", "requests", "share"}, Words: 3}
	for _, e := range s.Errors {
		status, class := "–", "bad"
		if e.Status != 0 {
			status = strconv.Itoa(e.Status)
		}
		if e.Expected == e.Count {
			class = ""
		}
		part := float64(e.Count) / float64(max(1, s.Requests))
		t.addRow(class, tableCell{Text: e.Kind}, status, e.Code, groupThousands(e.Count)+e.ExpectedText(), shareText(&part))
	}
	return t
}

func faultTable(s *result.Summary) table {
	t := table{
		Title: "Streams that were wrong", Note: "Every stream is checked while it is timed.",
		Head: []string{"fault", "streams"}, Words: 1,
	}
	for _, k := range slices.Sorted(maps.Keys(s.StreamFaults)) {
		t.addRow("bad", tableCell{k, faultDescriptions[k]}, groupThousands(s.StreamFaults[k]))
	}
	return t
}

func checkTable(all []result.Assertion) table {
	t := table{Title: "Checks", Head: []string{"result", "condition", "why"}, Words: 3}
	for _, a := range all {
		if a.OK {
			t.addRow("good", tableCell{Text: "passed"}, a.Text, a.Reason)
		} else {
			t.addRow("bad", tableCell{Text: "failed"}, a.Text, a.Reason)
		}
	}
	return t
}

func eventTable(events []result.Event) table {
	t := table{Title: "Events", Note: "Took: until the edge did what the event waits for, where it waits. Moved: calls that the edge sent to another engine until 10 s after the event. Lost: requests that failed until 10 s after the event. Recovery: from the event to the last of them.", Head: []string{"event", "seen", "at", "took", "moved", "lost", "recovery"}, Words: 2}
	for _, e := range events {
		class, recovery, moved := "", "–", "–"
		if e.Moved != nil {
			moved = strconv.Itoa(*e.Moved)
		}
		if e.RecoveryS != nil {
			recovery = secondsText(*e.RecoveryS)
		}
		if e.Error != "" {
			class = "bad"
		}
		t.addRow(class, tableCell{e.Action, e.Error}, cmp.Or(e.Seen, "–"), secondsText(e.StartS),
			secondsText(e.EndS-e.StartS), moved, strconv.Itoa(e.Lost), recovery)
	}
	return t
}

// pairTable returns a table of names and values. It omits pairs without a value.
func pairTable(title, note string, pairs ...string) table {
	t := table{Title: title, Note: note, Words: 2}
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			t.addRow("", tableCell{Text: pair[0]}, pair[1])
		}
	}
	return t
}

// formatMap formats a map, ordered by name.
func formatMap[V any](m map[string]V, text func(V) string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+" "+text(m[k]))
	}
	return strings.Join(out, ", ")
}

// retryWaitText describes how long clients waited because of Retry-After. If they did not wait, it
// returns "".
func retryWaitText(p *result.Penstock) string {
	if p.Load.RetryWaitS == 0 {
		return ""
	}
	return secondsText(p.Load.RetryWaitS) + ", all clients together"
}

// setupTables returns the tables that describe how the result was measured.
func setupTables(r *result.Result, target string) []table {
	p := r.Penstock
	mix := formatMap(p.Load.Mix, func(v float64) string { return strconv.FormatFloat(100*v, 'g', 3, 64) + " %" })
	c := p.Client
	out := []table{
		pairTable("Load", "",
			"target", target+" "+p.Target.Engine, "model", r.ModelID, "dialects", mix, "mode", p.Load.Mode+" loop",
			"arrivals", p.Load.Arrival,
			"rate asked for", optionalNumberText(p.Load.RequestedRate), "rate delivered", optionalNumberText(p.Load.AchievedRate), "measured",
			secondsText(r.Duration),
			"waited for Retry-After", retryWaitText(p),
			"warm-up", strconv.Itoa(p.Load.WarmupRequests)+" requests", "seed", strconv.FormatUint(p.Seed, 10),
			"input tokens", optionalInteger(p.Total.InputTokens), "cached share", shareText(p.Total.CachedShare), "tokens counted by",
			formatMap(p.Tokens.Output, groupThousands[int])),
		pairTable("Client", "",
			"processor", p.Environment.CPU, "cores used", strconv.Itoa(c.GOMAXPROCS), "busy", shareText(c.CPUShare),
			"waited for them", shareText(c.CPUWaitShare), "busiest second", shareText(c.CPUMaxShare),
			"longest stop of the collector", result.NumberText(c.GCPauseMaxMs)+" ms", "timers late, p99", p99Text(c.WakeDelay),
			"connections", strconv.Itoa(c.Connections),
			"frames that came together", shareText(p.Total.CoalescedShare), "penstock", p.Environment.Version, "system",
			p.Environment.OS+"/"+p.Environment.Arch+", "+p.Environment.Go),
	}
	if f := p.Floor; f != nil {
		out = append(out, pairTable("Floor", "What this client measures of a server in its own process that answers at once: no finer claim can be made.",
			"first token, p99", p99Text(f.TTFT), "error of gaps, p99", p99Text(f.ITLError), "end to end, p99", p99Text(f.E2EL)))
	}
	if l := p.Leave; l != nil {
		verified := "could not be watched: " + l.Reason
		if l.Verified != nil && *l.Verified {
			verified = "the server freed them"
		} else if l.Verified != nil {
			verified = "the server did not free them: " + l.Reason
		}
		out = append(out, pairTable("Clients that left", "", "left", strconv.Itoa(l.Left), "phase", l.Phase, "verified",
			verified, "freed, p99", p99Text(l.Freed), "watched", l.Source))
	}
	return out
}
