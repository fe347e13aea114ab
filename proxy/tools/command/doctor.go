package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"penstock/config"
	"penstock/config/suggest"
	"penstock/proxy/front/plaintext"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// Doctor detects engines.
type Doctor struct {
	engineKeyFlag
	URLs   []string `arg:"" name:"url" optional:"" help:"Base URLs of the engines, such as http://10.0.0.11:8000, or with --config names of its upstreams. Several make one configuration."`
	Config string   `short:"c" placeholder:"FILE" help:"Configuration whose own engine profiles ('engines:') are tried as well, and whose timeouts the report names. Without URLs: report which engines its upstreams find ('resolve', 'kubernetes'), or why they find none."`
	Try    bool     `help:"Also send each engine some tiny chat calls, to see what it does with text, reasoning, tools, schemas, an answer that is begun and a client that leaves; says which flag is missing. Without it nothing is generated."`
	Model  string   `short:"m" placeholder:"ID" help:"Model to try; without it the engine's first chat model."`
	Format string   `enum:"text,json" default:"text" help:"Form of the output: ${enum}. json is an array of engines with all that was found, or of the upstreams that look for theirs."`
}

// Help is printed below the flags.
func (d *Doctor) Help() string {
	return `Exit code 1: an engine does not answer, an upstream finds none, or --try has found something to fix (BAD). An unclear result comes from the model, and is no failure.`
}

// Run prints the report.
func (d *Doctor) Run() error {
	var own []config.Engine
	var timeouts *config.Timeouts
	if len(d.URLs) == 0 && d.Config == "" {
		return usageError("doctor: name the engines by their URLs, or give --config a file whose upstreams look for them")
	}
	if d.Config != "" {
		f, problems := config.LoadValid(d.Config, engine.KnownEngines())
		if f == nil {
			return problems
		}
		own, timeouts = f.Engines, &f.Timeouts
		if len(d.URLs) == 0 {
			return d.printDiscovered(f)
		}
		if err := d.replaceUpstreamNamesByURLs(f.Upstreams); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if d.Model != "" && !d.Try {
		return usageError("doctor: --model is for --try")
	}
	return engine.RunDoctor(ctx, plaintext.NewCleanWriter(os.Stdout), &engine.DoctorOptions{
		URLs: d.URLs, APIKey: d.APIKey, Own: own, Try: d.Try, Model: d.Model, JSON: d.Format == formatJSON,
		Timeouts: timeouts,
	})
}

// replaceUpstreamNamesByURLs replaces each argument that is the name of an upstream by the URL of that
// upstream. All other arguments must be hosts. An argument that merely resembles a name is an
// error.
func (d *Doctor) replaceUpstreamNamesByURLs(all []config.Upstream) error {
	urls, names := map[string]string{}, make([]string, len(all))
	for i := range all {
		names[i], urls[all[i].Name] = all[i].Name, all[i].URL
	}
	for i, arg := range d.URLs {
		if url, known := urls[arg]; known && url == "" {
			return usageError("doctor: " + arg + " looks for its engines: leave the names out to see which it finds")
		} else if known {
			d.URLs[i] = url
			continue
		}
		if hint := suggest.DidYouMean(arg, names); hint != "" && !strings.ContainsAny(arg, ".:/") {
			return usageError(fmt.Sprintf("doctor: %s has no upstream %q%s", d.Config, arg, hint))
		}
	}
	return nil
}

func (d *Doctor) printDiscovered(f *config.File) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if d.Try || d.Model != "" {
		return usageError("doctor: --try needs the URLs of the engines")
	}
	all := []*upstreams.DiscoveryResult{}
	for i := range f.Upstreams {
		if found := upstreams.LookUpEngines(ctx, &f.Upstreams[i], nil); found != nil {
			all = append(all, found)
		}
	}
	out := plaintext.NewCleanWriter(os.Stdout)
	if d.Format == formatJSON {
		if err := json.NewEncoder(out).Encode(all); err != nil {
			return err
		}
	} else if len(all) == 0 {
		fmt.Fprintf(out, "No upstream of %s looks for its engines: name them by their URLs.\n", d.Config)
	}
	nothing := 0
	for _, found := range all {
		if d.Format != formatJSON {
			printDiscoveryResult(out, found)
		}
		if found.Trouble != "" {
			nothing++
		}
	}
	if nothing > 0 {
		return fmt.Errorf("upstreams without an engine: %d of %d", nothing, len(all))
	}
	return nil
}

func printDiscoveryResult(out io.Writer, f *upstreams.DiscoveryResult) {
	if f.Trouble != "" {
		fmt.Fprintf(out, "upstream %s: %s: nothing is found: %s\n", f.Upstream, f.Source, f.Trouble)
		return
	}
	fmt.Fprintf(out, "upstream %s: %s: engines found: %d\n", f.Upstream, f.Source, len(f.Engines))
	for _, e := range f.Engines {
		line := "  " + e.Address
		if e.Pod != "" {
			line += ", pod " + e.Pod
		}
		if e.NotReady {
			line += ", not ready"
		}
		if e.Weight > 0 {
			line += fmt.Sprintf(", weight %.3g", e.Weight)
		}
		fmt.Fprintln(out, line)
	}
}
