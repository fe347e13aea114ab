package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"penstock/config/suggest"
	"penstock/proxy/front/plaintext"
	"penstock/proxy/operate/canary"
	"penstock/proxy/telemetry/observe"
)

// CanaryOptions configure CompareCanary.
type CanaryOptions struct {
	Edge  Edge
	Model string
	JSON  bool
	For   time.Duration // how long to collect calls, from now on; 0 means all calls since the start
}

// The exit codes of CompareCanary, in addition to the code for failures.
const (
	exitWorse   = 3
	exitUnknown = 4
)

// verdictError is the exit code for a verdict. It has no text, because the result has already been
// written.
type verdictError int

func (verdictError) Error() string   { return "" }
func (v verdictError) ExitCode() int { return int(v) }

const fetchArmsTimeout = 5 * time.Second

// CompareCanary compares each arm of a model with the upstreams without an arm, and writes the
// result. If an arm is worse or has too few calls, the error contains an exit code.
func CompareCanary(ctx context.Context, o CanaryOptions, w io.Writer) error {
	arms, err := fetchArms(&o)
	if err != nil {
		return err
	}
	if o.For > 0 {
		select {
		case <-time.After(o.For):
		case <-ctx.Done():
		}
		before := arms
		if arms, err = fetchArms(&o); err != nil {
			return err
		}
		for i := range arms {
			earlier := slices.IndexFunc(before, func(a observe.ArmCounts) bool { return a.Name == arms[i].Name })
			if earlier >= 0 {
				arms[i] = arms[i].Since(&before[earlier])
			}
		}
	}
	var all []*canary.Comparison
	for i := range arms[1:] {
		all = append(all, canary.Compare(o.Model, &arms[0], &arms[i+1]))
	}
	if err := printComparisons(&o, all, w); err != nil {
		return err
	}
	is := func(v canary.Verdict) func(*canary.Comparison) bool {
		return func(c *canary.Comparison) bool { return c.Verdict == v }
	}
	switch {
	case slices.ContainsFunc(all, is(canary.VerdictWorse)):
		return verdictError(exitWorse)
	case slices.ContainsFunc(all, is(canary.VerdictUnknown)):
		return verdictError(exitUnknown)
	}
	return nil
}

func fetchArms(o *CanaryOptions) ([]observe.ArmCounts, error) {
	body, err := o.Edge.get("/-/arms", fetchArmsTimeout)
	if err != nil {
		return nil, err
	}
	var models []observe.ModelArms
	if err := json.Unmarshal(body, &models); err != nil {
		return nil, fmt.Errorf("%s did not answer like a Penstock admin listener", o.Edge.Admin)
	}
	var names []string
	for _, m := range models {
		if m.Model == o.Model && len(m.Arms) > 1 {
			return m.Arms, nil
		}
		names = append(names, m.Model)
	}
	if err := checkModelExists(o); err != nil {
		return nil, err
	}
	if names == nil {
		return nil, fmt.Errorf("the model %s has no arm at %s, and no other model has one: give a deployment traffic: 5%%",
			o.Model, o.Edge.Admin)
	}
	return nil, fmt.Errorf("the model %s has no arm at %s: those with some are %s",
		o.Model, o.Edge.Admin, strings.Join(names, ", "))
}

func checkModelExists(o *CanaryOptions) error {
	body, err := o.Edge.get(fullStatusPath, fetchArmsTimeout)
	if err != nil {
		return err
	}
	var s struct {
		Models []struct {
			ID string `json:"id"`
		} `json:"models"`
	}
	if err := json.Unmarshal(body, &s); err != nil {
		return fmt.Errorf("%s did not answer like a Penstock admin listener", o.Edge.Admin)
	}
	ids := make([]string, len(s.Models))
	for i := range s.Models {
		ids[i] = s.Models[i].ID
	}
	if slices.Contains(ids, o.Model) {
		return nil
	}
	return fmt.Errorf("there is no model %s at %s (aliases do not count)%s",
		o.Model, o.Edge.Admin, suggest.DidYouMean(o.Model, ids))
}

// formatWithUnit formats a number with its unit. A time below a second is formatted in
// milliseconds.
func formatWithUnit(v float64, unit string) string {
	if unit == "s" && v < 1 {
		v, unit = 1000*v, "ms"
	}
	digits := 3 // significant digits; digits before the decimal point are always written
	for w := math.Abs(v); w >= 1000; w /= 10 {
		digits++
	}
	return strconv.FormatFloat(v, 'g', digits, 64) + " " + unit
}

func printComparisons(o *CanaryOptions, all []*canary.Comparison, w io.Writer) error {
	if o.JSON {
		text, err := json.Marshal(all)
		if err != nil {
			return err
		}
		_, err = w.Write(append(plaintext.EscapeJSON(text), '\n'))
		return err
	}
	var out bytes.Buffer
	for i, c := range all {
		if i > 0 {
			out.WriteByte('\n')
		}
		fmt.Fprintf(&out, "%s: %s has had %d calls, the rest %d\n\n", c.Model, c.Arm, c.Calls, c.Rest)
		t := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(t, "\trest\t%s\tchange\t95 %% interval\t\t\n", c.Arm)
		for j := range c.Rows {
			printComparisonRow(t, &c.Rows[j])
		}
		_ = t.Flush() // writing to a buffer never fails
		fmt.Fprintf(&out, "\n%s: %s\n", c.Arm, c.Verdict)
	}
	for line := range strings.Lines(out.String()) {
		if _, err := io.WriteString(w, plaintext.CleanLine(strings.TrimRight(line, " \n"))+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func printComparisonRow(t io.Writer, r *canary.Row) {
	if r.Arm == nil {
		fmt.Fprintf(t, "%s\t-\t-\t-\t%d values\t%s\t\n", r.Measure, r.Values, r.Verdict)
		return
	}
	value, unit := func(v float64) string { return formatWithUnit(v, r.Unit) }, "%"
	if r.Share {
		value, unit = func(v float64) string { return strconv.FormatFloat(100*v, 'f', 2, 64) + "%" }, " points"
	}
	change := func(v float64) string { return fmt.Sprintf("%+.1f", 100*v) }
	fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s to %s\t%s\t\n", r.Measure, value(*r.Rest), value(*r.Arm),
		change(*r.Change)+unit, change(*r.Low), change(*r.High), r.Verdict)
}
