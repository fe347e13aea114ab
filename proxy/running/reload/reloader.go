package reload

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/access/auth"
	"penstock/proxy/front/listen"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/process"
	"penstock/routing/queue"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// Options are the dependencies of a Reloader.
type Options struct {
	Log     *zap.Logger
	Guard   *guard.Guard
	Metrics *metrics.Set
	Set     *upstreams.Set
	Keys    *snapshot.ClientCredentialSources
	Queues  *queue.Queues
	Started time.Time

	// Load reads the configuration. It returns the file, or nil and the problems, and the files that
	// it names. If Load is nil, the edge has no configuration file.
	Load func() (f *config.File, problems config.Problems, named []string)
	// Parse parses a candidate in the same way as Load parses the configuration file. If Parse is
	// nil, Load is used instead.
	Parse func(src []byte, called string) (*config.File, config.Problems)
	// Public and Admin are the listen addresses, which a reload cannot change. A reload is rejected
	// if it would make a listener accept requests from other machines without keys.
	Public, Admin string
	Certificate   *listen.Certificate // nil if TLS is not used
	// AdminCertificate is the admin listener's certificate. It is nil if TLS is not used.
	AdminCertificate *listen.Certificate

	// Draining reports whether the edge is draining. During a drain, the service manager is not
	// notified of reloads.
	Draining func() bool
	// OnCommit is called after the upstreams and certificates of a file have been applied, but
	// before its models are applied. newCertificate is true if the certificates were read again.
	OnCommit func(f *config.File, newCertificate bool)
	// OnSwap is called after the snapshot for a file has become the running snapshot. newProfiles
	// is true if engine profiles changed.
	OnSwap func(f *config.File, newProfiles bool)
	// OnRevoke is called if keys or hashes have been removed and on_revoke is abort. It must cancel
	// all calls whose key is not in the given ring.
	OnRevoke func(*auth.KeyRing)
	// OnKeys is called after the keys from the fleet's store have changed.
	OnKeys func()
}

// Reloader manages the running configuration. Its methods may be called by multiple goroutines.
type Reloader struct {
	opts     Options
	current  atomic.Pointer[snapshot.Snapshot]
	versions configVersions
	triggers chan string // triggers for reloads that read the files; the buffer has a size of 1
	// addresses and models hold the triggers for SourceUpstreamAddresses and SourceUpstreamModels.
	addresses, models reapplyTriggers
	lastResult        atomic.Pointer[Result]
	// namedFiles are the files that the file read last names, even if it was rejected.
	namedFiles atomic.Pointer[[]string]
	counters   reloadCounters
	// profiles are the engine profiles of the running configuration. They are guarded by reloadMu.
	profiles *engine.Profiles

	readMu sync.Mutex   // locked while a file is read and its keys are applied
	newest *config.File // newest valid file; guarded by readMu
	// Number of valid files read; a file that equals the previous file is not counted.
	filesRead atomic.Uint64
	// reloadMu is locked while the other settings are checked and applied.
	reloadMu sync.Mutex
	swapMu   sync.Mutex // locked while the snapshot is replaced
	shared   atomic.Pointer[snapshot.StoreKeys]
}

// reapplyTriggers contains the triggers for reloads that do not read a file. These reloads apply
// the running file again, because upstreams have new addresses or models.
type reapplyTriggers struct {
	triggers chan string
	// Whether a reload is already waiting. It will apply all changes made before it starts.
	reloadPending *atomic.Bool
}

func newReapplyTriggers() reapplyTriggers {
	return reapplyTriggers{make(chan string, 1), new(atomic.Bool)}
}

// reapplyTriggersFor returns the reapplyTriggers for a source. If reloads for the source read the
// files, it returns nil.
func reapplyTriggersFor(r *Reloader, source string) *reapplyTriggers {
	switch source {
	case SourceUpstreamAddresses:
		return &r.addresses
	case SourceUpstreamModels:
		return &r.models
	}
	return nil
}

type reloadCounters struct{ ok, refused, keysOnly, unchanged *metrics.Counter }

// New returns a Reloader that has no configuration yet. Start applies the first configuration.
func New(o Options) *Reloader {
	count := func(result string) *metrics.Counter {
		return o.Metrics.NewCounter(`penstock_reloads_total{result="` + result + `"}`)
	}
	r := &Reloader{
		opts: o, triggers: make(chan string, 1), addresses: newReapplyTriggers(), models: newReapplyTriggers(),
		counters: reloadCounters{
			ok: count("ok"), refused: count("bad"), keysOnly: count("keys_only"),
			unchanged: count("unchanged"),
		},
	}
	r.shared.Store(new(snapshot.StoreKeys))
	return r
}

// Start applies the first configuration.
func (r *Reloader) Start(f *config.File) error {
	keys, err := snapshot.NewCredentials(f, r.shared.Load(), r.opts.Keys)
	if err != nil {
		return err
	}
	if err = r.applyCandidate(configCandidate{file: f, keys: keys}, new(Result)); err != nil || len(f.Discover) == 0 {
		return err
	}
	// This adds the models found by the first probes.
	return r.reapply(Request{Source: SourceUpstreamModels}, new(Result))
}

// RunningSnapshot returns the running configuration.
func (r *Reloader) RunningSnapshot() *snapshot.Snapshot { return r.current.Load() }

// LastResult returns the result of the last reload, or nil.
func (r *Reloader) LastResult() *Result { return r.lastResult.Load() }

// VersionsInUse returns the older versions that still have running calls, followed by the running
// version.
func (r *Reloader) VersionsInUse() []*snapshot.ConfigVersion { return r.versions.inUse() }

// ConfigSummary describes the running configuration to the service manager in one line.
func (r *Reloader) ConfigSummary() string {
	s := r.RunningSnapshot()
	return fmt.Sprintf("serving %d models from %d upstreams, configuration version %d", len(s.Config.Models),
		len(s.Config.Upstreams), s.Version)
}

// Reload reads and applies the configuration. It applies the keys first, and then either all other
// settings or none.
func (r *Reloader) Reload(q Request) *Result {
	defer process.BoostProcessors()()
	notify := !q.DryRun && !r.opts.Draining()
	if notify {
		listen.NotifyReloading()
	}
	begun := time.Now()
	res, err := r.runReload(q, begun)
	// The operator expects the result for the newest files.
	for errors.Is(err, errSuperseded) && q.Source == SourceRequest {
		res, err = r.runReload(q, begun)
	}
	if err != nil {
		res.Problems = append(res.Problems, err.Error())
	}
	res.OK = len(res.Problems) == 0
	res.KeysInForce = res.KeysInForce && !res.OK
	res.Version = r.RunningSnapshot().Version
	res.Seconds = time.Since(begun).Seconds()
	// If a newer reload has superseded this one, the newer reload writes the log entry.
	if !q.DryRun && !errors.Is(err, errSuperseded) {
		r.recordResult(q, res)
	}
	if notify {
		listen.NotifyReady(r.ConfigSummary())
	}
	return res
}

func (r *Reloader) runReload(q Request, begun time.Time) (res *Result, err error) {
	res = &Result{At: begun, Source: q.Source, DryRun: q.DryRun, Forced: q.Force}
	defer r.opts.Guard.Catch(guard.PlaceReload, func() {
		err = errors.New("a bug of the edge ended this reload half-way; its log has the stack. Reload again, or restart the edge")
	})
	r.opts.Guard.PanicIfInjected(guard.PlaceReload)
	if reapplyTriggersFor(r, q.Source) != nil {
		return res, r.reapply(q, res)
	}
	next, err := r.loadFileAndApplyKeys(q, res)
	if err != nil || len(res.Problems) > 0 {
		return res, err
	}
	return res, r.applySettings(q, next, res)
}

// reapply applies the running file again, because upstreams have new addresses or models.
func (r *Reloader) reapply(q Request, res *Result) error {
	r.reloadMu.Lock()
	defer r.reloadMu.Unlock()
	if q.onRead != nil {
		q.onRead()
	}
	old := r.RunningSnapshot()
	if q.Source == SourceUpstreamModels {
		if res.Unchanged = config.HaveSameDiscoveredModels(old.Config, withDiscoveredModels(r, old.Config, old)); res.Unchanged {
			return nil
		}
	}
	return r.applyCandidate(configCandidate{
		file: old.Config, keys: old.Credentials, force: true, previous: r.versions.previous.Load(),
	}, res)
}

// swapSnapshot replaces the running snapshot with the result of next. Only one goroutine runs it at
// a time, so that keys just applied by another reload are not lost.
func (r *Reloader) swapSnapshot(next func(running *snapshot.Snapshot) *snapshot.Snapshot) {
	r.swapMu.Lock()
	defer r.swapMu.Unlock()
	s := next(r.current.Load())
	// The shared keys may have changed since s was built.
	if shared := r.shared.Load(); s.SharedNumber != shared.Number {
		other, err := s.WithSharedKeys(shared, r.opts.Keys)
		if err != nil { // cannot happen, because each key has already been checked
			panic("BUG: keys of the store that make no ring: " + err.Error())
		}
		s = other
	}
	r.current.Store(s)
	r.opts.Keys.Issued.FollowURLs(config.IssuerKeySetURLs(s.Config))
}

// ConfigWarningMessage is the log message for a warning about the configuration file. The field problem
// contains the warning.
const ConfigWarningMessage = "the configuration file has a warning"

// recordResult stores, counts and logs a result. If the last result is a rejected file, a
// successful reload for new addresses or models does not replace it as the last result. A failed
// Request.Back does not replace any result.
func (r *Reloader) recordResult(q Request, res *Result) {
	before := r.lastResult.Load()
	if !(q.Back && !res.OK) && (reapplyTriggersFor(r, res.Source) == nil || !res.OK || before == nil || before.OK) {
		r.lastResult.Store(res)
	}
	log, source := r.opts.Log, zap.String("source", res.Source)
	// The warnings of an unchanged file have already been logged, for example by an operator's
	// reload shortly before the watcher read the same file.
	if !res.Unchanged {
		for _, p := range res.Warnings {
			log.Warn(ConfigWarningMessage, source, zap.String("problem", p))
		}
	}
	switch {
	case !res.OK:
		counter, text := r.counters.refused, "configuration not reloaded, the running one stays in force, keys included"
		if res.KeysInForce {
			counter, text = r.counters.keysOnly, "configuration reloaded in part: keys are in force, models are not"
		}
		counter.Inc()
		for _, p := range res.Problems {
			log.Error(text, source, zap.String("problem", p))
		}
	case res.Unchanged:
		r.counters.unchanged.Inc()
		log.Info("configuration unchanged", source, zap.Uint64("version", res.Version),
			zap.Strings("needs_restart", res.Restart))
	default:
		r.counters.ok.Inc()
		log.Info("reloaded", source, zap.Uint64("version", res.Version), zap.Strings("changes", res.Changes),
			zap.Stringers("capacity", res.Capacity), zap.Strings("needs_restart", res.Restart), zap.Bool("forced",
				res.Forced))
	}
}
