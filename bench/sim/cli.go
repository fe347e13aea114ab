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
)

// CLI is the grammar of `penstock sim`, in kong's struct tags.
type CLI struct {
	Listen            string        `help:"Address to listen on." default:"127.0.0.1:8000" placeholder:"ADDR"`
	Models            []string      `help:"Served model names." default:"sim" placeholder:"NAME"`
	Profile           string        `help:"Engine to imitate: ${enum}." enum:"vllm,openai,llamacpp,sglang,ollama" default:"vllm"`
	Slots             int           `help:"Requests worked on at once." default:"16"`
	Queue             int           `help:"Requests that may wait for a slot; the next one is refused. Below 0: no bound." default:"-1"`
	PrefillRate       float64       `help:"Prompt tokens read each second, by each request; 0: at once." default:"0" placeholder:"N"`
	TokenRate         float64       `help:"Tokens written each second, by each request; 0: as fast as possible." default:"0" placeholder:"N"`
	Latency           time.Duration `help:"Fixed time before the first token." default:"0s"`
	MaxModelLen       int           `help:"Context in tokens, prompt and answer together." default:"32768"`
	KVTokens          int           `name:"kv-tokens" help:"Room for the prompts of running requests; 0: slots are the only limit." default:"0"`
	APIKey            string        `name:"api-key" help:"Demand this key." placeholder:"KEY"`
	Seed              uint64        `help:"Changes the texts." default:"0"`
	CancelOnlyStreams bool          `help:"Run plain requests to their end although the client has left, as llama.cpp does."`
	Fault             string        `help:"Fault for every inference request, as --faults lists them." placeholder:"SPEC"`
	Faults            bool          `help:"List the faults and exit."`
}

// Run runs the engine until SIGINT or SIGTERM.
func (c *CLI) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.run(ctx, os.Stdout)
}

func (c *CLI) run(ctx context.Context, out io.Writer) error {
	if c.Faults {
		_, err := io.WriteString(out, faultsText())
		return err
	}
	e := New(Options{
		Listen: c.Listen, Models: c.Models, Profile: c.Profile, Slots: c.Slots, Queue: c.Queue, NoQueue: c.Queue == 0,
		PrefillRate: c.PrefillRate, TokenRate: c.TokenRate, Latency: c.Latency, MaxModelLen: c.MaxModelLen, KVTokens: c.KVTokens,
		APIKey: c.APIKey, Seed: c.Seed, CancelOnlyStreams: c.CancelOnlyStreams,
	})
	if c.Fault != "" {
		f, err := ParseFault(c.Fault)
		if err != nil {
			return err
		}
		e.SetFault(f)
	}
	if err := e.Start(); err != nil {
		return err
	}
	defer e.Close()
	if _, err := fmt.Fprintf(out, "simulated %s engine listening on %s, models: %s\n", e.p.name, e.URL(), strings.Join(*e.models.Load(), ", ")); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
