package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// OverheadCmd is `penstock bench overhead`.
type OverheadCmd struct {
	Rounds   int           `default:"3" help:"Rounds; every target has its turn in each. The report has medians."`
	Duration time.Duration `default:"3s" help:"Time of one measurement of requests."`
	Streams  int           `default:"100" help:"Streams side by side when tokens are measured."`
	Hold     int           `default:"500" help:"Streams held open when memory is measured."`
	Tests    []string      `default:"request,latency,token,messages,memory" help:"What is measured: request, latency, token, messages, memory."`
	Beside   []string      `default:"nginx,haproxy" help:"Proxies to measure beside the edge, where they are installed."`
	Output   string        `short:"o" placeholder:"FILE" help:"Write the numbers of every round as JSON."`
}

// overheadTest is one measurement.
type overheadTest struct {
	name, unit, text string
	engine           []string // flags of the simulator behind every target
	options          Options
	edgeOnly         bool // only the edge speaks this dialect
	direct           bool // measured without a proxy, too
	value            func(m *overheadRun) float64
}

// overheadRun is what one run of a test against one target gave.
type overheadRun struct {
	result  *Result
	cpu     float64 // microseconds of the proxy's processor time
	before  float64 // bytes of its resident memory
	highest float64
	streams int
}

// OverheadReport is what the edge costs, beside others on the same machine at the same time.
type OverheadReport struct {
	Rounds      int         `json:"rounds"`
	Environment Environment `json:"environment"`
	// Targets are direct, penstock and the proxies found, in the order of the columns.
	Targets []string       `json:"targets"`
	Missing []string       `json:"missing"` // proxies that are not installed
	Tests   []OverheadTest `json:"tests"`
}

// OverheadTest is one line of the report.
type OverheadTest struct {
	Name string `json:"name"`
	Text string `json:"text"`
	Unit string `json:"unit"`
	// Rounds are the values of each target, by round.
	Rounds map[string][]float64 `json:"rounds"`
	// Median of each target.
	Median map[string]float64 `json:"median"`
	// Ratio is the edge's median over that of each other proxy, what the engine alone takes left out.
	Ratio map[string]float64 `json:"ratio"`
}

// tests are the measurements that were asked for.
func (c *OverheadCmd) tests() ([]overheadTest, error) {
	request := Options{MaxConcurrency: []int{32}, Duration: c.Duration, NoStream: true, InputLen: "256", OutputLen: "200", IgnoreEOS: true}
	steady := request
	steady.MaxConcurrency, steady.RequestRate, steady.Arrival = nil, []string{"200"}, "constant"
	stream := Options{MaxConcurrency: []int{c.Streams}, NumPrompts: c.Streams, InputLen: "64", OutputLen: "200", IgnoreEOS: true}
	messages := stream
	messages.Backend = "messages"
	hold := Options{MaxConcurrency: []int{c.Hold}, NumPrompts: c.Hold, InputLen: "64", OutputLen: "4", IgnoreEOS: true}
	paced := []string{"--token-rate=50"}
	perToken := func(m *overheadRun) float64 {
		if m.result.TotalOutputTokens == nil {
			return math.NaN()
		}
		return m.cpu / float64(*m.result.TotalOutputTokens)
	}
	all := []overheadTest{
		{name: "request", unit: "µs", text: "CPU of a request: 1 KB in, 1 KB out, not streamed, 32 at once", options: request, value: func(m *overheadRun) float64 { return m.cpu / float64(m.result.Completed+preflightRequests) }},
		{name: "latency", unit: "ms", text: "end to end at 200 requests/s, median", options: steady, direct: true, value: func(m *overheadRun) float64 { return m.result.Penstock.Total.Latency[E2EL].quantile(50) }},
		{name: "token", unit: "µs", text: fmt.Sprintf("CPU of a streamed token: %d streams, a token each 20 ms", c.Streams), engine: paced, options: stream, value: perToken},
		{name: "messages", unit: "µs", text: "the same, Messages translated to chat and back", engine: paced, options: messages, edgeOnly: true, value: perToken},
		{name: "memory", unit: "KiB", text: fmt.Sprintf("resident memory of a held stream, of %d", c.Hold), engine: []string{"--token-rate=1"}, options: hold, value: func(m *overheadRun) float64 {
			return max(0, m.highest-m.before) / 1024 / float64(m.streams)
		}},
	}
	var out []overheadTest
	for _, name := range c.Tests {
		i := slices.IndexFunc(all, func(t overheadTest) bool { return t.name == name })
		if i < 0 {
			return nil, usageError("unknown test %q: want request, latency, token, messages or memory", name)
		}
		out = append(out, all[i])
	}
	return out, nil
}

// preflightRequests are what a run sends before it measures.
const preflightRequests = 2

// Run measures and prints.
func (c *OverheadCmd) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.run(ctx, os.Stdout, os.Stderr)
}

func (c *OverheadCmd) run(ctx context.Context, out, notes io.Writer) error {
	if c.Output != "" {
		if err := replaceable(c.Output); err != nil {
			return usageError("--output %s cannot be written: %s", c.Output, cause(err))
		}
	}
	report, err := c.measure(ctx, notes)
	if err != nil {
		return err
	}
	if c.Output != "" {
		b, err := json.MarshalIndent(report, "", "  ")
		if err != nil {
			return err
		}
		if err := writeFile(c.Output, append(b, '\n')); err != nil {
			return err
		}
	}
	return report.write(out)
}

func (c *OverheadCmd) measure(ctx context.Context, notes io.Writer) (*OverheadReport, error) {
	if runtime.GOOS != "linux" {
		return nil, usageError("bench overhead reads /proc: it needs Linux")
	}
	if c.Rounds < 1 || c.Streams < 1 || c.Hold < 1 || c.Duration < 100*time.Millisecond {
		return nil, usageError("--rounds, --streams and --hold are at least 1, --duration at least 100ms")
	}
	tests, err := c.tests()
	if err != nil {
		return nil, err
	}
	lab, err := newOverheadLab()
	if err != nil {
		return nil, err
	}
	defer lab.close()
	report := &OverheadReport{Rounds: c.Rounds, Environment: environment(), Targets: []string{"direct", "penstock"}, Missing: []string{}}
	for _, name := range c.Beside {
		switch found, err := lab.find(name); {
		case err != nil:
			return nil, err
		case found:
			report.Targets = append(report.Targets, name)
		default:
			report.Missing = append(report.Missing, name)
		}
	}
	for _, t := range tests {
		report.Tests = append(report.Tests, OverheadTest{Name: t.name, Text: t.text, Unit: t.unit, Rounds: map[string][]float64{}, Median: map[string]float64{}, Ratio: map[string]float64{}})
	}
	for round := range c.Rounds {
		for i, t := range tests {
			for j := range report.Targets {
				target := report.Targets[(j+round)%len(report.Targets)] // another one begins in each round
				if target == "direct" && !t.direct || target != "penstock" && t.edgeOnly {
					continue
				}
				fmt.Fprintf(notes, "round %d of %d: %s, %s\n", round+1, c.Rounds, t.name, target)
				m, err := lab.run(ctx, target, &t)
				if err != nil {
					return nil, &ExitError{ExitFailed, fmt.Sprintf("%s through %s: %s", t.name, target, err)}
				}
				report.Tests[i].Rounds[target] = append(report.Tests[i].Rounds[target], t.value(m))
			}
		}
	}
	for i := range report.Tests {
		report.Tests[i].settle()
	}
	return report, nil
}

// settle fills in medians and ratios.
func (t *OverheadTest) settle() {
	for name, v := range t.Rounds {
		t.Median[name] = median(v)
	}
	direct := t.Median["direct"]
	for name, v := range t.Median {
		if ours, ok := t.Median["penstock"]; ok && name != "penstock" && name != "direct" && v > direct {
			t.Ratio[name] = (ours - direct) / (v - direct)
		}
	}
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// write prints the table.
func (r *OverheadReport) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "What the edge costs: medians of %d rounds, every target in turn, on %s\n\n", r.Rounds, r.Environment.CPU)
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
				cell = numberText(v)
			}
			fmt.Fprintf(&b, "%12s", cell)
		}
		b.WriteByte('\n')
		if line := t.ratios(r.Targets); line != "" {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	b.WriteString("\nCPU is the proxy's own, of all its threads, by /proc. The edge checks the key, the body and the model, picks an engine, counts tokens and\n" +
		"watches for clients that leave; nginx and HAProxy pass bytes on. Streams end within the measurement, so a token carries its part of the\n" +
		"stream's beginning. Latency includes the engine, which is the same for all; \"direct\" is the engine alone.\n")
	for _, name := range r.Missing {
		fmt.Fprintf(&b, "%s is not installed here: not measured.\n", name)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ratios are the comparisons of a line, in words.
func (t *OverheadTest) ratios(targets []string) string {
	var out []string
	direct, added := t.Median["direct"]
	for _, name := range targets {
		if v, ok := t.Median[name]; ok && added && name != "direct" {
			out = append(out, fmt.Sprintf("%s adds %s %s", name, numberText(v-direct), t.Unit))
		}
	}
	for _, name := range targets {
		if ratio, ok := t.Ratio[name]; ok && !added {
			out = append(out, fmt.Sprintf("%.2f x %s", ratio, name))
		}
	}
	return strings.Join(out, ", ")
}

// errNoTarget says that a proxy did not begin to answer.
var errNoTarget = errors.New("it does not answer")
