package command

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"penstock/proxy/admin"
	"penstock/proxy/reload"
)

// Reload has a running edge read its configuration again.
type Reload struct {
	File  string `arg:"" optional:"" help:"With --diff: a file to compare with what runs, in place of the edge's own. The edge reads it as if it stood in the folder of its file."`
	Diff  bool   `help:"Apply nothing: only print what would change, each model's slots before and after, and what needs a restart."`
	Force bool   `help:"Apply it although a model that serves calls is left without a slot, which is refused otherwise."`
	Admin string `default:"http://127.0.0.1:9090" placeholder:"URL" env:"PENSTOCK_ADMIN" help:"Admin listener of the edge (default: ${default})."`
	Token string `placeholder:"TOKEN" env:"PENSTOCK_ADMIN_TOKEN" help:"Its admin token, where it has one. Arguments can be seen by other users of the machine, the variable cannot."`
}

// Run asks for the reload. Problems of the configuration are an error: exit code 1.
func (r *Reload) Run() error {
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

// Top shows a running edge in the terminal.
type Top struct {
	Admin    string        `default:"http://127.0.0.1:9090" placeholder:"URL" env:"PENSTOCK_ADMIN" help:"Admin listener of the edge (default: ${default})."`
	Token    string        `placeholder:"TOKEN" env:"PENSTOCK_ADMIN_TOKEN" help:"Its admin token, where it has one. Arguments can be seen by other users of the machine, the variable cannot."`
	Once     bool          `help:"Print the state once and end: for scripts. Also what happens when the output is no terminal."`
	JSON     bool          `name:"json" help:"Print the state once as JSON."`
	Interval time.Duration `default:"1s" help:"Time between two looks."`
}

// Run shows the state until it is interrupted.
func (t *Top) Run() error {
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

// Usage prints what keys have used.
type Usage struct {
	Fleet bool   `help:"Of all edges that share the store (fleet.store), in place of one edge."`
	Day   string `placeholder:"DAY" help:"Of one day alone, such as 2026-01-31, in UTC. 62 days are kept."`
	Month string `placeholder:"MONTH" help:"Of one month alone, such as 2026-01, in UTC."`
	JSON  bool   `name:"json" help:"Print JSON, with each day."`
	Admin string `default:"http://127.0.0.1:9090" placeholder:"URL" env:"PENSTOCK_ADMIN" help:"Admin listener of the edge (default: ${default})."`
	Token string `placeholder:"TOKEN" env:"PENSTOCK_ADMIN_TOKEN" help:"Its admin token, where it has one. Arguments can be seen by other users of the machine, the variable cannot."`
}

// Help is printed below the flags.
func (u *Usage) Help() string {
	return `Prompt tokens include cached ones. Spend is by the models' pricing. Without 'ledger:' in the configuration an edge's usage begins with its process.`
}

// Run asks the edge.
func (u *Usage) Run() error {
	period, err := admin.ParsePeriod(u.Day, u.Month)
	if err != nil {
		return usageError("usage: " + err.Error())
	}
	return admin.RequestUsage(admin.UsageOptions{
		Admin: u.Admin, Token: u.Token, Fleet: u.Fleet, JSON: u.JSON, Period: period,
	}, os.Stdout)
}

// Mode sets an upstream's mode.
type Mode struct {
	Upstream string `arg:"" help:"Name of the upstream, as penstock top shows it."`
	Mode     string `arg:"" enum:"ready,drain,maintenance" help:"drain: no new calls. maintenance: no probes either. ready: calls again."`
	Who      string `placeholder:"NAME" env:"USER" help:"Who asks for it: every edge of a fleet shows it."`
	Admin    string `default:"http://127.0.0.1:9090" placeholder:"URL" env:"PENSTOCK_ADMIN" help:"Admin listener of the edge (default: ${default})."`
	Token    string `placeholder:"TOKEN" env:"PENSTOCK_ADMIN_TOKEN" help:"Its admin token, which this needs. Arguments can be seen by other users of the machine, the variable cannot."`
}

// Run asks for the mode.
func (m *Mode) Run() error {
	return admin.RequestMode(m.Admin, m.Token, admin.ModeRequest{Upstream: m.Upstream, Mode: m.Mode, Who: m.Who})
}

// Ready asks whether an edge takes new requests.
type Ready struct {
	Admin string `default:"http://127.0.0.1:9090" placeholder:"URL" env:"PENSTOCK_ADMIN" help:"Admin listener of the edge (default: ${default})."`
}

// Run asks the edge. No answer is an error, and so is an edge that drains.
func (r *Ready) Run() error { return admin.RequestReady(r.Admin) }
