package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"penstock/bench/compare"
	"penstock/bench/exit"
	"penstock/bench/load"
	"penstock/bench/overhead"
	"penstock/bench/plan"
	"penstock/bench/report"
	"penstock/bench/result"
	"penstock/bench/scenario"
	"penstock/proxy/front/plaintext"
)

// CLI defines the commands and flags of `penstock bench` with kong struct tags.
type CLI struct {
	Run       RunCmd       `cmd:"" default:"withargs" help:"Measure a target under load. Without arguments: 20 seconds against the edge or engine of this machine."`
	Scenarios ScenariosCmd `cmd:"" help:"List the bundled scenarios, or explain one."`
	Overhead  overhead.Cmd `cmd:"" help:"Measure what the edge itself costs: processor, memory and latency, beside nginx and HAProxy where they are installed."`
	Plan      plan.Cmd     `cmd:"" help:"Find how many engines of which kind a trace needs to meet objectives: simulated engines behind the edge's routing, in virtual time."`
	Compare   CompareCmd   `cmd:"" help:"Compare two result files: every difference with an interval, and a verdict. Exit code 1: they have nothing in common; 98: one is not valid."`
	Report    ReportCmd    `cmd:"" help:"Draw a result file as one HTML page that needs no network."`
}

// RewriteArgs rewrites a command line. vLLM's tool separates list elements with spaces (--goodput
// ttft:200 itl:50). RewriteArgs turns such lists into repeated flags. It also inserts the flags
// that --scenario selects. The command lines of other commands remain unchanged. A removed flag is
// a usage error.
func RewriteArgs(args []string) ([]string, error) {
	if len(args) == 0 || args[0] != "bench" {
		return args, nil
	}
	if err := checkRemovedFlags(args); err != nil {
		return nil, err
	}
	args = insertScenarioFlags(args)
	const list = "--goodput"
	var out []string
	var in bool // inside a list, after its first value
	for i, a := range args {
		if in = i > 0 && (args[i-1] == list || in && load.ObjectivePattern.MatchString(a)); in && args[i-1] != list {
			out = append(out, list)
		}
		out = append(out, a)
	}
	return out, nil
}

// RunCmd is the command `penstock bench run`.
type RunCmd struct {
	Scenario string `placeholder:"NAME" values:"scenarios" help:"Play a bundled scenario (see 'bench scenarios'), without a target on a fleet of its own; other flags override it."`
	Format   string `enum:"text,json" default:"text" group:"Result and checks" help:"Form of the output: ${enum}. json is the result, as --output FILE.json writes it; bench/README.md has its members."`
	load.Options
	compare.CheckFlags
}

// Run measures, and then prints and saves the result. On the first interrupt, the run stops and Run
// prints the results so far. A second interrupt kills the process. All errors are *exit.Error.
func (c *RunCmd) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the next signal kills the process
	return c.run(ctx, os.Stdout, os.Stderr)
}

func (c *RunCmd) run(ctx context.Context, out, progress io.Writer) error {
	c.AdminToken, c.CompareKey = os.Getenv("PENSTOCK_ADMIN_TOKEN"), os.Getenv("PENSTOCK_COMPARE_KEY")
	if c.Scenario != "" {
		end, err := c.startScenarioFleet(ctx, progress)
		if err != nil {
			return err
		}
		defer end()
	}
	if _, err := c.Validate(); err != nil {
		return err
	}
	judge, err := c.NewResultChecker()
	if err != nil {
		return err
	}
	for _, name := range c.Output {
		if err := result.CheckWritable(name); err != nil {
			return err
		}
	}
	var show func(load.Progress)
	end := func() {}
	if !c.Quiet {
		show, end = load.NewProgressDisplay(progress, isTerminal(progress))
	}
	r, records, err := load.Run(ctx, c.Options, show)
	end()
	if errors.Is(err, context.Canceled) {
		return exit.NewError(exit.Failed, "stopped before anything was measured")
	}
	if err != nil {
		return err
	}
	if s, err := scenario.Find(c.Scenario); err == nil {
		r.Penstock.Scenario = &result.Scenario{
			Name: s.Name, Text: s.Text, Explain: strings.TrimSpace(s.Explain), OwnFleet: c.Fleet != nil,
		}
	}
	said := out // receives everything except the result
	switch {
	case c.Format == "json":
		said = progress
	case c.Quiet:
		err = report.WriteVerdict(out, r.Penstock)
	default:
		fmt.Fprintf(out, "Target %s, model %s\n", plaintext.CleanLine(r.Penstock.Target.BaseURL), plaintext.CleanLine(r.ModelID))
		err = report.WriteText(out, r)
	}
	if err != nil {
		return exit.NewError(exit.Failed, err.Error())
	}
	verdict := judge.Apply(r, said)
	if c.Format == "json" {
		if err := r.Write(out); err != nil {
			return exit.NewError(exit.Failed, err.Error())
		}
	}
	// The result is saved last, because it includes the outcomes of the checks.
	for _, name := range c.Output {
		if err := saveResult(name, r, records); err != nil {
			return exit.NewError(exit.Failed, err.Error())
		}
		fmt.Fprintf(said, "Written: %s\n", name)
	}
	if r.Completed == 0 {
		return exit.NewError(exit.Failed, "no request was answered")
	}
	if s := r.Penstock.Search; verdict == nil && s != nil && s.Profile == "search" && s.Rate == nil {
		return exit.NewError(exit.CheckFailed, "no load tried met the objectives")
	}
	return verdict
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
