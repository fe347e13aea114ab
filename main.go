// Command penstock is an edge reverse proxy and router in front of inference engines. See
// README.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"penstock/bench"
	"penstock/bench/sim"
	"penstock/config"
	"penstock/config/suggest"
	"penstock/proxy"
	"penstock/proxy/admin"
	"penstock/proxy/agent"
	"penstock/proxy/auth"
	"penstock/proxy/build"
	"penstock/proxy/fleet/keystore"
	"penstock/proxy/local"
	"penstock/proxy/openapi"
	"penstock/proxy/plaintext"
	"penstock/proxy/quietlog"
	"penstock/proxy/reload"
	"penstock/upstreams/engine"
)

// Exit codes: 1 for a run that failed, a wrong configuration included, 2 for wrong usage; 130 and
// 143 for an edge that a second SIGINT or SIGTERM did not let drain (proxy.InterruptedError), 131
// and 134 for one that SIGQUIT or SIGABRT has ended. `bench` has more: see bench/exit.
const (
	exitFailed = 1
	exitUsage  = 2
)

type cli struct {
	Serve   serveCmd   `cmd:"" default:"withargs" help:"Run the edge. Without --config: find engines on loopback, or start the simulator, and serve them."`
	Check   checkCmd   `cmd:"" help:"Validate configuration files and print every problem with its line."`
	Reload  reloadCmd  `cmd:"" help:"Make a running edge read its configuration again; prints what changed, or what is wrong."`
	Top     topCmd     `cmd:"" help:"Show a running edge in the terminal: models, upstreams, calls. The status page in a browser shows more."`
	Usage   usageCmd   `cmd:"" help:"Print what keys have used of models: calls, tokens and spend, of an edge or of its fleet."`
	Mode    modeCmd    `cmd:"" help:"Drain an upstream, put it into maintenance or let calls in again; in a fleet with a store at every edge."`
	Ready   readyCmd   `cmd:"" help:"Ask a running edge whether it takes new requests: exit code 0 when it does. For health checks of containers."`
	Doctor  doctorCmd  `cmd:"" help:"Ask engines what they are: what they can do, their quirks, and the configuration lines to paste."`
	Agent   agentCmd   `cmd:"" help:"Print or write the configuration with which a coding agent works through a running edge: claude, codex, opencode, copilot."`
	Bench   bench.CLI  `cmd:"" help:"Load-test any such API, or compare and print the results."`
	Sim     sim.CLI    `cmd:"" help:"Run a simulated inference engine, with settable speed and faults."`
	Key     keyCmd     `cmd:"" help:"Make, hash, list or revoke API keys."`
	Openapi openapiCmd `cmd:"" help:"Print the description of the API that the edge serves (OpenAPI 3.1)."`
	Version versionCmd `cmd:"" help:"Print the version and how it was built."`
}

func main() {
	quietlog.End()
	var c cli
	parser := kong.Must(&c,
		kong.Name("penstock"),
		kong.Description("One dependable API in front of your inference engines: auth, routing, capacity, failure mapping."),
		kong.Vars{"agents": strings.Join(agent.Names(), ",")},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Exit(func(code int) {
			if code != 0 {
				code = exitUsage
			}
			os.Exit(code)
		}),
	)
	args := customary(os.Args[1:])
	parser.FatalIfErrorf(unknownCommand(args, parser.Model.Children))
	k, err := parser.Parse(bench.Arguments(args))
	parser.FatalIfErrorf(plainUsage(err))
	if err := k.Run(); err != nil {
		code := exitFailed
		var own interface{ ExitCode() int }
		if errors.As(err, &own) {
			code = own.ExitCode()
		}
		var problems config.Problems
		switch text := err.Error(); {
		case errors.As(err, &problems): // each line begins with its place in the file, as editors want it
			fmt.Fprintln(os.Stderr, plaintext.Text(text))
		case text != "":
			fmt.Fprintln(os.Stderr, "penstock:", plaintext.Text(text))
		}
		os.Exit(code)
	}
}

// customary turns `help COMMAND…` and `--version` into what they mean.
func customary(args []string) []string {
	switch {
	case len(args) > 0 && args[0] == "help":
		return append(append([]string(nil), args[1:]...), "--help")
	case len(args) == 1 && args[0] == "--version":
		return []string{"version"}
	}
	return args
}

// unknownCommand refuses a first word that is not a command. Without a command the grammar takes
// the words as arguments of serve, and so would suggest nothing.
func unknownCommand(args []string, commands []*kong.Node) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return nil
	}
	var names []string
	for _, c := range commands {
		if c.Name == args[0] {
			return nil
		}
		names = append(names, c.Name)
	}
	if strings.HasSuffix(args[0], ".yaml") || strings.HasSuffix(args[0], ".yml") {
		return usageError(fmt.Sprintf("%q is no command: to serve a configuration, say penstock serve --config %s",
			args[0], args[0]))
	}
	hint := suggest.DidYouMean(args[0], names)
	if hint == "" {
		hint = ": the commands are " + strings.Join(names, ", ")
	}
	return usageError(fmt.Sprintf("%q is no command%s", args[0], hint))
}

// missingValue matches kong's error for a flag without its value at the end of the line.
var missingValue = regexp.MustCompile(`^(-\S+): expected .* value but got "EOL" \(<EOL>\)$`)

// plainUsage rewrites kong's errors for the operator who typed the command.
func plainUsage(err error) error {
	if err == nil {
		return nil
	}
	if m := missingValue.FindStringSubmatch(err.Error()); m != nil {
		return usageError(m[1] + " needs a value behind it")
	}
	if name, ok := strings.CutPrefix(err.Error(), "unexpected argument "); ok &&
		(strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")) {
		return usageError(err.Error() + ": a configuration is given with --config " + name)
	}
	return err
}

// usageError is a mistake on the command line that the grammar does not find.
type usageError string

func (e usageError) Error() string { return string(e) }

// ExitCode is that of wrong usage.
func (usageError) ExitCode() int { return exitUsage }

type serveCmd struct {
	Config    *string `short:"c" placeholder:"FILE" env:"PENSTOCK_CONFIG" help:"Configuration file (YAML). See 'penstock check --example'."`
	SharePort bool    `env:"PENSTOCK_SHARE_PORT" help:"Let a second penstock listen on the same ports (SO_REUSEPORT), for an upgrade without a gap. Both need it."`
}

// Help is printed below the flags.
func (s *serveCmd) Help() string {
	return `SIGTERM and SIGINT drain: new requests are accepted for timeouts.linger; running requests get timeouts.drain to finish; then they receive
an error event. That is an orderly end, exit code 0, also when calls had to be cut: service managers and Kubernetes take any other code for a
crash. The log says how many were cut ("drain time is over"). A second signal ends what runs at once, with an error event and the exit code 130
or 143; with 0 if nothing ran. SIGHUP reads the configuration again, and drains an edge that has none. SIGQUIT and SIGABRT are for a process that hangs: they print where it is, functions and
lines without anything of memory, and end it at once, with 131 or 134. Exit code 1: failed, or wrong configuration; 2: wrong usage.`
}

// Run serves until SIGTERM or SIGINT, then drains; a second signal ends what still runs.
func (s *serveCmd) Run() error {
	if s.Config != nil && *s.Config == "" { // a script's unset variable: serving anything else would hide it
		return usageError("serve: the name in --config, or in PENSTOCK_CONFIG, is empty: name the file, or give neither to serve what is found on this machine")
	}
	end := proxy.OnSignals(os.Exit)
	defer end.Stop()
	if s.Config == nil {
		return local.Serve(end, os.Stdout, startSimulator)
	}
	name := *s.Config
	f, problems := proxy.Load(name)
	if f == nil {
		return problems
	}
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, plaintext.Text(p.String()))
	}
	return proxy.Run(end, proxy.RunOptions{
		Config: f, SharePort: s.SharePort, Load: proxy.LoadAgain(name), Parse: proxy.ParseBeside(name),
		Ready: func(public, admin string) {
			fmt.Printf("penstock: serving %s/v1 (admin: %s)\n", public, admin)
		},
	})
}

// startSimulator starts the bundled engine, for a machine without one.
func startSimulator() (config.LocalEngine, func(), error) {
	simulated := sim.New(sim.Options{Listen: "127.0.0.1:0", TokenRate: 50})
	if err := simulated.Start(); err != nil {
		return config.LocalEngine{}, nil, err
	}
	return config.LocalEngine{
		URL: simulated.URL(), Engine: "sim",
		Models: []config.LocalModel{{ID: "sim"}},
	}, simulated.Close, nil
}

type checkCmd struct {
	Files   []string `arg:"" optional:"" name:"file" help:"Configuration files."`
	Against string   `placeholder:"OLD" help:"Also print what replacing the configuration OLD by the file would change: settings, and each model's slots."`
	Example bool     `help:"Print a complete, commented configuration instead."`
	Schema  bool     `help:"Print the JSON Schema of the configuration, for editors, instead."`
}

// Run prints the verdict on each file.
func (c *checkCmd) Run() error {
	switch {
	case c.Example:
		_, err := os.Stdout.Write(config.Example())
		return err
	case c.Schema:
		_, err := os.Stdout.Write(config.Schema())
		return err
	case len(c.Files) == 0:
		return usageError("check: name at least one file")
	}
	var all config.Problems
	for _, name := range c.Files {
		f, problems := proxy.Load(name)
		if f == nil {
			all = append(all, problems...)
			continue
		}
		for _, p := range problems {
			fmt.Println(plaintext.Text(p.String()))
		}
		fmt.Printf("%s: ok\n", name)
		if c.Against != "" {
			if err := c.compare(f); err != nil {
				return err
			}
		}
	}
	if len(all) > 0 {
		return all
	}
	return nil
}

// compare prints what next changes in the configuration that --against names.
func (c *checkCmd) compare(next *config.File) error {
	old, problems := config.LoadValid(c.Against, engine.Known())
	if old == nil {
		return problems
	}
	if exposed := next.CheckOpen(old.Listen, old.Admin.Listen).Err(); exposed != nil {
		return exposed // as the edge that runs with old would
	}
	return reload.WriteDiff(os.Stdout, old, next)
}

type reloadCmd struct {
	File  string `arg:"" optional:"" help:"With --diff: a file to compare with what runs, in place of the edge's own. The edge reads it as if it stood in the folder of its file."`
	Diff  bool   `help:"Apply nothing: only print what would change, each model's slots before and after, and what needs a restart."`
	Force bool   `help:"Apply it although a model that serves calls is left without a slot, which is refused otherwise."`
	Admin string `default:"http://127.0.0.1:9090" placeholder:"URL" env:"PENSTOCK_ADMIN" help:"Admin listener of the edge (default: ${default})."`
	Token string `placeholder:"TOKEN" env:"PENSTOCK_ADMIN_TOKEN" help:"Its admin token, where it has one. Arguments can be seen by other users of the machine, the variable cannot."`
}

// Run asks for the reload. Problems of the configuration are an error: exit code 1.
func (r *reloadCmd) Run() error {
	q := reload.Request{Force: r.Force, DryRun: r.Diff}
	if r.File != "" {
		if !r.Diff {
			return usageError("reload: a file is only compared, with --diff: to apply it, write it to the edge's own")
		}
		var err error
		if q.Candidate, err = os.ReadFile(r.File); err != nil {
			return err
		}
		if len(q.Candidate) == 0 {
			return usageError("reload: " + r.File + " is empty")
		}
	}
	return admin.RequestReload(r.Admin, r.Token, q, os.Stdout)
}

type topCmd struct {
	Admin    string        `default:"http://127.0.0.1:9090" placeholder:"URL" env:"PENSTOCK_ADMIN" help:"Admin listener of the edge (default: ${default})."`
	Token    string        `placeholder:"TOKEN" env:"PENSTOCK_ADMIN_TOKEN" help:"Its admin token, where it has one. Arguments can be seen by other users of the machine, the variable cannot."`
	Once     bool          `help:"Print the state once and end: for scripts. Also what happens when the output is no terminal."`
	JSON     bool          `name:"json" help:"Print the state once as JSON."`
	Interval time.Duration `default:"1s" help:"Time between two looks."`
}

// Run shows the state until it is interrupted.
func (t *topCmd) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	width, _ := strconv.Atoi(os.Getenv("COLUMNS"))
	info, err := os.Stdout.Stat()
	screen := err == nil && info.Mode()&os.ModeCharDevice != 0
	return admin.Top(ctx, admin.TopOptions{
		Admin: t.Admin, Token: t.Token, Out: os.Stdout, JSON: t.JSON, Once: t.Once ||
			!screen, Interval: t.Interval, Width: cmp.Or(width, 80),
		Colour: screen && os.Getenv("NO_COLOR") == "",
	})
}

type usageCmd struct {
	Fleet bool   `help:"Of all edges that share the store (fleet.store), in place of one edge."`
	Day   string `placeholder:"DAY" help:"Of one day alone, such as 2026-01-31, in UTC. 62 days are kept."`
	Month string `placeholder:"MONTH" help:"Of one month alone, such as 2026-01, in UTC."`
	JSON  bool   `name:"json" help:"Print JSON, with each day."`
	Admin string `default:"http://127.0.0.1:9090" placeholder:"URL" env:"PENSTOCK_ADMIN" help:"Admin listener of the edge (default: ${default})."`
	Token string `placeholder:"TOKEN" env:"PENSTOCK_ADMIN_TOKEN" help:"Its admin token, where it has one. Arguments can be seen by other users of the machine, the variable cannot."`
}

// Help is printed below the flags.
func (u *usageCmd) Help() string {
	return `Prompt tokens include cached ones. Spend is by the models' pricing. Without 'ledger:' in the configuration an edge's usage begins with its process.`
}

// Run asks the edge.
func (u *usageCmd) Run() error {
	period, err := admin.ParsePeriod(u.Day, u.Month)
	if err != nil {
		return usageError("usage: " + err.Error())
	}
	return admin.RequestUsage(admin.UsageOptions{
		Admin: u.Admin, Token: u.Token, Fleet: u.Fleet, JSON: u.JSON, Period: period,
	}, os.Stdout)
}

type modeCmd struct {
	Upstream string `arg:"" help:"Name of the upstream, as penstock top shows it."`
	Mode     string `arg:"" enum:"ready,drain,maintenance" help:"drain: no new calls. maintenance: no probes either. ready: calls again."`
	Who      string `placeholder:"NAME" env:"USER" help:"Who asks for it: every edge of a fleet shows it."`
	Admin    string `default:"http://127.0.0.1:9090" placeholder:"URL" env:"PENSTOCK_ADMIN" help:"Admin listener of the edge (default: ${default})."`
	Token    string `placeholder:"TOKEN" env:"PENSTOCK_ADMIN_TOKEN" help:"Its admin token, which this needs. Arguments can be seen by other users of the machine, the variable cannot."`
}

// Run asks for the mode.
func (m *modeCmd) Run() error {
	return admin.RequestMode(m.Admin, m.Token, admin.ModeRequest{Upstream: m.Upstream, Mode: m.Mode, Who: m.Who})
}

type readyCmd struct {
	Admin string `default:"http://127.0.0.1:9090" placeholder:"URL" env:"PENSTOCK_ADMIN" help:"Admin listener of the edge (default: ${default})."`
}

// Run asks the edge. No answer is an error, and so is an edge that drains.
func (r *readyCmd) Run() error { return admin.RequestReady(r.Admin) }

type doctorCmd struct {
	URLs   []string `arg:"" name:"url" help:"Base URLs of the engines, such as http://10.0.0.11:8000. Several make one configuration."`
	APIKey string   `name:"api-key" placeholder:"KEY" env:"ENGINE_API_KEY" help:"Key of the engine, where it wants one. Arguments can be seen by other users of the machine, the variable cannot."`
	Config string   `short:"c" placeholder:"FILE" help:"Configuration whose own engine profiles ('engines:') are tried as well."`
	Try    bool     `help:"Also send each engine some tiny chat calls, to see what it does with text, reasoning, tools, schemas, an answer that is begun and a client that leaves; says which flag is missing. Without it nothing is generated."`
	Model  string   `short:"m" placeholder:"ID" help:"Model to try; without it the engine's first chat model."`
	JSON   bool     `name:"json" help:"Print what was found as JSON."`
}

// Help is printed below the flags.
func (d *doctorCmd) Help() string {
	return `Exit code 1: an engine does not answer, or --try has found something to mend (BAD). What is unclear is the model's doing, and no failure.`
}

// Run prints the report.
func (d *doctorCmd) Run() error {
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

type agentCmd struct {
	Name   string `arg:"" name:"agent" enum:"${agents}" help:"The agent: ${enum}."`
	URL    string `name:"url" default:"http://127.0.0.1:4000" placeholder:"URL" help:"Address of the edge's API (default: ${default})."`
	Model  string `short:"m" placeholder:"ID" help:"Model to work with, by its id or an alias; without it the first ready one that the agent can use."`
	KeyEnv string `name:"key-env" default:"PENSTOCK_API_KEY" placeholder:"NAME" help:"Environment variable that holds the API key (default: ${default}). Files name it; the key itself is in none."`
	Write  bool   `help:"Write the files, after showing what changes. A file that differs is kept beside the new one."`
}

// Help is printed below the flags.
func (a *agentCmd) Help() string {
	return `The files are made from the edge's catalog: the context of the models, their longest answers, efforts and images. They stand beside the agent's
own configuration, which is not touched: the agent is told of them by the command line that is printed at the end. Run it again when models change.`
}

// Run prints or writes the files.
func (a *agentCmd) Run() error {
	if !agent.IsVariable(a.KeyEnv, os.Environ()) { // not echoed: it may be the key
		return usageError("agent: --key-env is the name of the environment variable that holds the key, not the key")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	return agent.Run(context.Background(), &agent.Options{ // a signal ends it where it stands: nothing is half written
		Name: a.Name, URL: a.URL, Model: a.Model, KeyEnv: a.KeyEnv, Write: a.Write,
		Out: os.Stdout, Notes: os.Stderr, Getenv: os.Getenv, Home: home, Now: time.Now(),
	})
}

type keyCmd struct {
	New    keyNewCmd    `cmd:"" help:"Make a key: prints it once, and the lines for the configuration; with --store it is in force at all edges."`
	Revoke keyRevokeCmd `cmd:"" help:"Revoke a key of the fleet's store, at all edges within a second."`
	List   keyListCmd   `cmd:"" help:"List the keys of the fleet's store."`
	Hash   keyHashCmd   `cmd:"" help:"Hash a key that you have; it is read from standard input."`
}

// keyStore says which store a command is about.
type keyStore struct {
	Store  bool   `help:"Of the fleet's store, which --config names. Keys of files are changed in the files."`
	Config string `short:"c" placeholder:"FILE" env:"PENSTOCK_CONFIG" help:"Configuration with fleet.store and fleet.keys."`
}

// storePatience bounds a command on the store.
const storePatience = 10 * time.Second

// open connects to the store. The caller must call done.
func (k *keyStore) open() (w *keystore.Writer, ctx context.Context, done func(), err error) {
	switch {
	case !k.Store:
		return nil, nil, nil, usageError("key: say --store; keys of files are changed in the files")
	case k.Config == "":
		return nil, nil, nil, usageError("key: --store needs the --config that names the store")
	}
	f, problems := config.LoadValid(k.Config, engine.Known())
	if f == nil {
		return nil, nil, nil, problems
	}
	if w, err = proxy.OpenKeys(f); err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), storePatience)
	return w, ctx, func() { cancel(); w.Close() }, nil
}

type keyNewCmd struct {
	keyStore
	Name    string            `help:"Id of the key in the configuration and the log." default:"new-key"`
	Models  []string          `help:"Models the key may use: exact ids or patterns that end in *." default:"*"`
	Expires string            `help:"End of the key, such as 2027-01-01 or 2027-01-01T00:00:00Z."`
	Limits  map[string]string `placeholder:"LIMIT=N" help:"Limits of the key, such as requests_per_minute=600; can be repeated."`
}

// Run prints a fresh key, unless the configuration would refuse its lines.
func (k *keyNewCmd) Run() error {
	plain, hash, err := auth.NewKey()
	if err != nil {
		return err
	}
	lines, err := auth.ConfigLines(k.Name, hash, k.Models, k.Expires, k.Limits, engine.Known())
	if err != nil {
		return usageError("--" + err.Error())
	}
	if !k.Store {
		fmt.Printf("%s\n\n# Keep the key now: only its hash is stored. Lines for `keys:` in the configuration:\n%s", plain, lines)
		return nil
	}
	w, ctx, done, err := k.open()
	if err != nil {
		return err
	}
	defer done()
	fields := map[string]any{"id": k.Name, "hash": hash, "models": k.Models}
	if k.Expires != "" {
		fields["expires"] = k.Expires
	}
	if len(k.Limits) > 0 {
		fields["limits"] = k.limits()
	}
	if err := w.Add(ctx, fields); err != nil {
		return fmt.Errorf("key new: %w", err)
	}
	fmt.Printf("%s\n\n# Keep the key now: only its hash is stored. It is in force at all edges within a second.\n", plain)
	return nil
}

// limits are the limits as JSON has them: numbers, and money as text.
func (k *keyNewCmd) limits() map[string]any {
	out := map[string]any{}
	for name, text := range k.Limits {
		if n, err := strconv.Atoi(text); err == nil {
			out[name] = n
		} else {
			out[name] = text
		}
	}
	return out
}

type keyRevokeCmd struct {
	keyStore
	ID string `arg:"" name:"id" help:"Id of the key."`
}

// Run revokes the key.
func (k *keyRevokeCmd) Run() error {
	w, ctx, done, err := k.open()
	if err != nil {
		return err
	}
	defer done()
	if err := w.Revoke(ctx, k.ID); err != nil {
		return fmt.Errorf("key revoke: %w", err)
	}
	fmt.Println("revoked: edges refuse it within a second; what runs ends as on_revoke says")
	return nil
}

type keyListCmd struct{ keyStore }

// Run prints a line for each key.
func (k *keyListCmd) Run() error {
	w, ctx, done, err := k.open()
	if err != nil {
		return err
	}
	defer done()
	all, err := w.List(ctx)
	if err != nil {
		return fmt.Errorf("key list: %w", err)
	}
	for i := range all {
		fmt.Println(plaintext.Text(all[i].String()))
	}
	return nil
}

type keyHashCmd struct{}

// Run hashes the line on standard input.
func (keyHashCmd) Run() error {
	var plain string
	if _, err := fmt.Fscanln(os.Stdin, &plain); err != nil {
		return fmt.Errorf("key hash: give the key on standard input, in one line and without blanks: %w", err)
	}
	if err := auth.CheckKey(plain); err != nil {
		return fmt.Errorf("key hash: %w", err)
	}
	if auth.Guessable(plain) {
		fmt.Fprintln(os.Stderr, "penstock: this key can be guessed: whoever sees the hash, or may try often enough, has it. Use `penstock key new`, or 20 random characters and more.")
	}
	fmt.Println(auth.Hash(plain))
	return nil
}

type openapiCmd struct {
	Format string `enum:"yaml,json" default:"yaml" help:"Form of the document: ${enum}."`
}

// Run prints the embedded document.
func (o *openapiCmd) Run() error {
	text := openapi.YAML()
	if o.Format == "json" {
		text = openapi.JSON()
	}
	_, err := os.Stdout.Write(text)
	return err
}

type versionCmd struct{}

// Run prints which build this is.
func (versionCmd) Run() error { //nolint:unparam // the form of a command
	fmt.Println("penstock", build.Line())
	return nil
}
