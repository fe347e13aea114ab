package compare

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"penstock/bench/result"
	"penstock/proxy/front/plaintext"
)

// WriteJSON writes the report as indented JSON.
func (c *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(c)
}

// WriteText writes the report as a table for a terminal.
func (c *Report) WriteText(w io.Writer) error {
	const line = "%-28s %12s %12s %10s   %-28s %s\n"
	var b strings.Builder
	for _, n := range c.Notes {
		b.WriteString("note: " + n + "\n")
	}
	if len(c.Notes) > 0 {
		b.WriteByte('\n')
	}
	if len(c.Rows) > 0 {
		fmt.Fprintf(&b, line, "measure", "base", "new", "change", confidenceText(c.Confidence)+" interval, new - base", "")
	}
	group := ""
	for _, r := range c.Rows {
		if r.Group != group {
			group = r.Group
			b.WriteString("\n" + group + "\n")
		}
		change := "-"
		if r.Change != nil {
			change = percent(*r.Change)
		}
		fmt.Fprintf(&b, line, r.Key, r.key.Format(r.Base), r.key.Format(r.New), change, r.intervalText(), r.outcomeText())
	}
	fmt.Fprintf(&b, "\n%s\n", c.Verdict)
	if len(c.Rows) > 0 {
		b.WriteString("\nThe interval is of new - base, in the unit of the measure, by bootstrap. Gaps between tokens of one request are not\n" +
			"independent: the interval of itl is as wide as one sample a request makes it. All intervals hold at once: of a thousand\n" +
			"comparisons of equal servers one shows a difference at 99.9 %.\n")
	}
	text := b.String()
	for strings.Contains(text, " \n") { // empty cells at the end of a line
		text = strings.ReplaceAll(text, " \n", "\n")
	}
	_, err := io.WriteString(w, plaintext.CleanText(text))
	return err
}

// outcomeText formats the row's outcome.
func (r *Row) outcomeText() string {
	if r.Needs > 0 {
		return fmt.Sprintf("%s: %d", r.Outcome, r.Needs)
	}
	return r.Outcome
}

func (r *Row) intervalText() string {
	if r.Low == nil {
		return "-"
	}
	sign := func(v float64) string {
		if v > 0 {
			return "+" + r.key.Format(v)
		}
		return r.key.Format(v)
	}
	return sign(*r.Low) + " to " + sign(*r.High) + r.key.Unit()
}

// RegressionLimit limits how much worse a measure may become.
type RegressionLimit struct {
	key   *result.Key // if nil, the limit applies to all defaultRegressionKeys
	limit float64     // as a fraction; 0.05 is 5 %
}

// defaultRegressionKeys are the measures that a limit applies to if it names no measure.
var defaultRegressionKeys = map[string]bool{
	"request_throughput": true, "output_throughput": true, "request_goodput": true,
	"median_ttft_ms": true, "p99_ttft_ms": true, "median_tpot_ms": true, "p99_tpot_ms": true, "median_itl_ms": true,
	"p99_itl_ms":     true,
	"median_e2el_ms": true, "p99_e2el_ms": true, "p99_ttft_from_schedule_ms": true, "p99_e2el_from_schedule_ms": true,
}

// ParseRegressionLimit parses LIMIT or MEASURE=LIMIT, such as 5% or p99_ttft_ms=10%.
func ParseRegressionLimit(s string) (RegressionLimit, error) {
	var out RegressionLimit
	name, limit, named := strings.Cut(strings.TrimSpace(s), "=")
	if !named {
		name, limit = "", name
	}
	digits, ok := strings.CutSuffix(strings.TrimSpace(limit), "%")
	var v float64
	if n, err := fmt.Sscanf(digits+"\n", "%g\n", &v); !ok || n != 1 || err != nil || !(v >= 0 && v <= 1e6) {
		return out, fmt.Errorf("bound %q: want a percentage, such as 5%% or p99_ttft_ms=10%%", s)
	}
	out.limit = v / 100
	if named {
		k, err := result.ParseKey(strings.TrimSpace(name))
		if err != nil {
			return out, fmt.Errorf("bound %q: %w", s, err)
		}
		out.key = &k
	}
	return out, nil
}

// CheckRegressions judges a comparison against limits. A measure fails if it is worse by more than
// its limit and its interval excludes zero. If a measure has no interval, it fails if it exceeds
// its limit. Any increase in errors or stream faults also fails.
func CheckRegressions(c *Report, bounds []RegressionLimit) []result.Assertion {
	var out []result.Assertion
	limits, usual := map[string]float64{}, -1.0
	for _, b := range bounds {
		if b.key != nil {
			limits[b.key.String()] = b.limit
		} else if usual < 0 {
			usual = b.limit
		}
	}
	for i := range c.Rows {
		r := &c.Rows[i]
		limit, judged := limits[r.Key]
		switch {
		case judged || usual < 0:
		case defaultRegressionKeys[r.Key]:
			limit, judged = usual, true
		case r.Key == "error_rate" || r.Key == "stream_faults":
			limit, judged = 0, true
		}
		if judged {
			out = append(out, r.checkRegression(limit))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if !slices.ContainsFunc(c.Rows, func(r Row) bool { return r.Key == name }) {
			out = append(out, result.Assertion{
				Text:   name + " against the baseline",
				Reason: "cannot be judged: it is not in both results",
			})
		}
	}
	if len(out) == 0 {
		out = append(out, result.Assertion{
			Text:   "against the baseline",
			Reason: "cannot be judged: the results have no measure in common",
		})
	}
	return out
}

func (r *Row) checkRegression(limit float64) result.Assertion {
	name := r.Key
	if r.Group != "" {
		name += " (" + r.Group + ")"
	}
	a := result.Assertion{Text: fmt.Sprintf("%s at most %s worse than the baseline", name,
		strings.TrimPrefix(percent(limit), "+")), OK: true}
	worse := r.New - r.Base
	if r.key.MoreIsBetter() {
		worse = -worse
	}
	value := worse
	if r.Base != 0 {
		value = worse / math.Abs(r.Base)
	}
	a.Value = &value
	if worse <= 0 || r.Base != 0 && value <= limit || r.Outcome == RowSame || r.Outcome == RowWithinFloor {
		return a
	}
	a.OK = false
	a.Reason = fmt.Sprintf("%s became %s (interval of the difference: %s)", r.key.Format(r.Base), r.key.Format(r.New),
		r.intervalText())
	return a
}
