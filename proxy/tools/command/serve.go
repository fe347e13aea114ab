package command

import (
	"fmt"
	"os"
	"strings"

	"penstock/config"
	"penstock/proxy"
	"penstock/proxy/front/plaintext"
	"penstock/proxy/tools/local"
)

// Serve runs the edge.
type Serve struct {
	engineKeyFlag
	Config    *string  `short:"c" placeholder:"FILE" env:"PENSTOCK_CONFIG" help:"Configuration file (YAML). See 'penstock check --example'."`
	Engine    []string `placeholder:"URL" sep:"none" help:"Serve this engine, without a file, for a key that is made for the run; can be repeated."`
	SharePort bool     `env:"PENSTOCK_SHARE_PORT" help:"Let a second penstock listen on the same ports (SO_REUSEPORT), for an upgrade without a gap. Both need it."`

	Listen      string `placeholder:"ADDRESS" env:"PENSTOCK_LISTEN" help:"Without a file: where the API is: PORT for this machine alone, :PORT for others, too, or HOST:PORT (default: 127.0.0.1:4000, or the next free port)."`
	AdminListen string `placeholder:"ADDRESS" env:"PENSTOCK_ADMIN_LISTEN" help:"Without a file: where status page, metrics and commands are, likewise (default: 127.0.0.1:9090, or the next free port). Other machines need a token."`
	AdminToken  string `placeholder:"TOKEN" env:"PENSTOCK_ADMIN_TOKEN" help:"Without a file: token of the admin listener; a file has admin.token."`
	KeyFile     string `placeholder:"FILE" env:"PENSTOCK_KEY_FILE" help:"Without a file: clients send the key in FILE, instead of one made for the run. FILE is created if it does not exist."`

	Simulator func() (url string, stop func(), err error) `kong:"-"` // starts a simulated engine
}

// Help is printed below the flags.
func (s *Serve) Help() string {
	return `SIGTERM and SIGINT drain: new requests are accepted for timeouts.linger, so that balancers notice, but after Ctrl-C at a terminal, or if
every listener is on loopback, only while calls run (without a file: not at all); running requests get timeouts.drain to finish; then they receive
an error event. That is an orderly end, exit code 0, also when calls had to be cut: service managers and Kubernetes take any other code for a
crash. The log says how many were cut ("drain time is over"). A second signal ends what runs at once, with an error event and the exit code 130
or 143; with 0 if nothing ran. SIGHUP reads the configuration again, and drains an edge that has none. SIGQUIT and SIGABRT are for a process that hangs: they print where it is, functions and
lines without anything of memory, and end it at once, with 131 or 134. Exit code 1: failed, or wrong configuration; 2: wrong usage.`
}

// Run serves until SIGTERM or SIGINT, and then drains. A second signal cancels all running calls.
func (s *Serve) Run() error {
	// The value may come from an unset variable in a script, in which case the edge must not start
	// without a configuration.
	if s.Config != nil && *s.Config == "" {
		return usageError("serve: the name in --config, or in PENSTOCK_CONFIG, is empty: name the file, or give neither to serve what is found on this machine")
	}
	if err := s.rejectFileSettings(); err != nil {
		return err
	}
	engines, err := s.localEngines(s.Engine)
	if err != nil {
		return err
	}
	at, err := s.listenOptions()
	if err != nil {
		return err
	}
	end := proxy.HandleSignals(os.Exit)
	defer end.Stop()
	if s.Config == nil {
		return local.ServeEngines(end, os.Stdout, engines, at, s.Simulator)
	}
	name := *s.Config
	f, problems := proxy.LoadConfig(name)
	if f == nil {
		return problems
	}
	if f.Log.Format == config.LogFormatConsole {
		for _, p := range problems {
			fmt.Fprintln(os.Stderr, plaintext.CleanText(p.String()))
		}
		problems = nil
	}
	return proxy.Run(end, proxy.RunOptions{
		Config: f, Warnings: problems, SharePort: s.SharePort, Load: proxy.ConfigReloader(name), Parse: proxy.SiblingConfigParser(name),
		Ready: func(public, admin string) {
			if !strings.HasPrefix(public, "unix:") {
				public += "/v1"
			}
			fmt.Printf("penstock: serving %s (admin: %s)\n", public, admin)
		},
	})
}

// rejectFileSettings returns an error if a configuration file is used together with flags for
// settings that belong in that file.
func (s *Serve) rejectFileSettings() error {
	if s.Config == nil {
		return nil
	}
	for _, flag := range []struct {
		given        bool
		name, remedy string
	}{
		{len(s.Engine) > 0, "--engine", "write it to the upstreams"},
		{s.Listen != "", "--listen (or PENSTOCK_LISTEN)", "write listen: " + s.Listen + " to the top"},
		{
			s.AdminListen != "", "--admin-listen (or PENSTOCK_ADMIN_LISTEN)",
			"write admin: { listen: " + s.AdminListen + " } to the top",
		},
		{s.KeyFile != "", "--key-file (or PENSTOCK_KEY_FILE)", "write its hash, which penstock key hash prints, to the keys"},
	} {
		if flag.given {
			return usageError("serve: " + flag.name + " is for a start without a file: " + flag.remedy + " of " +
				*s.Config + ", which --config or PENSTOCK_CONFIG names")
		}
	}
	return nil
}

// listenOptions returns the addresses for an edge without a configuration file. The generated
// configuration refers to the admin token through an environment variable. If the token was given
// in a flag, listenOptions therefore sets this variable for the process.
func (s *Serve) listenOptions() (local.ListenOptions, error) {
	at := local.ListenOptions{
		Listen: s.Listen, AdminListen: s.AdminListen, AdminToken: s.AdminToken, KeyFile: s.KeyFile, SharePort: s.SharePort,
	}
	if s.AdminToken == "" || s.Config != nil {
		return at, nil
	}
	return at, os.Setenv("PENSTOCK_ADMIN_TOKEN", s.AdminToken)
}
