package proxy

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/listen"
)

// warmUp is how long a reload waits for the first probe of the upstreams that it adds. Without it, replacing all upstreams
// of a model would open a window of refusals.
const warmUp = 2 * time.Second

// sourceAddresses is the reload that a change of resolved addresses asks for: the same file over other upstreams.
const sourceAddresses = "addresses"

// ReloadResult is how one reload ended. It holds names of settings and problems of the file, never values of secrets.
type ReloadResult struct {
	At       time.Time `json:"at"`
	Source   string    `json:"source"`
	OK       bool      `json:"ok"`
	Version  uint64    `json:"version"` // of the running configuration, afterwards
	Changes  []string  `json:"changes,omitempty"`
	Restart  []string  `json:"needs_restart,omitempty"`
	Problems []string  `json:"problems,omitempty"`
	Seconds  float64   `json:"seconds"`
}

// Reload asks for a reload and returns at once. Requests that come while one is waiting are one; a request during a reload
// causes another one after it, so the newest file is always read. It may be called from any goroutine.
func (e *Edge) Reload(source string) {
	select {
	case e.kick <- source:
	default: // one waits already, and it will read the newest file
	}
}

// reloads is the goroutine that carries requests out.
func (e *Edge) reloads(ctx context.Context) {
	for {
		select {
		case source := <-e.kick:
			e.reloadNow(source)
		case <-ctx.Done():
			return
		}
	}
}

// reloadNow reads the configuration and makes it the running one, whole or not at all.
func (e *Edge) reloadNow(source string) ReloadResult {
	e.reloading.Lock()
	defer e.reloading.Unlock()
	begun := e.now()
	r := ReloadResult{At: begun, Source: source}
	if err := e.reload(source, &r); err != nil {
		r.Problems = append(r.Problems, err.Error())
	}
	r.OK = len(r.Problems) == 0
	r.Version = e.current.Load().Version
	r.Seconds = e.now().Sub(begun).Seconds()
	e.lastReload.Store(&r)
	if r.OK {
		e.counters.reloadsOK.Inc()
		e.log.Info("reloaded", zap.String("source", source), zap.Uint64("version", r.Version), zap.Strings("changes", r.Changes), zap.Strings("needs_restart", r.Restart))
	} else {
		e.counters.reloadsBad.Inc()
		for _, p := range r.Problems {
			e.log.Error("configuration not reloaded, the running one stays", zap.String("source", source), zap.String("problem", p))
		}
	}
	return r
}

func (e *Edge) reload(source string, r *ReloadResult) error {
	old := e.current.Load()
	next := old.Config
	if source != sourceAddresses {
		if e.opts.Load == nil {
			return errors.New("this edge was started without a configuration file")
		}
		var problems config.Problems
		if next, problems = e.opts.Load(); next == nil {
			for _, p := range problems.Errors() {
				r.Problems = append(r.Problems, p.String())
			}
			return nil
		}
		for _, c := range config.Diff(old.Config, next) {
			if c.RestartOnly {
				r.Restart = append(r.Restart, c.String())
			} else {
				r.Changes = append(r.Changes, c.String())
			}
		}
		keepBound(next, old.Config)
		if e.opts.Certificate != nil {
			if err := e.opts.Certificate.Load(next.TLS.Cert, next.TLS.Key); err != nil {
				return err
			}
		}
	}
	return e.apply(next)
}

// keepBound puts back what a running process cannot change (config.Diff marks it RestartOnly).
func keepBound(next, old *config.File) {
	next.Listen, next.Admin.Listen = old.Listen, old.Admin.Listen
	next.Log.Level, next.Log.Format = old.Log.Level, old.Log.Format
	next.Tracing = old.Tracing
	next.Limits.BodyMemory, next.Limits.Connections, next.Limits.Header = old.Limits.BodyMemory, old.Limits.Connections, old.Limits.Header
	next.Timeouts.ClientHeader, next.Timeouts.ClientIdle = old.Timeouts.ClientHeader, old.Timeouts.ClientIdle
	if next.TLS.Enabled() != old.TLS.Enabled() {
		next.TLS = old.TLS
	}
}

// apply builds a snapshot of f whole and makes it the running one. On an error nothing has changed. What it does to calls
// that run: they end on the snapshot that they began with.
func (e *Edge) apply(f *config.File) error {
	plan, err := e.set.Plan(f.Upstreams, f.Models, f.Engines...)
	if err != nil {
		return err
	}
	old := e.current.Load()
	next, err := e.newSnapshot(f, plan, old)
	if err != nil {
		return err
	}
	e.set.Commit(plan)
	if old != nil {
		// Keys count at once; only new routes wait for their upstreams' first probe.
		interim := *old
		interim.Keys, interim.keyLimits = next.Keys, next.keyLimits
		e.current.Store(&interim)
		e.endRevoked(f, next)
		warm, cancel := context.WithTimeout(context.Background(), warmUp)
		e.set.WaitProbed(warm, plan)
		cancel()
	}
	e.current.Store(next)
	e.roomMade()
	e.generations.add(next.generation)
	e.calls.Configured(modelNames(f), upstreamNames(f))
	e.set.Retire(plan)
	return nil
}

// endRevoked ends the running calls of keys that are gone or switched off, when the operator wants that.
func (e *Edge) endRevoked(f *config.File, next *Snapshot) {
	if f.OnRevoke != config.OnRevokeAbort {
		return
	}
	e.watch.Each(func(w listen.Waiter) {
		if c := w.(*Call); c.key != nil && !next.Keys.Holds(c.key.ID, e.now()) {
			c.abort(errRevoked)
		}
	})
}

// LastReload returns how the last reload ended, or nil when there was none.
func (e *Edge) LastReload() *ReloadResult { return e.lastReload.Load() }
