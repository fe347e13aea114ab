package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/guard"
	"penstock/proxy/listen"
	"penstock/proxy/observe"
	"penstock/proxy/process"
)

// RunOptions says how a process runs an edge.
type RunOptions struct {
	Config *config.File
	// Load reads the configuration again for a reload; nil when there is no file.
	Load func() (*config.File, config.Problems)
	// Parse reads the text of one that is not in place, to say what it would change.
	Parse func(src []byte) (*config.File, config.Problems)
	// SharePort opens the ports so that a second process may listen on them at the same time
	// (SO_REUSEPORT).
	SharePort bool
	// NextPort lets a listener whose port is taken use the next free one: for a start without a
	// configuration, where no client has been told a port yet.
	NextPort bool
	// Ready is called once when both listeners accept, with their base addresses
	// ("http://127.0.0.1:4000"); the admin's is empty when it is off.
	Ready func(public, admin string)
}

// Run is the whole life of the serving process: listeners, log, memory limit, edge. It returns
// after the signal to end has come and the edge has drained; the error is *InterruptedError when a
// second one came before it had.
func Run(end *Shutdown, o RunOptions) error {
	c, ctx := o.Config, end.Context
	signal.Ignore(syscall.SIGPIPE) // the reader of the log may end; that must not end the edge
	sink := observe.NewSink(os.Stderr, end.guard)
	defer sink.Close() //nolint:errcheck // it has no error to give
	log, err := observe.NewLogger(c.Log, sink)
	if err != nil {
		return err
	}
	defer zap.RedirectStdLog(log)() // libraries that use the standard logger write to this log, too
	ports, err := openPorts(&o)
	if err != nil {
		return err
	}
	public, admin := ports.Public, ports.Admin
	cert, scheme := (*listen.Certificate)(nil), "http"
	if c.TLS.Enabled() {
		cert, scheme = new(listen.Certificate), "https"
		if err := cert.Load(c.TLS.Cert, c.TLS.Key); err != nil {
			return fmt.Errorf("tls: %w", err)
		}
	}
	process.PaceGC()
	memory, source := process.ApplyMemoryLimit()
	e, err := New(Options{
		Config: c, Log: log, MemoryLimit: memory, Guard: end.guard,
		Public: public, Admin: admin, InheritedPublic: ports.inherited, SharedPort: o.SharePort, Hurry: end.Hurry,
		Certificate: cert, Load: o.Load, Parse: o.Parse, LogDropped: sink.Dropped,
	})
	if err != nil {
		return err
	}
	log.Info("serving", zap.String("listen", public.Addr().String()), zap.Int("models", len(c.Models)), zap.Int("upstreams", len(c.Upstreams)),
		zap.Int64("memory_limit", memory), zap.String("memory_limit_source", string(source)))
	if changed := c.ChangedDefaults(); o.Load != nil && len(changed) > 0 {
		log.Info("defaults are not those of the first version: a setting that the file gives itself is not affected", zap.Strings("changed", changed))
	}
	if o.Ready != nil {
		o.Ready(baseURL(public, scheme), baseURL(admin, "http"))
	}
	if o.Load != nil {
		stop := e.reloadOnChange(ctx)
		defer stop()
	}
	listen.NotifyReady(e.readyStatus())
	stop := e.stayWatched(ctx)
	defer stop()
	err = e.Serve(ctx)
	return errors.Join(err, end.Err(e.Cut()))
}

// readyStatus is the line for the service manager's status.
func (e *Edge) readyStatus() string {
	s := e.current.Load()
	return fmt.Sprintf("serving %d models from %d upstreams, configuration version %d", len(s.Config.Models), len(s.Config.Upstreams), s.Version)
}

// reloadOnChange reloads on SIGHUP and, with watch, when a file that the configuration was read
// from changes, until stop is called.
func (e *Edge) reloadOnChange(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	w := &config.Watcher{
		Paths: func() []string {
			e.guard.Point(guard.Files)
			return e.current.Load().Config.Paths()
		},
		OnChange: func() {
			if e.current.Load().Config.Watch {
				e.Reload("file")
			}
		},
		Interval: watchInterval,
	}
	w.Prime()
	go e.guard.Loop(ctx.Done(), guard.Files, func() { w.Run(ctx) })
	go e.guard.Loop(ctx.Done(), guard.Reload, func() {
		for {
			select {
			case <-hangup:
				e.guard.Point("reload.signal")
				e.Reload("SIGHUP")
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		signal.Stop(hangup)
		cancel()
	}
}

// watchInterval is how often files are looked at when no event tells of a change, as on a file that
// is mounted by itself: keys must count within a second there, too.
const watchInterval = 500 * time.Millisecond

// ports are the two listeners of a process.
type ports struct {
	listen.Sockets
	inherited bool // the public one is a service manager's
}

// openPorts opens what a service manager has not opened already.
func openPorts(o *RunOptions) (ports, error) {
	sockets, err := listen.InheritSockets()
	if err != nil {
		return ports{}, err
	}
	p := ports{Sockets: sockets, inherited: sockets.Public != nil}
	how := listen.PortOptions{ReusePort: o.SharePort}
	if o.NextPort {
		how.Tries = 64
	}
	if p.Public == nil {
		if p.Public, err = listen.Listen(o.Config.Listen, how); err != nil {
			return ports{}, openError("listen", o.Config.Listen, err)
		}
	}
	if p.Admin == nil && o.Config.Admin.Listen != "" {
		if p.Admin, err = listen.Listen(o.Config.Admin.Listen, how); err != nil {
			return ports{}, openError("admin.listen", o.Config.Admin.Listen, err)
		}
	}
	return p, nil
}

// openError says why the address of a setting was not opened, and the remedy for the common
// reasons.
func openError(setting, address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s: %s is taken by another process: choose another address, or, for a second edge on it, start both with --share-port", setting, address)
	}
	if errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("%s: this user may not open %s: choose a port from 1024 on, or let a socket unit of the service manager open it", setting, address)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok { // which repeats the address
		err = op.Err
	}
	return fmt.Errorf("%s: %s: %w", setting, address, err)
}

func baseURL(ln net.Listener, scheme string) string {
	if ln == nil {
		return ""
	}
	addr := ln.Addr().String()
	addr = strings.Replace(addr, "[::]", "127.0.0.1", 1)
	return scheme + "://" + strings.Replace(addr, "0.0.0.0", "127.0.0.1", 1)
}
