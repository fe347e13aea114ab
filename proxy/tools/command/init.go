package command

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"penstock/proxy/tools/local"
)

type engineKeyFlag struct {
	APIKey string `name:"api-key" placeholder:"KEY" env:"ENGINE_API_KEY" help:"Key of the engines, if they need one; clients have another. Other users of the machine can see arguments, but not the variable."`
}

// localEngines returns the engines at the given URLs. A configuration refers to the engines' key
// through an environment variable. If the key was given in a flag, localEngines therefore sets this
// variable for the process.
func (k engineKeyFlag) localEngines(urls []string) (local.NamedEngines, error) {
	if k.APIKey != "" {
		if err := os.Setenv("ENGINE_API_KEY", k.APIKey); err != nil {
			return local.NamedEngines{}, err
		}
	}
	return local.NamedEngines{URLs: urls, APIKey: k.APIKey}, nil
}

// Init writes a first configuration.
type Init struct {
	engineKeyFlag
	URLs   []string `arg:"" optional:"" name:"url" help:"Base URLs of the engines, such as http://10.0.0.11:8000. Without one they are looked for on the usual ports of this machine."`
	From   string   `placeholder:"FILE" help:"Convert a configuration of LiteLLM's proxy, and say what has no counterpart; - is standard input. Engines are not asked."`
	Output string   `short:"o" default:"edge.yaml" placeholder:"FILE" help:"File to write (default: ${default}); - is standard output. A file that exists is left as it is."`
}

// Help is printed below the flags.
func (i *Init) Help() string {
	return `The file has all engines with what they say of themselves, each model once, a queue for each chat model, and the hash of a new key. The key is
printed, once. An engine's key is not written: the file names the variable ENGINE_API_KEY.

With --from the models, engines, aliases, fallbacks and keys of another proxy's file are kept as far as there is a counterpart; the rest is said at the
head of the new file and on standard error. Variables stay variables, and keys of clients become hashes.`
}

// Run writes the file.
func (i *Init) Run() error {
	to := local.ConfigDestination{File: i.Output, Out: os.Stdout, Notes: os.Stderr}
	if i.From != "" {
		if len(i.URLs) > 0 {
			return usageError("init: --from reads the engines from a file: leave the URLs out")
		}
		return local.ImportConfig(i.From, to)
	}
	engines, err := i.localEngines(i.URLs)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return local.InitConfig(ctx, engines, to)
}
