package command

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"penstock/config"
	"penstock/proxy/plaintext"
	"penstock/upstreams/engine"
)

// Doctor asks engines what they are.
type Doctor struct {
	URLs   []string `arg:"" name:"url" help:"Base URLs of the engines, such as http://10.0.0.11:8000. Several make one configuration."`
	APIKey string   `name:"api-key" placeholder:"KEY" env:"ENGINE_API_KEY" help:"Key of the engine, where it wants one. Arguments can be seen by other users of the machine, the variable cannot."`
	Config string   `short:"c" placeholder:"FILE" help:"Configuration whose own engine profiles ('engines:') are tried as well."`
	Try    bool     `help:"Also send each engine some tiny chat calls, to see what it does with text, reasoning, tools, schemas, an answer that is begun and a client that leaves; says which flag is missing. Without it nothing is generated."`
	Model  string   `short:"m" placeholder:"ID" help:"Model to try; without it the engine's first chat model."`
	JSON   bool     `name:"json" help:"Print what was found as JSON."`
}

// Help is printed below the flags.
func (d *Doctor) Help() string {
	return `Exit code 1: an engine does not answer, or --try has found something to mend (BAD). What is unclear is the model's doing, and no failure.`
}

// Run prints the report.
func (d *Doctor) Run() error {
	var own []config.Engine
	if d.Config != "" {
		f, problems := config.LoadValid(d.Config, engine.Known())
		if f == nil {
			return problems
		}
		own = f.Engines
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if d.Model != "" && !d.Try {
		return usageError("doctor: --model is for --try")
	}
	return engine.Doctor(ctx, plaintext.Writer(os.Stdout), &engine.DoctorOptions{
		URLs: d.URLs, APIKey: d.APIKey, Own: own, Try: d.Try, Model: d.Model, JSON: d.JSON,
	})
}
