package reload

import (
	"context"
	"slices"
	"time"

	"penstock/config"
	"penstock/proxy/access/auth/cert"
	"penstock/proxy/running/snapshot"
	"penstock/routing"
	"penstock/upstreams"
)

// probeWaitTime is how long a reload waits for the first probes of new upstreams. Otherwise, calls
// would be rejected for a short time after a reload that replaces all upstreams of a model.
const probeWaitTime = 2 * time.Second

// applySettings checks and applies everything except the keys. If it returns an error or adds a
// problem to res, nothing has been applied.
func (r *Reloader) applySettings(q Request, f *loadedConfig, res *Result) error {
	r.reloadMu.Lock()
	defer r.reloadMu.Unlock()
	old := r.RunningSnapshot()
	if !q.DryRun && f.keys.FileNumber < r.filesRead.Load() {
		return errSuperseded
	}
	if old.Version != f.runningSnapshot.Version { // another reload has ended since the file was read
		f.changes = slices.DeleteFunc(f.changes, func(c config.ChangedSetting) bool { return !c.IsAccessChange() })
		for _, c := range config.Diff(old.Config, f.File) {
			if !c.RestartOnly && !c.IsAccessChange() {
				f.changes = append(f.changes, c)
			}
		}
	}
	for _, c := range f.changes {
		res.Changes = append(res.Changes, c.String())
	}
	if res.Unchanged = len(res.Changes) == 0 && old.Config.Same(f.File); res.Unchanged {
		res.Since = old.Since
		return nil
	}
	c := configCandidate{file: f.File, keys: f.keys, force: q.Force, dryRun: q.DryRun}
	c.previous = r.versions.previous.Load()
	switch {
	case q.Back:
		c.previous = nil
	case slices.ContainsFunc(f.changes, func(c config.ChangedSetting) bool { return !c.IsAccessChange() }):
		c.previous = old.Config
	}
	if c.useCertificates, res.Problems = prepareCertificates(&r.opts, f.File); len(res.Problems) > 0 {
		return nil
	}
	return r.applyCandidate(c, res)
}

// prepareCertificates reads the certificates for a file. It returns either a function that applies
// the certificates, or problems.
func prepareCertificates(o *Options, f *config.File) (use func(), problems []string) {
	none := func() {}
	usePublic, useAdmin := none, none
	fail := func(path string, err error) { problems = append(problems, f.ProblemAt(path, err.Error()).String()) }
	if o.Certificate != nil {
		clients, err := cert.ReadAuthority(f.TLS.ClientCAs)
		if err == nil {
			usePublic, err = o.Certificate.PrepareLoad(f.TLS.Cert, f.TLS.Key, clients.Roots())
		}
		if err != nil {
			fail("tls.cert", err)
		}
	}
	if o.AdminCertificate != nil {
		var err error
		if useAdmin, err = o.AdminCertificate.PrepareLoad(f.Admin.TLS.Cert, f.Admin.TLS.Key, nil); err != nil {
			fail("admin.tls.cert", err)
		}
	}
	return func() { usePublic(); useAdmin() }, problems
}

type configCandidate struct {
	file            *config.File
	keys            snapshot.Credentials
	useCertificates func() // applies the file's certificates; nil if they do not change
	force           bool   // whether to apply the file even if a model loses its capacity
	dryRun          bool

	previous *config.File // file that Request.Back will restore
}

// applyCandidate builds a snapshot from c and makes it the running snapshot. If it returns an error
// or adds a problem to res, nothing has changed. Running calls continue to use their snapshot.
func (r *Reloader) applyCandidate(c configCandidate, res *Result) error {
	old := r.RunningSnapshot()
	f := withDiscoveredModels(r, c.file, old)
	c.file = f
	plan, err := r.opts.Set.PlanChanges(f.Upstreams, f.Models, f.Engines...)
	if err != nil {
		return err
	}
	next, err := snapshot.New(&snapshot.BuildInput{
		File: f, Plan: plan, Credentials: c.keys, Running: old,
		Queues: r.opts.Queues, Started: r.opts.Started, Now: time.Now(),
	})
	if err != nil {
		return err
	}
	if old != nil {
		now := &capacitySide{file: old.Config, routes: old.Routes, limits: (*upstreams.Upstream).Limits}
		then := &capacitySide{file: f, routes: next.Routes, limits: plan.PlannedLimits, isConfigured: plan.HasUpstream}
		var lost []*routing.Route
		if !c.force {
			warm, cancel := context.WithTimeout(context.Background(), probeWaitTime)
			defer cancel()
			lost = modelsLosingCapacity(warm, old, then, plan)
		}
		res.Capacity = compareCapacity(now, then, lost)
		for _, route := range lost {
			res.Problems = append(res.Problems, then.capacityProblem(route).String())
		}
	}
	if len(res.Problems) > 0 || c.dryRun {
		return nil
	}
	r.commitCandidate(c, plan, old, next)
	return nil
}

// withDiscoveredModels returns the file with discovered models added to it. If an upstream's
// engines have not listed any models yet, because they are down or have a new address, the upstream
// keeps its previous models.
func withDiscoveredModels(r *Reloader, f *config.File, old *snapshot.Snapshot) *config.File {
	if len(f.Discover) == 0 {
		return config.WithDiscoveredModels(f, nil)
	}
	listed := upstreams.PublishedModels(r.opts.Set)
	if old == nil {
		return config.WithDiscoveredModels(f, listed)
	}
	for name, models := range config.DiscoveredModelsByUpstream(old.Config) {
		if _, told := listed[name]; !told { // an empty list counts as a report
			listed[name] = models
		}
	}
	return config.WithDiscoveredModels(f, listed)
}

// commitCandidate applies a candidate. It cannot fail.
func (r *Reloader) commitCandidate(c configCandidate, plan *upstreams.ChangePlan, old, next *snapshot.Snapshot) {
	if c.useCertificates != nil {
		c.useCertificates()
	}
	r.opts.Set.Commit(plan)
	r.opts.OnCommit(c.file, c.useCertificates != nil)
	if old != nil || len(c.file.Discover) > 0 { // new routes wait for the first probes of their upstreams
		warm, cancel := context.WithTimeout(context.Background(), probeWaitTime)
		r.opts.Set.WaitFirstProbes(warm, plan)
		cancel()
	}
	r.opts.Queues.ApplyConfigs(next.QueueConfigs())
	r.swapSnapshot(func(running *snapshot.Snapshot) *snapshot.Snapshot {
		// A newer file has been read in the meantime.
		if running != nil && running.FileNumber > next.FileNumber {
			return next.WithCredentials(running.Credentials, running.Config)
		}
		return next
	})
	r.versions.previous.Store(c.previous)
	r.versions.add(next.ConfigVersion)
	newProfiles := r.profiles != plan.Profiles()
	r.profiles = plan.Profiles()
	r.opts.OnSwap(c.file, newProfiles)
	r.opts.Set.RetireOmitted(plan)
	r.opts.Queues.OfferAllSlots()
}
