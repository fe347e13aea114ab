package overhead

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"penstock/bench/result"
)

// Report compares the cost of the edge with that of other proxies on the same machine.
type Report struct {
	Rounds int `json:"rounds"` // complete rounds
	// The run was stopped before the requested number of rounds.
	Interrupted bool               `json:"interrupted"`
	Environment result.Environment `json:"environment"`
	// Targets are direct, penstock and the installed proxies, in the order of the columns.
	Targets []string `json:"targets"`
	Missing []string `json:"missing"` // proxies that are not installed
	// Placement describes which CPUs each process runs on.
	Placement string `json:"placement"`
	// Doubts lists the disturbed measurements and the reasons.
	Doubts []string    `json:"doubts"`
	Tests  []ReportRow `json:"tests"`
}

// ReportRow is a row in the report.
type ReportRow struct {
	Name string `json:"name"`
	Text string `json:"text"`
	Unit string `json:"unit"`
	// Rounds contains the values of each target, in the order of the rounds.
	Rounds map[string][]float64 `json:"rounds"`
	// Median contains the median of each target.
	Median map[string]float64 `json:"median"`
	// Ratio contains the edge's median divided by the median of each other proxy. The time that the
	// engine takes is first subtracted from both medians.
	Ratio map[string]float64 `json:"ratio"`
	// Ratios contains the ratios in each round. Their spread shows how reliable Ratio is.
	Ratios map[string][]float64 `json:"ratios"`
	// If the row contains times, Over compares the edge with each other proxy: the edge's value
	// minus the proxy's value in the same round.
	Over map[string]Difference `json:"over"`
}

// Difference is the difference between values that were measured in pairs.
type Difference struct {
	Median float64 `json:"median"`
	// Low and High are the bounds of the median's 95 % confidence interval. If there are too few
	// rounds for it, they are the lowest and highest differences.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// newDifference computes the difference from one or more pairs. The bounds are those of the sign
// test: each pair's difference is equally likely to be above or below the true median, so a very
// uneven split is unlikely.
func newDifference(ours, theirs []float64) Difference {
	var d []float64
	for i := range min(len(ours), len(theirs)) {
		d = append(d, ours[i]-theirs[i])
	}
	slices.Sort(d)
	outside, tail, term := 0, 0.0, math.Pow(0.5, float64(len(d)))
	for k := range len(d) / 2 {
		if tail += term; tail > 0.025 {
			break
		}
		outside = k
		term *= float64(len(d)-k) / float64(k+1)
	}
	return Difference{Median: median(d), Low: d[outside], High: d[len(d)-1-outside]}
}

func (t *ReportRow) summarise() {
	for name, v := range t.Rounds {
		t.Median[name] = median(v)
	}
	for name, v := range t.Rounds {
		if name == "penstock" || name == "direct" {
			continue
		}
		if ratio, ok := overheadRatio(t.Median["penstock"], t.Median[name], t.Median["direct"]); ok && len(t.Rounds["penstock"]) > 0 {
			t.Ratio[name] = ratio
		}
		if t.Unit == "ms" && min(len(v), len(t.Rounds["penstock"])) > 0 {
			t.Over[name] = newDifference(t.Rounds["penstock"], v)
		}
		for i := range min(len(v), len(t.Rounds["penstock"])) {
			direct := 0.0
			if i < len(t.Rounds["direct"]) {
				direct = t.Rounds["direct"][i]
			}
			if ratio, ok := overheadRatio(t.Rounds["penstock"][i], v[i], direct); ok {
				t.Ratios[name] = append(t.Ratios[name], ratio)
			}
		}
	}
}

// overheadRatio returns the ratio of the times that two proxies add to direct. It returns false if
// the second proxy does not add any time.
func overheadRatio(ours, theirs, direct float64) (float64, bool) {
	return (ours - direct) / (theirs - direct), theirs > direct
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

func (r *Report) write(w io.Writer) error {
	var b strings.Builder
	rounds := fmt.Sprintf("medians of %d rounds", r.Rounds)
	if r.Rounds == 1 {
		rounds = "one round"
	}
	fmt.Fprintf(&b, "What the edge costs: %s, every target in turn, on %s\n", rounds, r.Environment.CPU)
	fmt.Fprintf(&b, "%s.\n\n", r.Placement)
	fmt.Fprintf(&b, "%-72s", "")
	for _, t := range r.Targets {
		fmt.Fprintf(&b, "%12s", t)
	}
	b.WriteByte('\n')
	for i := range r.Tests {
		t := &r.Tests[i]
		fmt.Fprintf(&b, "%-72s", t.Text+", "+t.Unit)
		for _, target := range r.Targets {
			cell := "-"
			if v, ok := t.Median[target]; ok {
				cell = result.NumberText(v)
			}
			fmt.Fprintf(&b, "%12s", cell)
		}
		b.WriteByte('\n')
		if line := t.comparisonsText(r.Targets); line != "" {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	b.WriteString("\nCPU is the proxy's own, of all its threads, by /proc. The edge checks the key, the body and the model, picks an engine, counts tokens and\n" +
		"watches for clients that leave; nginx and HAProxy pass bytes on. Streams end within the measurement, so a token carries its part of the\n" +
		"stream's beginning. Latency includes the engine, which is the same for all; \"direct\" is the engine alone. nginx sets memory for all its\n" +
		"connections aside when it starts. A ratio is of medians, behind it the lowest and the highest of a round. A difference of times is the median\n" +
		"of those of the rounds, behind it what holds that median in 95 of 100 cases (with fewer than six rounds: the lowest and the highest).\n")
	for _, doubt := range r.Doubts {
		fmt.Fprintf(&b, "In doubt: %s.\n", doubt)
	}
	for _, name := range r.Missing {
		fmt.Fprintf(&b, "%s is not installed here: not measured.\n", name)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// comparisonsText formats the comparisons in a row.
func (t *ReportRow) comparisonsText(targets []string) string {
	var out []string
	direct, added := t.Median["direct"]
	for _, name := range targets {
		v, ok := t.Median[name]
		if !ok || !added || name == "direct" {
			continue
		}
		if v > direct && newDifference(t.Rounds[name], t.Rounds["direct"]).Low >= 0 {
			out = append(out, fmt.Sprintf("%s adds %s %s", name, result.NumberText(v-direct), t.Unit))
		} else {
			out = append(out, name+" adds less than the rounds differ")
		}
	}
	for _, name := range targets {
		if d, ok := t.Over[name]; ok {
			out = append(out, fmt.Sprintf("%+.3f ms to %s (%+.3f to %+.3f)", d.Median, name, d.Low, d.High))
			continue
		}
		if ratio, ok := t.Ratio[name]; ok {
			text := fmt.Sprintf("%.2f x %s", ratio, name)
			if all := t.Ratios[name]; len(all) > 1 {
				text += fmt.Sprintf(" (%.2f to %.2f)", slices.Min(all), slices.Max(all))
			}
			out = append(out, text)
		}
	}
	return strings.Join(out, ", ")
}
