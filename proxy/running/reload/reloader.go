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
	Keys    *snapshot.Sources
	Queues  *queue.Queues
	Started time.Time

	// Load reads the configuration. It returns the file, or nil and the problems. If Load is nil,
	// the edge has no configuration file.
	Load func() (*config.File, config.Problems)
	// Parse parses a candidate in the same way as Load parses the edge's file. If Parse is nil,
	// Load is used instead.
	Parse func(src []byte, called string) (*config.File, config.Problems)
	// Public and Admin are the addresses of the listeners, which a reload cannot change. A reload
	// is refused if its file would make a listener accept requests from other machines without
	// keys.
	Public, Admin string
	Certificate   *listen.Certificate // nil: without TLS
	// AdminCertificate is the certificate of the admin listener; nil: without TLS.
	AdminCertificate *listen.Certificate

	// Draining reports whether the edge is draining. If it is, the service manager is not notified
	// of reloads.
	Draining func() bool
	// OnCommit is called after the upstreams and certificates of a file were applied and before its
	// models are applied. newCertificate is true if the certificates were read again.
	OnCommit func(f *config.File, newCertificate bool)
	// OnSwap is called after the snapshot of a file has become the running snapshot. newProfiles is
	// true if engine profiles have changed.
	OnSwap func(f *config.File, newProfiles bool)
	// OnRevoke is called if keys or hashes were removed and on_revoke is abort. It must cancel all
	// calls whose key is not in the ring.
	OnRevoke func(*auth.Ring)
	// OnKeys is called after keys from the fleet's store have changed.
	OnKeys func()
}

// Reloader manages the running configuration. Any goroutine may call its methods.
type Reloader struct {
	opts     Options
	current  atomic.Pointer[snapshot.Snapshot]
	versions versions
	triggers chan string // triggers of reloads that read the files; buffer size 1
	// addresses and models contain the triggers for SourceAddresses and SourceModels.
	addresses, models ofSet
	last              atomic.Pointer[Result]
	counters          counters
	// profiles of the running configuration; guarded by reloading
	profiles *engine.Profiles

	reading   sync.Mutex    // locked while a file is read and its keys are applied
	newest    *config.File  // the newest valid file; guarded by reading
	filesRead atomic.Uint64 // number of valid files, each of which differed from the previous one
	// reloading is locked while the other settings are checked and applied.
	reloading sync.Mutex
	swapping  sync.Mutex // locked while a snapshot is replaced
	shared    atomic.Pointer[snapshot.SharedKeys]
}

// ofSet contains the triggers of reloads that do not read a file. They apply the running file
// again, because upstreams have new addresses or models.
type ofSet struct {
	triggers chan string
	awaited  *atomic.Bool // whether a reload is waiting; it will see all changes made before it starts
}

func newOfSet() ofSet { return ofSet{make(chan string, 1), new(atomic.Bool)} }

// ofSetFor returns the ofSet of a source, or nil if its reloads read the files.
func ofSetFor(r *Reloader, source string) *ofSet {
	switch source {
	case SourceAddresses:
		return &r.addresses
	case SourceModels:
		return &r.models
	}
	return nil
}

type counters struct{ ok, refused, keysOnly, unchanged *metrics.Counter }

// New returns a Reloader without a configuration. Start applies the first configuration.
func New(o Options) *Reloader {
	count := func(result string) *metrics.Counter {
		return o.Metrics.NewCounter(`penstock_reloads_total{result="` + result + `"}`)
	}
	r := &Reloader{
		opts: o, triggers: make(chan string, 1), addresses: newOfSet(), models: newOfSet(),
		counters: counters{
			ok: count("ok"), refused: count("bad"), keysOnly: count("keys_only"),
			unchanged: count("unchanged"),
		},
	}
	r.shared.Store(new(snapshot.SharedKeys))
	return r
}

// Start applies the first configuration.
func (r *Reloader) Start(f *config.File) error {
	keys, err := snapshot.NewCredentials(f, r.shared.Load(), r.opts.Keys)
	if err != nil {
		return err
	}
	if err = r.apply(candidate{file: f, keys: keys}, new(Result)); err != nil || len(f.Discover) == 0 {
		return err
	}
	// This adds the models that the first probes have found.
	return r.reapply(Request{Source: SourceModels}, new(Result))
}

// Running returns the running configuration.
func (r *Reloader) Running() *snapshot.Snapshot { return r.current.Load() }

// Last returns the result of the last reload, or nil.
func (r *Reloader) Last() *Result { return r.last.Load() }

// Versions returns the older versions that still have calls, followed by the running version.
func (r *Reloader) Versions() []*snapshot.ConfigVersion { return r.versions.inUse() }

// Summary describes the running configuration in one line for the service manager.
func (r *Reloader) Summary() string {
	s := r.Running()
	return fmt.Sprintf("serving %d models from %d upstreams, configuration version %d", len(s.Config.Models),
		len(s.Config.Upstreams), s.Version)
}

// Reload reads and applies the configuration: first its keys, and then either all other settings or
// none.
func (r *Reloader) Reload(q Request) *Result {
	defer process.Boost()()
	notify := !q.DryRun && !r.opts.Draining()
	if notify {
		listen.NotifyReloading()
	}
	begun := time.Now()
	res, err := r.attempt(q, begun)
	for errors.Is(err, errSuperseded) && q.Source == SourceRequest { // the operator waits for the newest files
		res, err = r.attempt(q, begun)
	}
	if err != nil {
		res.Problems = append(res.Problems, err.Error())
	}
	res.OK = len(res.Problems) == 0
	res.KeysInForce = res.KeysInForce && !res.OK
	res.Version = r.Running().Version
	res.Seconds = time.Since(begun).Seconds()
	// If a newer reload has superseded this one, the newer reload writes the log.
	if !q.DryRun && !errors.Is(err, errSuperseded) {
		r.record(q, res)
	}
	if notify {
		listen.NotifyReady(r.Summary())
	}
	return res
}

func (r *Reloader) attempt(q Request, begun time.Time) (res *Result, err error) {
	res = &Result{At: begun, Source: q.Source, DryRun: q.DryRun, Forced: q.Force}
	defer r.opts.Guard.Catch(guard.Reload, func() {
		err = errors.New("a bug of the edge ended this reload half-way; its log has the stack. Reload again, or restart the edge")
	})
	r.opts.Guard.Point(guard.Reload)
	if ofSetFor(r, q.Source) != nil {
		return res, r.reapply(q, res)
	}
	next, err := r.readKeys(q, res)
	if err != nil || len(res.Problems) > 0 {
		return res, err
	}
	return res, r.judge(q, next, res)
}

// reapply applies the running file again, because upstreams have new addresses or models.
func (r *Reloader) reapply(q Request, res *Result) error {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	if q.onRead != nil {
		q.onRead()
	}
	old := r.Running()
	if q.Source == SourceModels {
		if res.Unchanged = config.SameDiscovered(old.Config, withListed(r, old.Config, old)); res.Unchanged {
			return nil
		}
	}
	return r.apply(candidate{
		file: old.Config, keys: old.Credentials, force: true, previous: r.versions.previous.Load(),
	}, res)
}

// swap replaces the running snapshot with the result of next. Only one goroutine runs it at a time,
// so that keys that another reload has just applied are not lost.
func (r *Reloader) swap(next func(running *snapshot.Snapshot) *snapshot.Snapshot) {
	r.swapping.Lock()
	defer r.swapping.Unlock()
	s := next(r.current.Load())
	// The shared keys may have changed since s was built.
	if shared := r.shared.Load(); s.SharedNumber != shared.Number {
		other, err := s.WithShared(shared, r.opts.Keys)
		if err != nil { // cannot happen, because each key was already checked
			panic("BUG: keys of the store that make no ring: " + err.Error())
		}
		s = other
	}
	r.current.Store(s)
	r.opts.Keys.Issued.Follow(config.IssuerURLs(s.Config))
}

// FileWarning is the log message for a warning about a configuration file. The field problem
// contains the warning.
const FileWarning = "the configuration file has a warning"

// record stores, counts and logs a result. If the last result is that a file was refused, it stays
// the last result after a successful reload for new addresses or models, and after a failed
// Request.Back.
func (r *Reloader) record(q Request, res *Result) {
	before := r.last.Load()
	if !(q.Back && !res.OK) && (ofSetFor(r, res.Source) == nil || !res.OK || before == nil || before.OK) {
		r.last.Store(res)
	}
	log, source := r.opts.Log, zap.String("source", res.Source)
	for _, p := range res.Warnings {
		log.Warn(FileWarning, source, zap.String("problem", p))
	}
	switch {
	case !res.OK:
		counter, text := r.counters.refused, "configuration not reloaded, the running one stays in force"
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
