package proxy

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/access/auth/jwt"
	"penstock/proxy/access/runkeys"
	"penstock/proxy/front/listen"
	"penstock/proxy/running/reload"
	"penstock/proxy/telemetry/ledger"
	"penstock/proxy/telemetry/observe"
	"penstock/proxy/telemetry/process"
	"penstock/upstreams/engine"
)

// RunOptions configures Run.
type RunOptions struct {
	Config *config.File
	// Warnings are the warnings from reading the configuration. They are logged first.
	Warnings config.Problems
	// If Config was not read from a file, Origin is the first line of the log.
	Origin string
	// Load reads the configuration again for a reload. It is nil if the configuration does not come
	// from a file.
	Load func() (*config.File, config.Problems, []string)
	// Parse parses a configuration without applying it, to report what the configuration would
	// change.
	Parse func(src []byte, called string) (*config.File, config.Problems)
	// SharePort opens the ports with SO_REUSEPORT, so that a second process may listen on them.
	SharePort bool
	// NextPort and NextAdminPort let a listener use the next free port if its port is in use. They
	// are set if the edge starts without a configuration.
	NextPort, NextAdminPort bool
	// Ready is called once both listeners accept connections. Its arguments are their base
	// addresses ("http://127.0.0.1:4000"). The admin address is empty if there is no admin
	// listener.
	Ready func(public, admin string)
}

func (o *RunOptions) portOptions(next bool) listen.PortOptions {
	how := listen.PortOptions{ReusePort: o.SharePort}
	if next {
		how.Tries = 64
	}
	return how
}

// bothOnLoopback reports whether the listeners are reachable only from this machine. admin may be
// nil.
func bothOnLoopback(public, admin net.Listener) bool {
	return config.OnLoopback(public.Addr().String()) && (admin == nil || config.OnLoopback(admin.Addr().String()))
}

// LoadConfig reads a configuration, the files that it names, and the start of its ledger. If a
// problem is more than a warning, the returned file is nil.
func LoadConfig(name string) (*config.File, config.Problems) {
	return config.LoadValid(name, engine.KnownEngines(), checkFiles)
}

// ParseConfig is like LoadConfig, but parses a configuration's text. Relative paths are relative to
// the folder of name.
func ParseConfig(name string, src []byte) (*config.File, config.Problems) {
	return config.ParseValid(name, src, engine.KnownEngines(), checkFiles)
}

func checkFiles(f *config.File) config.Problems {
	files := append(f.CheckCertificates(), config.CheckLedgerPath(f, ledger.CheckIsLedgerFile)...)
	files = append(files, config.CheckMadeKeys(f, runkeys.CheckFile)...)
	files = append(files, f.CheckSockets()...)
	return append(files, config.CheckIssuerKeySets(f, func(set []byte) error { _, err := jwt.ParseSet(set); return err })...)
}

// ConfigReloader returns a function that reads the file again for a reload. For the files that the
// configuration names, the function only returns warnings, because the components that use these
// files check them.
func ConfigReloader(name string) func() (*config.File, config.Problems, []string) {
	return func() (*config.File, config.Problems, []string) {
		f, problems, files := config.LoadForReload(name, engine.KnownEngines())
		return f, withFileWarnings(f, problems), files
	}
}

// withFileWarnings adds the warnings about the files that a configuration names. A damaged file
// with keys created at run time is also only a warning. A running edge keeps using the keys that it
// read last. f may be nil.
func withFileWarnings(f *config.File, problems config.Problems) config.Problems {
	if f == nil {
		return problems
	}
	problems = append(problems, checkFiles(f).Warnings()...)
	for _, p := range config.CheckMadeKeys(f, runkeys.CheckFile) {
		p.Warning = true
		p.Message += "; the keys read last stay in force, and a restart fails"
		problems = append(problems, p)
	}
	problems.Sort()
	return problems
}

// SiblingConfigParser returns a function that parses a configuration's text as if it were a file in
// the same folder as name. called is the name that problems use for the text.
func SiblingConfigParser(name string) func(src []byte, called string) (*config.File, config.Problems) {
	return func(src []byte, called string) (*config.File, config.Problems) {
		stands := filepath.Join(filepath.Dir(name), "candidate")
		f, problems := config.ParseValid(stands, src, engine.KnownEngines())
		problems = withFileWarnings(f, problems)
		if called == "" {
			return f, problems
		}
		for i := range problems {
			if problems[i].File == stands {
				problems[i].File = called
			}
		}
		if f != nil {
			config.SetFileName(f, called)
		}
		return f, problems
	}
}

// Run runs the serving process until a signal stops it and the edge has drained. If a second signal
// ends calls before the edge has drained, the error is an *InterruptedError.
func Run(end *ShutdownSignals, o RunOptions) error {
	c, ctx := o.Config, end.Context
	signal.Ignore(syscall.SIGPIPE) // the edge must keep running if the process that reads its log exits
	sink := observe.NewLogSink(os.Stderr, end.guard)
	defer sink.Close() //nolint:errcheck // it never returns an error
	log, err := observe.NewLogger(c.Log, sink)
	if err != nil {
		return err
	}
	defer zap.RedirectStdLog(log)() // libraries that use the standard logger
	if o.Origin != "" {
		log.Info(o.Origin)
	}
	for _, p := range o.Warnings {
		log.Warn(reload.ConfigWarningMessage, zap.String("source", "start"), zap.String("problem", p.String()))
	}
	ports, err := openListeners(c, o.portOptions(o.NextPort), o.portOptions(o.NextAdminPort))
	if err != nil {
		return err
	}
	public, admin := ports.Public, ports.Admin
	defer ports.close()
	secure, err := loadCertificates(c, ports.Public, ports.challengeListener, log, end.guard)
	if err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	memory, source := process.ApplyMemoryLimit()
	process.PaceGC(memory)
	e, err := New(Options{
		Config: c, Log: log, MemoryLimit: memory, Guard: end.guard,
		Public: public, Admin: admin, InheritedPublic: ports.inherited, SharedPort: o.SharePort, Hurry: end.Hurry,
		Direct:      func() bool { return end.interruptedFromTerminal() || bothOnLoopback(public, admin) },
		Certificate: secure.publicCertificate, AdminCertificate: secure.adminCertificate, ACME: secure.acmeManager, Challenges: secure.challengeServer,
		Load: o.Load, Parse: o.Parse, LogDropped: sink.Dropped,
	})
	if err != nil {
		return err
	}
	for _, ln := range []net.Listener{public, admin, ports.challengeListener} {
		if err := listen.TakeOverPath(ln); err != nil {
			return err
		}
	}
	log.Info("serving", zap.String("listen", public.Addr().String()), zap.Int("models", len(c.Models)),
		zap.Int("upstreams", len(c.Upstreams)),
		zap.Int64("memory_limit", memory), zap.String("memory_limit_source", string(source)))
	if o.Ready != nil {
		o.Ready(baseURL(public, listenerScheme(secure.publicCertificate)), baseURL(admin, listenerScheme(secure.adminCertificate)))
	}
	if o.Load != nil {
		stop := e.reloads.WatchChanges(ctx)
		defer stop()
	}
	listen.NotifyReady(e.reloads.ConfigSummary())
	stop := e.startWatchdog(ctx)
	defer stop()
	err = e.Serve(ctx)
	return errors.Join(err, end.Err(e.shutdown.interruptedCalls.Load()))
}
