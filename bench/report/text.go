package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"penstock/bench/result"
	"penstock/proxy/front/plaintext"
)

// vllmBlockWidth is the width of the block that vLLM's tool prints.
const vllmBlockWidth = 50

// textWriter collects lines. Its methods return no errors.
type textWriter struct{ strings.Builder }

func (w *textWriter) writeLine(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// writeValue writes a line of the block: a label of 40 characters and a value.
func (w *textWriter) writeValue(label string, value any) { w.writeLine("%-40s %-10v", label, value) }

func (w *textWriter) writeTitleRule(title string, fill byte) {
	if title != "" {
		title = " " + title + " "
	}
	side := vllmBlockWidth - len(title)
	w.writeLine("%s%s%s", strings.Repeat(string(fill), side/2), title, strings.Repeat(string(fill), side-side/2))
}

// metricTitles contains, for each measure, the heading in vLLM's block and the name used within a
// line.
var metricTitles = map[string][2]string{
	result.TTFT: {"Time to First Token", "TTFT"}, result.TTFV: {"Time to First Visible Token", "TTFV"},
	result.TPOT: {"Time per Output Token (excl. 1st token)", "TPOT"}, result.ITL: {"Inter-token Latency", "ITL"},
	result.E2EL:             {"End-to-end Latency", "E2EL"},
	result.TTFTFromSchedule: {"TTFT from schedule", "TTFT (schedule)"},
	result.E2ELFromSchedule: {"E2EL from schedule", "E2EL (schedule)"},
	result.ScheduleDelay:    {"Client queue time", "client queue"}, result.Queue: {"Queue time in the edge", "queue"},
	result.Connect: {"Connecting", "connect"},
}

// measureFormulas are printed below the measures that other tools define differently.
var measureFormulas = map[string]string{
	result.TPOT: "(last - first token) / (n - 1), a sample per request; guidellm's includes the first token",
	result.ITL:  "gaps between reads that brought tokens, pooled over requests; guidellm and AIPerf: mean of each request",
}

// WriteText prints the result: vLLM's block, Penstock's additions to it, and the verdict.
func WriteText(w io.Writer, r *result.Result) error {
	var b textWriter
	b.writeVLLMBlock(r)
	p := r.Penstock
	if s := p.Scenario; s != nil {
		b.writeLine("Scenario %s: %s What to look at: penstock bench scenarios %s.", s.Name, s.Text, s.Name)
	}
	b.writeScheduleLatencies(p)
	b.writeTable(stageTable(p))
	b.writeSearchOutcome(p)
	b.writeTable(phaseTable(p))
	b.writeTable(breakdownTable("By dialect", p.ByDialect))
	b.writeTable(breakdownTable("By upstream", p.ByUpstream))
	b.writeTable(comparisonTable(p))
	b.writeDetails(p)
	b.writeVerdict(p)
	_, err := io.WriteString(w, plaintext.CleanText(b.String()))
	return err
}

// WriteVerdict prints only the verdict.
func WriteVerdict(w io.Writer, p *result.Penstock) error {
	var b textWriter
	b.writeVerdict(p)
	_, err := io.WriteString(w, plaintext.CleanText(strings.TrimPrefix(b.String(), "\n")))
	return err
}

func (w *textWriter) writeVLLMBlock(r *result.Result) {
	w.writeTitleRule("Serving Benchmark Result", '=')
	w.writeValue("Successful requests:", r.Completed)
	w.writeValue("Failed requests:", r.Failed)
	if r.MaxConcurrency != nil {
		w.writeValue("Maximum request concurrency:", *r.MaxConcurrency)
	}
	if !math.IsInf(float64(r.RequestRate), 0) {
		w.writeValue("Request rate configured (RPS):", twoDecimals(float64(r.RequestRate)))
	}
	w.writeValue("Benchmark duration (s):", twoDecimals(r.Duration))
	w.writeValue("Total input tokens:", totalText(r.TotalInputTokens))
	w.writeValue("Total generated tokens:", totalText(r.TotalOutputTokens))
	w.writeValue("Request throughput (req/s):", twoDecimalsOrDash(r.RequestThroughput))
	if r.RequestGoodput != nil {
		w.writeValue("Request goodput (req/s):", twoDecimalsOrDash(r.RequestGoodput))
	}
	w.writeValue("Output token throughput (tok/s):", twoDecimalsOrDash(r.OutputThroughput))
	w.writeValue("Peak output token throughput (tok/s):", twoDecimalsOrDash(r.MaxOutputTokensPerS))
	w.writeValue("Peak concurrent requests:", twoDecimals(float64(r.MaxConcurrentRequests)))
	w.writeValue("Total token throughput (tok/s):", twoDecimalsOrDash(r.TotalTokenThroughput))
	if r.RTFX != nil {
		w.writeValue("RTFx (s of audio per s):", twoDecimalsOrDash(r.RTFX))
	}
	for _, m := range result.FlatMeasures {
		title, short := metricTitles[m][0], metricTitles[m][1]
		w.writeTitleRule(title, '-')
		if r.Measures["mean_"+m+"_ms"] == nil {
			w.writeValue("not measured:", r.Penstock.Total.Unmeasured[m])
			continue
		}
		w.writeValue("Mean "+short+" (ms):", twoDecimalsOrDash(r.Measures["mean_"+m+"_ms"]))
		w.writeValue("Median "+short+" (ms):", twoDecimalsOrDash(r.Measures["median_"+m+"_ms"]))
		for _, p := range []string{"90", "95", "99"} {
			w.writeValue("P"+p+" "+short+" (ms):", twoDecimalsOrDash(r.Measures["p"+p+"_"+m+"_ms"]))
		}
		if text := measureFormulas[m]; text != "" {
			w.writeLine("  = %s", text)
		}
	}
	w.writeTitleRule("", '=')
}

// writeScheduleLatencies prints the latencies from the schedule next to those from the time of
// sending.
func (w *textWriter) writeScheduleLatencies(p *result.Penstock) {
	a, b := p.Total.Latency[result.TTFT], p.Total.Latency[result.TTFTFromSchedule]
	if a == nil || b == nil {
		a, b = p.Total.Latency[result.E2EL], p.Total.Latency[result.E2ELFromSchedule]
	}
	if a == nil || b == nil || p.Load.Mode == "closed" {
		return
	}
	what := "TTFT"
	if p.Total.Latency[result.TTFT] == nil {
		what = "E2EL"
	}
	w.writeLine("From schedule, waiting in the client included: %s p50 %s, p99 %s ms (from send %s, %s).", what,
		twoDecimals(b.Percentile(50)), twoDecimals(b.Percentile(99)), twoDecimals(a.Percentile(50)), twoDecimals(a.Percentile(99)))
}

// writeSearchOutcome prints the outcome of a sweep or a search.
func (w *textWriter) writeSearchOutcome(p *result.Penstock) {
	if s := p.Search; s != nil {
		switch {
		case s.Rate != nil && s.Limit != nil:
			w.writeLine("Highest rate that met the objectives: %s requests/s; at %s not met: %s.", twoDecimals(*s.Rate), twoDecimals(*s.Limit), strings.Join(s.Missed, ", "))
		case s.Rate != nil:
			w.writeLine("Highest rate tried, %s requests/s, met the objectives.", twoDecimals(*s.Rate))
		case len(p.Objectives) > 0:
			w.writeLine("No load tried met the objectives%s.", missedWithOneRequest(p))
		}
		if s.Knee != nil {
			w.writeLine("Throughput followed the load up to stage %q.", p.Stages[*s.Knee].Name)
		}
	}
}

// missedWithOneRequest describes the objectives that were missed even with one request at a time.
func missedWithOneRequest(p *result.Penstock) string {
	for i := range p.Stages {
		if s := &p.Stages[i]; s.Concurrency != nil && *s.Concurrency == 1 && len(s.Missed) > 0 {
			return ", not even one request at a time: " + strings.Join(s.Missed, ", ")
		}
	}
	return ""
}

func (w *textWriter) writeTable(t table) {
	if len(t.Rows) > 0 {
		w.writeLine("\n%s", strings.TrimRight(t.terminalText(), "\n"))
	}
}

func (w *textWriter) writeDetails(p *result.Penstock) {
	for _, e := range p.Total.Errors {
		w.writeLine("Failed: %d x %s%s", e.Count, e.Label(), e.ExpectedText())
	}
	if s := p.Total.CachedShare; s != nil {
		w.writeLine("Found in the target's cache: %.1f %% of the input tokens.", *s*100)
	}
	if wait := retryWaitText(p); wait != "" {
		w.writeLine("Waited for Retry-After: %s.", wait)
	}
	if f := p.Floor; f != nil {
		w.writeLine("This machine's floor: TTFT %s ms p50, %s p99; gaps off by %s ms at p99. No finer claim can be made.", threeDecimals(f.TTFT.Percentiles["50"]), threeDecimals(f.TTFT.Percentiles["99"]), threeDecimals(f.ITLError.Percentiles["99"]))
	}
	if c := p.Client; c.CPUShare != nil {
		w.writeLine("Client: %.0f %% of %d processors, %d connections.", *c.CPUShare*100, c.GOMAXPROCS, c.Connections)
	}
	if l := p.Leave; l != nil {
		switch {
		case l.Verified == nil:
			w.writeLine("Left on purpose: %d (%s); not verified: %s.", l.Left, l.Phase, l.Reason)
		case *l.Verified:
			w.writeLine("Left on purpose: %d (%s); freed within %s ms at p99 by %s, read every 50 ms.", l.Left, l.Phase, percentileText(l.Freed, 99), l.Source)
		default:
			w.writeLine("Left on purpose: %d (%s); NOT freed by %s: %d too many after the run.", l.Left, l.Phase, l.Source, *l.Leaked)
		}
	}
	for _, e := range p.Events {
		text := "ok"
		if e.Error != "" {
			text = e.Error
		}
		if e.Seen != "" {
			text = fmt.Sprintf("%s after %.1f s", e.Seen, e.EndS-e.StartS)
		}
		if e.Moved != nil && *e.Moved > 0 {
			text += fmt.Sprintf("; %d calls moved", *e.Moved)
		}
		if e.RecoveryS != nil {
			text += fmt.Sprintf("; %d requests failed within %.1f s", e.Lost, *e.RecoveryS)
		}
		w.writeLine("Event at %.0f s: %s: %s", e.AtS, e.Action, text)
	}
}

func (w *textWriter) writeVerdict(p *result.Penstock) {
	if p.Verdict.Valid {
		w.writeLine("\nVerdict: valid.")
	} else {
		w.writeLine("\nVerdict: NOT VALID.")
	}
	for _, r := range p.Verdict.Reasons {
		mark := "note"
		if r.Invalidates {
			mark = "not valid"
		}
		w.writeLine("  %s: %s.", mark, r.Text)
	}
}

func twoDecimals(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

func threeDecimals(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

func twoDecimalsOrDash(v *float64) string {
	if v == nil {
		return "-"
	}
	return twoDecimals(*v)
}

func totalText(v *int64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatInt(*v, 10)
}

// percentileText formats a percentile of a distribution, which may be nil.
func percentileText(d *result.Distribution, p float64) string {
	if d == nil {
		return "-"
	}
	return twoDecimals(d.Percentile(p))
}
