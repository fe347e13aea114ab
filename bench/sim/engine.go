package sim

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/pages"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/scheduler"
	"penstock/bench/sim/textgen"
)

// defaultSlots is how many requests run at once when nobody says.
const defaultSlots = 16

// Options describes a simulated engine. The zero value is a vLLM look-alike with 16 slots that
// answers as fast as it can. Options are read once, by New.
type Options struct {
	// Listen is the TCP address, default "127.0.0.1:0" (any free port).
	Listen string
	// Models are the served names, default "sim", or those that the engine comes with (speaches,
	// kokoro). The first one is what engines that ignore the request's name answer with.
	Models []string
	// Profile is the engine to imitate: one of Profiles, default "vllm".
	Profile string
	// Slots is how many requests are worked on at once, default 16, or what the engine does by itself
	// (whisper: 1).
	Slots int
	// Queue is how many more may wait for a slot; the next one is refused with the profile's own
	// "full" answer. 0 or less: no bound. See NoQueue for none at all.
	Queue int
	// NoQueue refuses whatever finds no free slot.
	NoQueue bool
	// PrefillRate is how many prompt tokens a request reads each second; cached ones cost nothing. 0:
	// no time at all.
	PrefillRate float64
	// SharedPrefill makes PrefillRate that of the whole engine: prompts are read one after the other,
	// first come, first served.
	SharedPrefill bool
	// TokenRate is how many tokens a request that runs alone writes a second. 0: as fast as the socket
	// takes them.
	TokenRate float64
	// BatchCost is what each further running request adds to the time between two tokens of all of
	// them. 0: batches are free.
	BatchCost time.Duration
	// Jitter spreads the time between tokens evenly over ±Jitter of it, 0 to 1, the mean unchanged; it
	// follows from prompt and seeds.
	Jitter float64
	// Latency is a fixed time before the first token, on top of the prefill, with the slot held.
	Latency time.Duration
	// MaxModelLen is the context of one request in tokens, prompt and answer together; default 32768.
	MaxModelLen int
	// KVTokens, when above 0, is the room for prompts and answers of running requests: the first of
	// the queue waits for room even when a slot is free, and when answers outgrow it the request that
	// came last is preempted: back to the head of the queue, and everything read again.
	// kv_cache_usage_perc is relative to it. 0: slots are the only limit.
	KVTokens int
	// CacheTokens is the size of the prefix cache in tokens, default KVTokens, or where that is not
	// limited, a whole context for each slot; below 0 switches it off.
	CacheTokens int
	// APIKey, when set, is demanded as the profile's engine would demand it.
	APIKey string
	// Seed changes the texts. Same seed, prompt and request seed: same answer.
	Seed uint64
	// Reasoning overrides the profile's member for reasoning text: "reasoning" or "reasoning_content".
	Reasoning string
	// KeepAlive overrides how long an idle connection stays open; 0: the profile's own; below 0: for
	// ever.
	KeepAlive time.Duration
	// Ping is the time between comments in a silent stream; 0: the profile's own (only llamacpp has
	// one, 30 s); below 0: none.
	Ping time.Duration
	// CancelOnlyStreams is llama.cpp's flaw: a plain request whose client has left is still run to its
	// end, from the queue too.
	CancelOnlyStreams bool
	// StrictSystem refuses a system message anywhere but first, as many chat templates do.
	StrictSystem bool
	// AlternateRoles refuses turns of one role in a row, as the templates of Gemma and Mistral do.
	AlternateRoles bool
	// Efforts are the words of reasoning_effort that the model's template takes; empty: any. A template
	// that refuses one fails with a 400, and in the profile vllm with a 500, as up to 0.28.
	Efforts []string
	// Priorities has the queue ordered by the requests' priority, as vLLM's and SGLang's flags do.
	// Without it a vLLM refuses a priority other than 0, and the others read none.
	Priorities bool
	// Residents is how many models an engine that loads on demand keeps in memory: another one takes
	// the place of the one that was not asked for the longest, and cuts what works with it. 0: all.
	Residents int
	// Events happen by themselves, counted from Start.
	Events []Event
	// Record keeps the last 256 inference requests, headers and bodies, for Stats and Recorded.
	Record bool
}

// Profiles are the names that Options.Profile knows, sorted.
func Profiles() []string { return profile.Names() }

// Engine is one simulated engine. Its methods are safe for concurrent use.
type Engine struct {
	o   Options
	p   *profile.Profile
	err error // what New found wrong; told by Start

	slots    *scheduler.Slots
	cache    *scheduler.PrefixCache
	reader   scheduler.PrefillLine
	strain   slowdown
	faults   fault.Schedule
	counters counters
	record   recorder
	times    struct{ queue, ttft, e2e pages.Histogram }
	pages    *pages.Set
	started  time.Time
	ids      atomic.Uint64
	models   atomic.Pointer[[]string]
	adapters atomic.Pointer[[]string] // those of models that change the first one
	sick     atomic.Bool
	asleep   atomic.Bool
	loaded   scheduler.LoadedModels

	server *server
}

// counters are the engine's totals since it was made or reset.
type counters struct {
	requests, completed, aborted, rejected atomic.Int64
	generated, prompted, cached            atomic.Int64
	faults, probes, malformed, followed    atomic.Int64
	preempted, tests                       atomic.Int64
	steps                                  atomic.Int64 // of work: a token, or a chunk of a prompt
	iterations                             atomic.Int64 // tokens when trtllm's /metrics was last read
}

// Stats is a picture of the engine at one moment.
type Stats struct {
	Running      int      `json:"running"`                // requests that hold a slot
	Waiting      int      `json:"waiting"`                // requests in the queue
	Peak         int      `json:"peak"`                   // highest Running so far
	Conns        int      `json:"conns"`                  // open connections
	Accepted     int64    `json:"accepted"`               // connections accepted
	Requests     int64    `json:"requests"`               // inference requests read; probes are counted apart
	Tests        int64    `json:"tests"`                  // of Requests, those whose User-Agent says that they are a probe
	Completed    int64    `json:"completed"`              // answered with 200 to the last byte, without a fault that broke it
	Aborted      int64    `json:"aborted"`                // the client left before the end: queued, in prefill, or while tokens came
	Rejected     int64    `json:"rejected"`               // answered with an error status, by validation or by a fault
	Probes       int64    `json:"probes"`                 // every request that is not inference and not /sim/
	Faults       int64    `json:"faults"`                 // faults that were acted out
	Malformed    int64    `json:"malformed"`              // requests whose HTTP was refused: bad head, two lengths, bad chunk
	Followed     int64    `json:"followed"`               // redirects that a client followed to /sim/redirected; must stay 0
	Tokens       int64    `json:"tokens"`                 // tokens generated
	PromptTokens int64    `json:"prompt_tokens"`          // prompt tokens read, cached ones included
	CachedTokens int64    `json:"cached_tokens"`          // prompt tokens found in the prefix cache
	Loads        int64    `json:"loads"`                  // times that a model was loaded on demand
	Preempted    int64    `json:"preempted"`              // times that a running request lost its place to make room
	LastRequest  *Request `json:"last_request,omitempty"` // only with Options.Record; a copy, the caller's to keep
}

// defaults fills in what is not set; what the engine does by itself goes before what all do.
func (o Options) defaults() Options {
	o.Listen = cmp.Or(o.Listen, "127.0.0.1:0")
	o.Profile = cmp.Or(o.Profile, "vllm")
	if p := profile.ByName[o.Profile]; p != nil {
		o.Slots = cmp.Or(o.Slots, p.Slots)
		if len(o.Models) == 0 {
			o.Models = p.Models
		}
	}
	if len(o.Models) == 0 {
		o.Models = []string{"sim"}
	}
	o.Slots = cmp.Or(o.Slots, defaultSlots)
	o.MaxModelLen = cmp.Or(o.MaxModelLen, 32768)
	o.CacheTokens = cmp.Or(o.CacheTokens, o.KVTokens, o.Slots*o.MaxModelLen)
	return o
}

// New makes an engine that is not yet listening. Mistakes in o are reported by Start.
func New(o Options) *Engine {
	o = o.defaults()
	e := &Engine{o: o, started: time.Now(), server: newServer()}
	e.loaded.Bound(o.Residents)
	e.p = profile.ByName[o.Profile]
	switch {
	case e.p == nil:
		e.err = fmt.Errorf("unknown engine profile %q: want one of %s", o.Profile, strings.Join(Profiles(), ", "))
		e.p = profile.ByName["vllm"]
	case o.Slots < 0 || o.MaxModelLen < 0 || o.PrefillRate < 0 || o.TokenRate < 0 || o.Latency < 0 || o.KVTokens < 0 ||
		o.BatchCost < 0:
		e.err = errors.New("slots, rates, latency and lengths of a simulated engine cannot be below 0")
	case o.Jitter < 0 || o.Jitter > 1:
		e.err = errors.New("jitter of a simulated engine is 0 to 1")
	case o.Reasoning != "" && o.Reasoning != "reasoning" && o.Reasoning != "reasoning_content":
		e.err = fmt.Errorf("reasoning member %q: want reasoning or reasoning_content", o.Reasoning)
	}
	own := *e.p
	if o.Reasoning != "" {
		own.Reasoning = o.Reasoning
	}
	if o.KeepAlive != 0 {
		own.Idle = max(o.KeepAlive, 0)
	}
	if o.Ping != 0 {
		own.Ping = max(o.Ping, 0)
	}
	e.p, e.pages = &own, pages.Of(&own)
	queue := o.Queue
	switch {
	case o.NoQueue:
		queue = 0
	case queue <= 0:
		queue = -1
	}
	e.slots = scheduler.NewSlots(o.Slots, queue, o.KVTokens)
	e.cache = scheduler.NewPrefixCache(o.CacheTokens)
	e.faults.Seed(o.Seed)
	e.record.on = o.Record
	models := append([]string(nil), o.Models...)
	e.models.Store(&models)
	e.adapters.Store(new([]string))
	return e
}

// What pages and faulty answers carry that must never reach a client. Tests look for them.
const (
	LeakedHost   = profile.LeakedHost
	LeakedPath   = profile.LeakedPath
	LeakedSecret = profile.LeakedSecret
	ForgedText   = fault.ForgedText
)

// Fault is injected misbehaviour and when it happens.
type Fault = fault.Fault

// SetFault replaces the faults: each request is hit by the first one that applies to it. No fault,
// or one with an empty Spec, clears them. It panics on a Spec that fault.Parse refuses: that is a
// mistake in a test.
func (e *Engine) SetFault(faults ...Fault) {
	if err := e.faults.Load(faults...); err != nil {
		panic("sim: " + err.Error())
	}
}

// Start listens and serves in the background until Close.
func (e *Engine) Start() error {
	if e.err != nil {
		return e.err
	}
	if err := e.server.start(e.o.Listen, e.ServeConn); err != nil {
		return err
	}
	if len(e.o.Events) > 0 {
		e.server.wg.Go(e.events)
	}
	return nil
}

// ServeConn runs a connection in the background, until it ends or the engine is closed.
func (e *Engine) ServeConn(nc net.Conn) { e.server.serve(nc, newConn(e, nc)) }

// Unlisten closes the listener so that new connections are refused by the kernel; open ones go on.
func (e *Engine) Unlisten() { e.server.unlisten() }

// Relisten undoes Unlisten on the same address.
func (e *Engine) Relisten() error { return e.server.relisten() }

// Drop closes a share (0 to 1) of the open connections at once, whatever they are doing, as an
// engine does that restarts; with reset they get a RST, else a FIN. It returns how many.
func (e *Engine) Drop(share float64, reset bool) int { return e.server.drop(share, reset, nil) }

// Close stops listening, closes every connection and waits until nothing of the engine runs any
// more. It may be called twice.
func (e *Engine) Close() { e.server.close() }

// Addr is the address in host:port form; empty before Start.
func (e *Engine) Addr() string { return e.server.address() }

// URL is the base URL without a trailing slash and without /v1; empty before Start.
func (e *Engine) URL() string {
	a := e.Addr()
	if a == "" {
		return ""
	}
	return "http://" + a
}

// Stats is a picture of the engine now. Each number is exact; they are not taken at one instant.
func (e *Engine) Stats() Stats {
	running, waiting, peak := e.slots.Load()
	c := &e.counters
	return Stats{
		Running: running, Waiting: waiting, Peak: peak, Conns: e.server.open(),
		Accepted: e.server.accepted.Load(), Requests: c.requests.Load(), Tests: c.tests.Load(), Completed: c.completed.Load(), Aborted: c.aborted.Load(),
		Rejected: c.rejected.Load(), Probes: c.probes.Load(), Faults: c.faults.Load(), Malformed: c.malformed.Load(),
		Followed: c.followed.Load(), Preempted: c.preempted.Load(), Tokens: c.generated.Load(), PromptTokens: c.prompted.Load(), CachedTokens: c.cached.Load(),
		LastRequest: e.record.last(), Loads: e.loaded.Loads(),
	}
}

// SetHealthy decides what health answers: false is 503 from now on. With the llamacpp profile every
// path then answers 503 "Loading model", as that engine does; with the others inference goes on.
func (e *Engine) SetHealthy(ok bool) { e.sick.Store(!ok) }

// SetModels replaces the served names. Requests already accepted keep theirs.
func (e *Engine) SetModels(names ...string) {
	names = append([]string(nil), names...)
	e.models.Store(&names)
}

// setAdapter adds an adapter of the first model to what is served, or takes one away. It reports
// whether that is a change.
func setAdapter(e *Engine, name string, on bool) bool {
	names, adapters := *e.models.Load(), *e.adapters.Load()
	if on == slices.Contains(names, name) || !on && !slices.Contains(adapters, name) {
		return false
	}
	other := func(n string) bool { return n == name }
	names, adapters = slices.DeleteFunc(slices.Clone(names), other), slices.DeleteFunc(slices.Clone(adapters), other)
	if on {
		names, adapters = append(names, name), append(adapters, name)
	}
	e.adapters.Store(&adapters)
	e.models.Store(&names)
	return true
}

// SetSlots changes how many requests run at once. Running ones are not stopped.
func (e *Engine) SetSlots(n int) { e.slots.Resize(n) }

// Reset clears faults, sickness, slowness, the record, the prefix cache and every counter, as a
// restart would; running requests and the model list stay.
func (e *Engine) Reset() {
	_ = e.faults.Load()
	e.sick.Store(false)
	e.asleep.Store(false)
	e.strain.clear()
	e.record.clear()
	e.cache.Clear()
	e.loaded.Clear()
	e.counters.iterations.Store(0)
	e.slots.ClearPeak()
	c := &e.counters
	for _, n := range []*atomic.Int64{
		&c.requests, &c.completed, &c.aborted, &c.rejected, &c.generated, &c.prompted, &c.cached,
		&c.faults, &c.probes, &c.malformed, &c.followed, &e.server.accepted, &c.preempted, &c.tests, &c.steps,
	} {
		n.Store(0)
	}
}

// served is the name that an answer carries, and whether the engine has the asked model.
func (e *Engine) served(asked string) (string, bool) {
	names := *e.models.Load()
	first := ""
	for _, n := range names {
		if n == asked {
			return n, true
		}
		if e.p.Latest && (n == asked+":latest" || n+":latest" == asked) {
			return asked, true
		}
		if first == "" {
			first = n
		}
	}
	switch e.p.Unknown {
	case profile.UnknownEcho:
		return asked, true
	case profile.UnknownServed:
		return first, first != ""
	default:
		return "", false
	}
}

func (e *Engine) nextID() uint64 {
	return textgen.Mix(e.o.Seed+uint64(e.started.UnixNano()), e.ids.Add(1))
}
