package proxy

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/admin"
	"penstock/proxy/guard"
	"penstock/proxy/listen"
	"penstock/proxy/process"
	"penstock/proxy/snapshot"
	"penstock/routing"
	"penstock/upstreams"
)

// warmUp is how long a reload waits for the first probe of the upstreams that it adds. Without it,
// replacing all upstreams of a model would open a window of refusals.
const warmUp = 2 * time.Second

// sourceAddresses is a reload because resolved addresses have changed: the same file over other
// upstreams. sourceRequest is a reload that an operator asks and waits for.
const (
	sourceAddresses = "addresses"
	sourceRequest   = "request"
)

// Reload asks for a reload and returns at once. Requests that come while one is waiting are merged
// with it; a request during a reload causes another one after it, so the newest file is always
// read. It may be called from any goroutine.
func (e *Edge) Reload(source string) {
	select {
	case e.kick <- source:
	default: // one waits already, and it will read the newest file
	}
}

// reloads takes requests until ctx ends. Each reload has its own goroutine: the keys of a file must
// not wait for another reload that waits for names or engines.
func (e *Edge) reloads(ctx context.Context) {
	for {
		select {
		case source := <-e.kick:
			go e.guard.Once(guard.Reload, func() { e.reloadNow(admin.ReloadRequest{Source: source}) })
		case <-ctx.Done():
			return
		}
	}
}

// reloadNow reads the configuration and makes it the running one: its keys at once, and then all of
// the rest or nothing.
func (e *Edge) reloadNow(q admin.ReloadRequest) *admin.ReloadResult {
	defer process.Boost()()
	tell := !q.DryRun && !e.draining.Load()
	if tell {
		listen.NotifyReloading()
	}
	r := &admin.ReloadResult{At: e.now(), Source: q.Source, DryRun: q.DryRun, Forced: q.Force}
	err := e.tryReload(q, r)
	for errors.Is(err, errSuperseded) && q.Source == sourceRequest { // whoever asked is told how the newest files fare
		r = &admin.ReloadResult{At: r.At, Source: q.Source, DryRun: q.DryRun, Forced: q.Force}
		err = e.tryReload(q, r)
	}
	if err != nil {
		r.Problems = append(r.Problems, err.Error())
	}
	r.OK = len(r.Problems) == 0
	r.KeysInForce = r.KeysInForce && !r.OK
	r.Version = e.current.Load().Version
	r.Seconds = e.now().Sub(r.At).Seconds()
	if !q.DryRun && !errors.Is(err, errSuperseded) { // the reload that took its place logs
		e.noteReload(r)
	}
	if tell {
		listen.NotifyReady(e.readyStatus())
	}
	return r
}

// noteReload keeps and logs how a reload ended. A reload for other addresses does not replace the
// result of a refused file.
func (e *Edge) noteReload(r *admin.ReloadResult) {
	if before := e.lastReload.Load(); r.Source != sourceAddresses || !r.OK || before == nil || before.OK {
		e.lastReload.Store(r)
	}
	e.logReload(r)
}

// tryReload reads and applies one configuration. A panic of it is an error of this reload.
func (e *Edge) tryReload(q admin.ReloadRequest, r *admin.ReloadResult) (err error) {
	defer e.guard.Catch(guard.Reload, func() {
		err = errors.New("a bug of the edge ended this reload half-way; its log has the stack. Reload again, or restart the edge")
	})
	e.guard.Point(guard.Reload)
	if q.Source == sourceAddresses {
		e.reloading.Lock()
		defer e.reloading.Unlock()
		old := e.current.Load()
		return e.apply(candidate{file: old.Config, keys: old.Credentials, force: true}, r)
	}
	next, err := e.readKeys(q, r)
	if err != nil || len(r.Problems) > 0 {
		return err
	}
	return e.reload(q, next, r)
}

// logReload counts and logs how a reload ended.
func (e *Edge) logReload(r *admin.ReloadResult) {
	source := zap.String("source", r.Source)
	switch {
	case !r.OK:
		counter, text := e.counters.reloadsBad, "configuration not reloaded, the running one stays"
		if r.KeysInForce {
			counter, text = e.counters.reloadsKeys, "configuration reloaded in part: keys are in force, models are not"
		}
		counter.Inc()
		for _, p := range r.Problems {
			e.log.Error(text, source, zap.String("problem", p))
		}
	case r.Unchanged:
		e.counters.reloadsSame.Inc()
		e.log.Info("configuration unchanged", source, zap.Uint64("version", r.Version), zap.Strings("needs_restart", r.Restart))
	default:
		e.counters.reloadsOK.Inc()
		e.log.Info("reloaded", source, zap.Uint64("version", r.Version), zap.Strings("changes", r.Changes),
			zap.Stringers("capacity", r.Capacity), zap.Strings("needs_restart", r.Restart), zap.Bool("forced", r.Forced))
	}
}

// fileRead is a valid file on its way into force.
type fileRead struct {
	*config.File
	keys    snapshot.Credentials
	over    *snapshot.Snapshot // what ran when the file was read
	changes []config.Change    // of it
}

// errSuperseded says that the files have changed again before the models of this one were looked
// at.
var errSuperseded = errors.New("the files have changed again meanwhile")

// readKeys is the first half of a reload. It reads the file and, if the file is valid, puts its
// keys into force, whatever becomes of the rest. It waits for the files alone, not for other
// reloads. If it returns no file, or adds a problem to r, nothing has changed.
func (e *Edge) readKeys(q admin.ReloadRequest, r *admin.ReloadResult) (*fileRead, error) {
	e.reading.Lock()
	defer e.reading.Unlock()
	if e.opts.Load == nil {
		return nil, errors.New("this edge was started without a configuration file")
	}
	next, problems := e.opts.load(q.Candidate)
	if next == nil {
		for _, p := range problems.Errors() {
			r.Problems = append(r.Problems, p.String())
		}
		return nil, nil
	}
	f := &fileRead{File: next, over: e.current.Load()}
	for _, c := range config.Diff(f.over.Config, next) {
		if c.RestartOnly {
			r.Restart = append(r.Restart, c.String())
		} else {
			f.changes = append(f.changes, c)
			r.KeysInForce = r.KeysInForce || c.OfKeys()
		}
	}
	next.KeepRestartOnly(f.over.Config)
	if exposed := next.CheckOpen(e.opts.addresses()).Err(); exposed != nil {
		r.KeysInForce = false
		return nil, exposed
	}
	var err error
	if f.keys, err = snapshot.NewCredentials(next, e.keys); err != nil {
		r.KeysInForce = false
		return nil, err
	}
	if q.DryRun {
		return f, nil
	}
	f.keys.FileNumber = e.filesRead.Add(1)
	if r.KeysInForce {
		e.swap(func(running *snapshot.Snapshot) *snapshot.Snapshot {
			ahead, bad := f.keys.AheadOf(running, next)
			if bad != nil { // NewCredentials has made the same ring
				err = bad
				return running
			}
			return running.WithCredentials(ahead, next)
		})
		e.endRevoked(next, f.keys)
	}
	r.KeysInForce = r.KeysInForce || e.current.Load().Ahead // of this file already, by an earlier look at it
	return f, err
}

// reload is the second half: models, upstreams and everything else. After an error, or with a
// problem in r, nothing of it has changed.
func (e *Edge) reload(q admin.ReloadRequest, f *fileRead, r *admin.ReloadResult) error {
	e.reloading.Lock()
	defer e.reloading.Unlock()
	old := e.current.Load()
	if !q.DryRun && f.keys.FileNumber < e.filesRead.Load() {
		return errSuperseded
	}
	if old.Version != f.over.Version { // another reload has ended meanwhile
		f.changes = slices.DeleteFunc(f.changes, func(c config.Change) bool { return !c.OfKeys() })
		for _, c := range config.Diff(old.Config, f.File) {
			if !c.RestartOnly && !c.OfKeys() {
				f.changes = append(f.changes, c)
			}
		}
	}
	for _, c := range f.changes {
		r.Changes = append(r.Changes, c.String())
	}
	if r.Unchanged = len(r.Changes) == 0 && old.Config.Same(f.File); r.Unchanged {
		return nil
	}
	c := candidate{file: f.File, keys: f.keys, force: q.Force, dryRun: q.DryRun, use: func() {}}
	if e.opts.Certificate != nil {
		var err error
		if c.use, err = e.opts.Certificate.Prepare(f.TLS.Cert, f.TLS.Key); err != nil {
			r.Problems = append(r.Problems, f.ProblemAt("tls.cert", err.Error()).String())
			return nil
		}
	}
	return e.apply(c, r)
}

// load reads the file in place, or the candidate for it.
func (o *Options) load(candidate []byte) (*config.File, config.Problems) {
	if candidate != nil && o.Parse != nil {
		return o.Parse(candidate)
	}
	return o.Load()
}

// candidate is a configuration that is to be the running one.
type candidate struct {
	file   *config.File
	keys   snapshot.Credentials
	use    func() // puts its certificate into use; nil: the one before stays
	force  bool   // also if models lose their capacity
	dryRun bool
}

// apply builds a snapshot of c whole and makes it the running one. After an error or a problem
// nothing has changed. What it does to calls that run: they end on the snapshot that they began
// with.
func (e *Edge) apply(c candidate, r *admin.ReloadResult) error {
	f, old := c.file, e.current.Load()
	plan, err := e.set.Plan(f.Upstreams, f.Models, f.Engines...)
	if err != nil {
		return err
	}
	next, err := snapshot.New(&snapshot.Source{File: f, Plan: plan, Credentials: c.keys, Running: old, Queues: e.queues, Started: e.started, Now: e.now()})
	if err != nil {
		return err
	}
	if old != nil {
		now := &capacitySide{file: old.Config, routes: old.Routes, limits: (*upstreams.Upstream).Limits}
		then := &capacitySide{file: f, routes: next.Routes, limits: plan.Limits, has: plan.Has}
		var lost []*routing.Route
		if !c.force {
			warm, cancel := context.WithTimeout(context.Background(), warmUp)
			defer cancel()
			lost = e.modelsLosingCapacity(warm, old, then, plan)
		}
		r.Capacity = compareCapacity(now, then, lost)
		for _, route := range lost {
			r.Problems = append(r.Problems, then.problem(route).String())
		}
	}
	if len(r.Problems) > 0 || c.dryRun {
		return nil
	}
	e.putInUse(c, plan, old, next)
	return nil
}

// putInUse cannot fail.
func (e *Edge) putInUse(c candidate, plan *upstreams.Plan, old, next *snapshot.Snapshot) {
	if c.use != nil {
		c.use()
		e.warnOfCertificate()
	}
	e.set.Commit(plan)
	if old != nil { // new routes wait for their upstreams' first probe
		e.watch.SetMax(e.connections(c.file))
		warm, cancel := context.WithTimeout(context.Background(), warmUp)
		e.set.WaitProbed(warm, plan)
		cancel()
	}
	e.queues.Apply(next.QueueConfigs())
	e.swap(func(running *snapshot.Snapshot) *snapshot.Snapshot {
		if running != nil && running.FileNumber > next.FileNumber { // of a file that was read meanwhile
			return next.WithCredentials(running.Credentials, running.Config)
		}
		return next
	})
	e.versions.add(next.ConfigVersion)
	e.services.Calls.Configured(modelNames(c.file), upstreamNames(c.file))
	e.services.Calls.LogAccess(c.file.Log.Access)
	e.set.Retire(plan)
	e.queues.OfferAll()
	e.services.Calls.SetLog(c.file.Log)
	e.services.Bodies.SetLimit(c.file.Limits.BodyMemory.Of(e.opts.MemoryLimit))
	e.services.Replies.SetLimit(c.file.Limits.ReplyMemory.Of(e.opts.MemoryLimit))
	if e.profiles != plan.Profiles() {
		e.profiles = plan.Profiles()
		e.services.Forget()
	}
}

// endRevoked ends the running calls of keys that are gone or switched off, or that began with a
// removed hash, if on_revoke is abort.
func (e *Edge) endRevoked(f *config.File, next snapshot.Credentials) {
	if f.OnRevoke != config.OnRevokeAbort {
		return
	}
	e.watch.EachWaiter(func(w listen.Waiter) {
		if c := w.(*Call); c.key != nil && !next.Keys.Holds(c.key, e.now()) {
			c.abort(errRevoked)
		}
	})
}

// swap makes the result of next the running snapshot. It calls next with the running snapshot, one
// goroutine at a time, so that keys which another reload has just put into force are not lost.
func (e *Edge) swap(next func(running *snapshot.Snapshot) *snapshot.Snapshot) {
	e.swapping.Lock()
	defer e.swapping.Unlock()
	e.current.Store(next(e.current.Load()))
}

// start makes the first configuration the running one.
func (e *Edge) start(f *config.File) error {
	keys, err := snapshot.NewCredentials(f, e.keys)
	if err != nil {
		return err
	}
	return e.apply(candidate{file: f, keys: keys}, new(admin.ReloadResult))
}

// LastReload returns how the last reload ended, or nil when there was none.
func (e *Edge) LastReload() *admin.ReloadResult { return e.lastReload.Load() }
