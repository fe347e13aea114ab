package sim

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/profile"
)

// CLI defines the flags of `penstock sim` for the kong parser.
type CLI struct {
	Listen  string   `help:"Address to listen on (default: ${default}); port 0 takes a free one." default:"127.0.0.1:8000" placeholder:"ADDR"`
	Models  []string `help:"Served model names; sim, or those that the engine comes with." placeholder:"NAME"`
	Profile string   `help:"Engine to imitate, with its pages, metrics, error shapes and quirks; they are listed above (default: ${default})." default:"vllm" placeholder:"NAME"`
	APIKey  string   `name:"api-key" help:"Demand this key." placeholder:"KEY"`
	Seed    uint64   `help:"Changes the texts and the jitter. Same seed and same prompt: same answer." default:"0"`

	Speed         string        `group:"Speed" help:"Preset of times and sizes: instant, laptop, l4-8b, a100-70b, h100-8b; other flags override it (default: ${default}). --events shows the numbers." default:"instant" placeholder:"NAME"`
	PrefillRate   float64       `group:"Speed" help:"Prompt tokens read each second; those in the prefix cache cost nothing. 0: at once." default:"0" placeholder:"N"`
	SharedPrefill bool          `group:"Speed" help:"Read one prompt after the other, so that --prefill-rate is the whole engine's and not each request's."`
	TokenRate     float64       `group:"Speed" help:"Tokens a second of a request that runs alone. 0: as fast as possible." default:"0" placeholder:"N"`
	BatchCost     time.Duration `group:"Speed" help:"What each other running request adds to the time between two tokens." default:"0s" placeholder:"DURATION"`
	Jitter        float64       `group:"Speed" help:"Spread of the time between tokens, 0.1: evenly within 10 % of it." default:"0" placeholder:"SHARE"`
	Latency       time.Duration `group:"Speed" help:"Fixed time before the first token." default:"0s" placeholder:"DURATION"`

	Slots       int `group:"Size" help:"Requests worked on at once; 0: 16, or what --speed says." default:"0" placeholder:"N"`
	Queue       int `group:"Size" help:"Requests that may wait for a slot; the next one is refused as this engine refuses. Below 0: no bound." default:"-1" placeholder:"N"`
	MaxModelLen int `group:"Size" help:"Context in tokens, prompt and answer together." default:"32768" placeholder:"N"`
	KVTokens    int `group:"Size" name:"kv-tokens" help:"Room for prompts and answers of running requests; the last to arrive is preempted when it is full. 0: slots are the only limit." default:"0" placeholder:"N"`
	CacheTokens int `group:"Size" help:"Prefix cache. 0: as --kv-tokens, or a whole context for each slot; below 0: none." default:"0" placeholder:"N"`

	Priorities bool `group:"Size" help:"Order the queue by the requests' member priority: lower first, and with the profile sglang higher first. Without it vllm refuses any but 0."`

	Residents int `group:"Size" help:"Models that an engine which loads on demand keeps in memory; loading another one evicts one, and cuts what runs there. 0: all." default:"0" placeholder:"N"`

	Fault             string   `group:"Mishaps" help:"Fault for every inference request, as --faults lists them." placeholder:"SPEC"`
	At                []string `group:"Mishaps" sep:"none" help:"Something that happens at a time after the start, such as 30s:stall=1s; --events lists them. Repeatable." placeholder:"TIME:EVENT"`
	Drill             string   `group:"Mishaps" help:"A rehearsed mishap: overload, brownout, stall, crash, flaky, out-of-memory; --events describes them." placeholder:"NAME"`
	AlternateRoles    bool     `group:"Mishaps" help:"Refuse turns of one role in a row, as the templates of Gemma and Mistral do."`
	Efforts           []string `group:"Mishaps" help:"Values of reasoning_effort that the model's template accepts; it fails at others. Qwen 3.8: low,medium,xhigh." placeholder:"WORD"`
	CancelOnlyStreams bool     `group:"Mishaps" help:"Run plain requests to their end even if the client has left, as llama.cpp does."`

	Faults bool `help:"List the faults and exit."`
	Events bool `help:"List events, drills and speeds and exit."`
}

// Help returns the text that precedes the flags in --help. It lists the engines that can be
// simulated.
func (c *CLI) Help() string { return profile.HelpText() }

// Run runs the engine until SIGINT or SIGTERM.
func (c *CLI) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.run(ctx, os.Stdout)
}

func (c *CLI) run(ctx context.Context, out io.Writer) error {
	switch {
	case c.Faults:
		_, err := io.WriteString(out, fault.HelpText())
		return err
	case c.Events:
		_, err := io.WriteString(out, actionsHelpText()+speedsHelpText())
		return err
	}
	o, err := c.options()
	if err != nil {
		return usageError{err}
	}
	e := New(o)
	if e.err != nil {
		return usageError{e.err}
	}
	if c.Fault != "" {
		if err := e.faults.SetFaults(Fault{Spec: c.Fault}); err != nil {
			return usageError{err}
		}
	}
	if err := e.Start(); err != nil {
		return err
	}
	defer e.Close()
	if _, err := fmt.Fprintf(out, "simulated %s engine listening on %s, models: %s\n", e.p.Name, e.URL(),
		strings.Join(*e.models.Load(), ", ")); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

type usageError struct{ error }

// ExitCode returns the exit code for incorrect usage.
func (usageError) ExitCode() int { return 2 }

// Unwrap returns the underlying error.
func (e usageError) Unwrap() error { return e.error }

func (c *CLI) options() (Options, error) {
	o := Options{
		Listen: c.Listen, Models: c.Models, Profile: c.Profile, Slots: c.Slots, Queue: c.Queue, NoQueue: c.Queue == 0,
		PrefillRate: c.PrefillRate, SharedPrefill: c.SharedPrefill, TokenRate: c.TokenRate, BatchCost: c.BatchCost, Jitter: c.Jitter,
		Latency: c.Latency, MaxModelLen: c.MaxModelLen, KVTokens: c.KVTokens, CacheTokens: c.CacheTokens,
		APIKey: c.APIKey, Seed: c.Seed, Residents: c.Residents, Priorities: c.Priorities,
		CancelOnlyStreams: c.CancelOnlyStreams,
		AlternateRoles:    c.AlternateRoles,
		Efforts:           c.Efforts,
	}
	if c.Speed != "" { // empty only in tests, in which generating takes no time
		if err := o.SetSpeed(c.Speed); err != nil {
			return o, err
		}
	}
	if c.Drill != "" {
		events, err := DrillEvents(c.Drill, o.withDefaults().Slots)
		if err != nil {
			return o, err
		}
		o.Events = events
	}
	for _, s := range c.At {
		ev, err := ParseEvent(s)
		if err != nil {
			return o, err
		}
		o.Events = append(o.Events, ev)
	}
	return o, nil
}
