// Command penstock is an edge reverse proxy and router in front of inference engines. See
// README.md.
package main

import (
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"penstock/bench"
	"penstock/bench/sim"
	"penstock/proxy/telemetry/quietlog"
	"penstock/proxy/tools/agent"
	"penstock/proxy/tools/batch"
	"penstock/proxy/tools/command"
)

type commandLine struct {
	Init   command.Init   `cmd:"" help:"Write a first configuration, with a key, for the engines at the URLs or those found on this machine."`
	Serve  command.Serve  `cmd:"" default:"withargs" help:"Run the edge. Without --config: find engines on loopback, or start the simulator, and serve them."`
	Check  command.Check  `cmd:"" help:"Validate configuration files and print every problem with its line."`
	Reload command.Reload `cmd:"" help:"Make a running edge read its configuration again; prints what changed, or what is wrong."`
	Top    command.Top    `cmd:"" help:"Show a running edge in the terminal: models, upstreams, calls. The status page in a browser shows more."`
	Canary command.Canary `cmd:"" help:"Compare the arm of a model that has a share of its calls with the rest: worse, not worse, or not yet known."`
	Usage  command.Usage  `cmd:"" help:"Print what keys have used of models: calls, tokens and spend, of an edge or of its fleet."`

	command.UpstreamModeCommands

	Doctor     command.Doctor           `cmd:"" help:"Ask engines what they are: what they can do, their quirks, and the configuration lines to paste."`
	Agent      command.Agent            `cmd:"" help:"Print or write the configuration with which a coding agent works through a running edge: claude, codex, opencode, copilot."`
	Batch      batch.CLI                `cmd:"" help:"Send the requests of a file of OpenAI's Batch API to a running edge, and write the answers to another one."`
	Bench      bench.CLI                `cmd:"" help:"Load-test any such API, or compare and print the results."`
	Sim        sim.CLI                  `cmd:"" help:"Run a simulated inference engine, with settable speed and faults."`
	Key        command.Key              `cmd:"" help:"Make, hash, list or revoke API keys."`
	Openapi    command.OpenAPI          `cmd:"" help:"Print the description of the API that the edge serves (OpenAPI 3.1)."`
	Completion command.Completion       `cmd:"" help:"Print a script that completes command lines in bash, zsh or fish."`
	Values     command.CompletionValues `cmd:"" hidden:"" name:"completion-values"`
	Support    command.Support          `cmd:"" help:"Write a bundle for a bug report: configuration, state, metrics and limits, without secrets."`
	Explain    command.Explain          `cmd:"" help:"Explain the code of an error, a setting or an alert."`
	Version    command.Version          `cmd:"" help:"Print the version and how it was built."`
}

func main() {
	quietlog.RestoreOutput()
	c := commandLine{
		Serve:      command.Serve{Simulator: startSimulator},
		Completion: command.Completion{Scenarios: bench.Scenarios()},
	}
	parser := kong.Must(&c,
		kong.Name("penstock"),
		kong.Description("One dependable API in front of your inference engines: auth, routing, capacity, failure mapping."),
		kong.Vars{"agents": strings.Join(agent.AgentNames(), ",")},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Exit(func(code int) {
			if code != 0 {
				code = command.ExitUsage
			}
			os.Exit(code)
		}),
	)
	args := command.NormalizeArgs(os.Args[1:])
	parser.FatalIfErrorf(command.RejectUnknownCommand(args, parser.Model.Children))
	args, err := bench.RewriteArgs(args)
	parser.FatalIfErrorf(err)
	k, err := parser.Parse(args)
	parser.FatalIfErrorf(command.RewriteUsageError(err))
	if err := command.RunSelected(k); err != nil {
		os.Exit(command.ReportError(os.Stderr, err))
	}
}

// startSimulator starts the bundled simulated engine, for a machine that has no engine.
func startSimulator() (url string, stop func(), err error) {
	simulated := sim.New(sim.Options{Listen: "127.0.0.1:0", TokenRate: 50})
	if err := simulated.Start(); err != nil {
		return "", nil, err
	}
	return simulated.URL(), simulated.Close, nil
}
