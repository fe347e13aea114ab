package command

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"penstock/config"
	"penstock/proxy/operate/admin"
	"penstock/proxy/operate/top"
	"penstock/proxy/running/reload"
)

type edgeFlags struct {
	Admin  string `default:"http://127.0.0.1:9090" placeholder:"URL" env:"PENSTOCK_ADMIN" help:"Admin listener of the edge (default: ${default})."`
	Token  string `placeholder:"TOKEN" env:"PENSTOCK_ADMIN_TOKEN" help:"Its admin token, if it has one. Other users of the machine can see arguments, but not the variable."`
	CACert string `name:"cacert" placeholder:"FILE" env:"PENSTOCK_ADMIN_CACERT" help:"Certificates that signed the listener's, if it speaks TLS (admin.tls) and the system does not trust it."`
}

func (o *edgeFlags) edge() admin.Edge {
	return admin.Edge{Admin: o.Admin, Token: o.Token, CACert: o.CACert}
}

// Reload makes a running edge reload its configuration.
type Reload struct {
	File   string `arg:"" optional:"" values:"files" help:"With --diff: a file to compare with the running configuration, instead of the edge's own. The edge reads it as if it were in its file's folder."`
	Diff   bool   `help:"Apply nothing: only print what would change, each model's slots before and after, and what needs a restart."`
	Back   bool   `help:"Go back to the configuration before the running one, which the edge has in memory. Keys stay as they are; a key that was taken away does not come back."`
	Force  bool   `help:"Apply it even if a model that serves calls is left without a slot, which is otherwise refused."`
	Format string `enum:"text,json" default:"text" help:"Form of the output: ${enum}. json is one object: ok, version, changes, needs_restart, capacity, warnings and problems."`
	edgeFlags
}

// Run requests the reload. If the configuration has problems, the exit code is 1.
func (r *Reload) Run() error {
	q := reload.Request{Force: r.Force, DryRun: r.Diff, Back: r.Back}
	if r.File != "" {
		if r.Back {
			return usageError("reload: --back goes to the configuration before the running one: leave the file out")
		}
		if !r.Diff {
			return usageError("reload: a file is only compared, with --diff: to apply it, write it to the edge's own")
		}
		var err error
		q.Called = r.File
		if q.Candidate, err = config.ReadText(r.File); err != nil {
			return err
		}
		if len(q.Candidate) == 0 {
			return usageError("reload: " + r.File + " is empty")
		}
	}
	asJSON := r.Format == formatJSON
	if err := admin.RequestReload(r.edge(), q, asJSON, os.Stdout); err != nil || !r.Back || r.Diff || asJSON {
		return err
	}
	_, err := fmt.Println("The edge's file is unchanged, and is read again when it changes, at a reload and at a start: correct it first.")
	return err
}

// Top shows a running edge in the terminal.
type Top struct {
	edgeFlags
	Once     bool          `help:"Print the state once as plain text and exit, for scripts."`
	Format   string        `enum:"text,json" default:"text" help:"Form of the output: ${enum}. json is the state, once: the object that GET /status of the admin listener answers."`
	Interval time.Duration `default:"1s" help:"Time between two updates."`
}

// Help is printed below the flags.
func (t *Top) Help() string {
	return `Keys: 1 to 7 or tab choose a table, space pauses, q quits. NO_COLOR turns colours off. With TERM=dumb, or where the output is no terminal, the state is printed once, in lines of COLUMNS characters (80).`
}

// Run shows the state until the user quits. SIGHUP also ends the command. The system sends this
// signal when the terminal is closed. A program that takes over the terminal may also send it.
func (t *Top) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP, os.Interrupt)
	defer stop()
	width, _ := strconv.Atoi(os.Getenv("COLUMNS"))
	o := admin.TopOptions{
		Edge: t.edge(), Out: os.Stdout, JSON: t.Format == formatJSON, Width: cmp.Or(width, 80), Interval: t.Interval,
		Colour: os.Getenv("NO_COLOR") == "",
	}
	if !t.Once && !o.JSON && os.Getenv("TERM") != "dumb" && top.IsTerminal(os.Stdout) {
		o.In, o.Terminal = os.Stdin, os.Stdout
	}
	return admin.ShowTop(ctx, o)
}

// Usage prints the usage of keys.
type Usage struct {
	Fleet  bool   `help:"Usage of all edges that share the store (fleet.store), instead of one edge."`
	By     string `enum:"model,user" default:"model" placeholder:"user" help:"By end user instead of model, if end_users is configured: the keyed hashes of the heaviest users, and the rest of each key."`
	Day    string `placeholder:"DAY" help:"Usage of one day, such as 2026-01-31, in UTC. 62 days are kept."`
	Month  string `placeholder:"MONTH" help:"Usage of one month, such as 2026-01, in UTC."`
	Format string `enum:"text,json" default:"text" help:"Form of the output: ${enum}. json is the object that GET /-/usage of the admin listener answers, with each day."`
	edgeFlags
}

// Help is printed below the flags.
func (u *Usage) Help() string {
	return `Prompt tokens include cached ones. Spend is by the models' pricing. Without 'ledger:' in the configuration an edge's usage begins with its process.`
}

// Run requests the usage.
func (u *Usage) Run() error {
	period, err := admin.ParseUsagePeriod(u.Day, u.Month)
	if err != nil {
		return usageError("usage: " + err.Error())
	}
	return admin.RequestUsage(admin.UsageOptions{
		Edge: u.edge(), Fleet: u.Fleet, ByUser: u.By == "user", JSON: u.Format == formatJSON, Period: period,
	}, os.Stdout)
}

// Canary compares the arms of a model.
type Canary struct {
	Model  string         `arg:"" values:"models" help:"Id of a model with a deployment that has a share of its calls (traffic)."`
	For    *time.Duration `placeholder:"10m" help:"Compare the calls of this period from now on, instead of all since the edge's start. Ctrl-C compares those so far."`
	Format string         `enum:"text,json" default:"text" help:"Form of the output: ${enum}. json is an array of comparisons: model, arm, calls, rest_calls, verdict, and measures with measure, rest, arm, change, low, high and verdict."`
	edgeFlags
}

// Help is printed below the flags.
func (c *Canary) Help() string {
	return `The verdict is on times to first token, tokens a second, failed and refused calls; clients that left and lengths of answers are only shown. Worse: surely slower by more than 5 %, or 0.5 % of the calls more fail or find no room. Not worse: surely no more than 10 %, or 2 % of the calls. Calls that another arm answered count as failed or refused where they should have gone. A side needs 50 values. Exit code 0: not worse; 3: worse; 4: not yet known; 1: failed; 2: wrong usage.`
}

// Run compares the arms.
func (c *Canary) Run() error {
	var span time.Duration
	if c.For != nil {
		if span = *c.For; span <= 0 {
			return usageError("canary: no call comes within --for " + span.String() +
				": give a time such as 10m, or leave it out for all calls since the edge's start")
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return admin.CompareCanary(ctx, admin.CanaryOptions{
		Edge: c.edge(), Model: c.Model, JSON: c.Format == formatJSON, For: span,
	}, os.Stdout)
}

// UpstreamModeCommands contains the commands that set the mode of an upstream.
type UpstreamModeCommands struct {
	Drain       Drain       `cmd:"" help:"Take an upstream out: running calls end, no new ones come; in a fleet with a store, at every edge."`
	Maintenance Maintenance `cmd:"" help:"Take an upstream out and pause its probes, too."`
	Ready       Ready       `cmd:"" help:"Let calls into an upstream again. Without a name: ask whether the edge takes new requests, exit code 0 when it does, for health checks."`
}

type modeFlags struct {
	Who    string `placeholder:"NAME" env:"USER" help:"Who asks for it: every edge of a fleet with a store shows it. An edge without a store keeps no name."`
	Format string `enum:"text,json" default:"text" help:"Form of the output: ${enum}. json is one object: upstreams, each with name and was, its mode before; of ready without an upstream: status."`
	edgeFlags
}

func (m *modeFlags) setMode(q admin.ModeRequest) ([]string, error) {
	q.Who = m.Who
	return admin.ChangeMode(m.edge(), q, m.Format == formatJSON, os.Stdout)
}

// takeOutFlags contains the flags for the commands that take upstreams out of service.
type takeOutFlags struct {
	modeFlags
	Upstream string `arg:"" values:"upstreams" help:"Name of the upstream, as penstock top shows it, or of a group: 'gpu-*' for all whose names begin with gpu-, tag:h100 for all with the tag."`
	Wait     bool   `help:"Exit once no call of this edge is left there. After timeouts.drain, a call moves to another upstream if it can, else it runs to its end. Ctrl-C only ends the waiting."`
	Force    bool   `help:"Do it even if a model is left without an engine that takes calls, which is otherwise refused."`
}

func (o *takeOutFlags) takeOutOfService(mode string) error {
	names, err := o.setMode(admin.ModeRequest{Upstream: o.Upstream, Mode: mode, KeepLast: !o.Force})
	if err != nil || !o.Wait {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	progress := os.Stdout
	if o.Format == formatJSON {
		progress = os.Stderr
	}
	return admin.WaitIdle(ctx, o.edge(), names, progress)
}

// Drain takes an upstream out of service.
type Drain struct{ takeOutFlags }

// Run requests the mode "drain".
func (d *Drain) Run() error { return d.takeOutOfService("drain") }

// Maintenance takes an upstream out of service and stops its probes.
type Maintenance struct{ takeOutFlags }

// Run requests the mode "maintenance".
func (m *Maintenance) Run() error { return m.takeOutOfService("maintenance") }

// Ready checks whether an edge accepts requests. If an upstream is named, Ready instead lets that
// upstream accept calls again.
type Ready struct {
	modeFlags
	Upstream string `arg:"" values:"upstreams" optional:"" help:"Name of an upstream that was drained or in maintenance, or of a group such as tag:h100. Without it the edge is asked whether it takes new requests."`
}

// Run asks the edge whether it is ready. If an upstream is named, Run sets the mode of the upstream
// instead. Run returns an error if the edge is draining or does not respond.
func (r *Ready) Run() error {
	if r.Upstream != "" {
		_, err := r.setMode(admin.ModeRequest{Upstream: r.Upstream, Mode: "ready"})
		return err
	}
	if err := admin.CheckReady(r.edge()); err != nil || r.Format != formatJSON {
		return err
	}
	return printJSON(admin.Readiness{Status: "ready"})
}
