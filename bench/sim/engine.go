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

// defaultSlots is the default number of requests that run at once.
const defaultSlots = 16

// Options describes a simulated engine. The zero value is a vLLM look-alike with 16 slots that
// answers as fast as it can. Options are read once, by New.
type Options struct {
	// Listen is the TCP address, default "127.0.0.1:0" (any free port), or unix:/PATH.
	Listen string
	// Models are the served names. The default is "sim", or the names that the engine comes with
	// (speaches, kokoro). Engines that ignore the request's name answer with the first one.
	Models []string
	// Profile is the engine to imitate: one of Profiles, default "vllm".
	Profile string
	// Slots is the number of requests that are processed at once, default 16, or the engine's own
	// default (whisper: 1).
	Slots int
	// Queue is the number of further requests that may wait for a slot. The next one is refused
	// with the profile's own "full" answer. 0 or less: no limit. See NoQueue for no queue at all.
	Queue int
	// NoQueue refuses requests that find no free slot.
	NoQueue bool
	// PrefillRate is the number of prompt tokens that a request reads per second. Cached tokens
	// take no time. 0: no prompt takes any time.
	PrefillRate float64
	// SharedPrefill makes PrefillRate the rate of the whole engine: prompts are read one after
	// another, first come, first served.
	SharedPrefill bool
	// TokenRate is the number of tokens per second that a request writes when it runs alone. 0: as
	// fast as the socket accepts them.
	TokenRate float64
	// BatchCost is the time that each further running request adds to the time between two tokens
	// of every request. 0: batches are free.
	BatchCost time.Duration
	// Jitter (0 to 1) varies the time between tokens uniformly by up to ±Jitter of that time,
	// without changing the mean. The variation depends only on prompt and seeds.
	Jitter float64
	// Latency is a fixed time before the first token, in addition to the prefill. The slot is held
	// meanwhile.
	Latency time.Duration
	// MaxModelLen is the context of one request in tokens, prompt and answer together; default 32768.
	MaxModelLen int
	// KVTokens, if above 0, is the room for prompts and answers of running requests. The first request
	// of the queue waits for room even if a slot is free. When answers outgrow the room, the youngest
	// request is preempted: it returns to the head of the queue and must read everything again.
	// kv_cache_usage_perc is relative to KVTokens. 0: slots are the only limit.
	KVTokens int
	// CacheTokens is the size of the prefix cache in tokens. The default is KVTokens or, if that is
	// not limited, a whole context for each slot; a negative value disables the cache.
	CacheTokens int
	// APIKey, if set, is required for the same paths as on the profile's engine.
	APIKey string
	// Seed changes the texts. The same seed, prompt and request seed give the same answer.
	Seed uint64
	// Reasoning overrides the profile's member for reasoning text: "reasoning" or "reasoning_content".
	Reasoning string
	// KeepAlive overrides the time for which an idle connection stays open; 0: the profile's own;
	// negative: forever.
	KeepAlive time.Duration
	// Ping is the time between comments in a silent stream; 0: the profile's own (only llamacpp has
	// one, 30 s); negative: none.
	Ping time.Duration
	// CancelOnlyStreams imitates a flaw of llama.cpp: an unstreamed request whose client has left
	// still completes, even if it was still in the queue.
	CancelOnlyStreams bool
	// StrictSystem refuses a system message that is not the first message, like many chat
	// templates.
	StrictSystem bool
	// AlternateRoles refuses consecutive turns of one role, as the templates of Gemma and Mistral
	// do.
	AlternateRoles bool
	// Efforts are the reasoning_effort values that the model's template accepts; empty: any. The
	// template answers another value with a 400, or in the profile vllm with a 500, as versions up to
	// 0.28 did.
	Efforts []string
	// Priorities orders the queue by the requests' priority, as flags of vLLM and SGLang do. Without
	// Priorities, vLLM refuses a priority other than 0, and the other engines ignore it.
	Priorities bool
	// Residents is the number of models that an engine that loads on demand keeps in memory.
	// Another model replaces the least recently requested model, and the requests that use that
	// model are aborted. 0: all.
	Residents int
	// Events happen without a request, at times counted from Start.
	Events []Event
	// Record keeps the last 256 inference requests, headers and bodies, for Stats and Recorded.
	Record bool
}

// Profiles returns the valid names for Options.Profile, sorted.
func Profiles() []string { return profile.Names() }

// Engine is one simulated engine. Its methods are safe for concurrent use.
type Engine struct {
	o   Options
	p   *profile.Profile
	err error // error found by New; reported by Start

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
	adapters atomic.Pointer[[]string] // served names that are adapters of the first model
	sick     atomic.Bool
	asleep   atomic.Bool
	loaded   scheduler.LoadedModels

	server *server
}

// counters are the engine's totals since it was created or reset.
type counters struct {
	requests, completed, aborted, rejected atomic.Int64
	generated, prompted, cached            atomic.Int64
	faults, probes, malformed, followed    atomic.Int64
	preempted, tests                       atomic.Int64
	steps                                  atomic.Int64 // each a token, or a chunk of a prompt
	iterations                             atomic.Int64 // tokens at the last read of trtllm's /metrics
}

// Stats describes the engine at one moment.
type Stats struct {
	Running      int      `json:"running"`                // requests that hold a slot
	Waiting      int      `json:"waiting"`                // requests in the queue
	Peak         int      `json:"peak"`                   // highest Running so far
	Conns        int      `json:"conns"`                  // open connections
	Accepted     int64    `json:"accepted"`               // connections accepted
	Requests     int64    `json:"requests"`               // inference requests read; probes are counted separately
	Tests        int64    `json:"tests"`                  // of Requests, those whose User-Agent marks them as probes
	Completed    int64    `json:"completed"`              // answered with 200 to the last byte, and not broken by a fault
	Aborted      int64    `json:"aborted"`                // the client left before the end of its answer
	Rejected     int64    `json:"rejected"`               // answered with an error status, by validation or by a fault
	Probes       int64    `json:"probes"`                 // every request that is not inference and not /sim/
	Faults       int64    `json:"faults"`                 // faults that were performed
	Malformed    int64    `json:"malformed"`              // requests whose HTTP was refused: bad head, two lengths, bad chunk
	Followed     int64    `json:"followed"`               // redirects that a client followed to /sim/redirected; must stay 0
	Tokens       int64    `json:"tokens"`                 // tokens generated
	PromptTokens int64    `json:"prompt_tokens"`          // prompt tokens read, cached ones included
	CachedTokens int64    `json:"cached_tokens"`          // prompt tokens found in the prefix cache
	Loads        int64    `json:"loads"`                  // times that a model was loaded on demand
	Preempted    int64    `json:"preempted"`              // times that a running request was preempted to make room
	LastRequest  *Request `json:"last_request,omitempty"` // only with Options.Record; a copy that the caller may keep
}

// defaults fills in unset options; the engine's own defaults take precedence over the general ones.
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

// New creates an engine that does not listen yet. Errors in o are reported by Start.
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

// These texts in pages and faulty answers must never reach a client. Tests look for them.
const (
	LeakedHost   = profile.LeakedHost
	LeakedPath   = profile.LeakedPath
	LeakedSecret = profile.LeakedSecret
	ForgedText   = fault.ForgedText
)

// Fault is an injected fault with its schedule.
type Fault = fault.Fault

// SetFault replaces the faults. If several faults apply to a request, only the first one is
// performed. Without arguments, or with an empty Spec, it clears them. It panics on a Spec that
// fault.Parse refuses, which is a mistake in a test.
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

// ServeConn serves a connection in the background, until it ends or the engine is closed.
func (e *Engine) ServeConn(nc net.Conn) { e.server.serve(nc, newConn(e, nc)) }

// Unlisten closes the listener, so that the kernel refuses new connections; open ones continue.
func (e *Engine) Unlisten() { e.server.unlisten() }

// Relisten undoes Unlisten on the same address.
func (e *Engine) Relisten() error { return e.server.relisten() }

// Drop closes a share (0 to 1) of the open connections at once, whatever they are doing, like an
// engine that restarts. With reset they get a RST, otherwise a FIN. Drop returns the number of
// closed connections.
func (e *Engine) Drop(share float64, reset bool) int { return e.server.drop(share, reset, nil) }

// Close stops listening, closes every connection and waits until all of the engine's goroutines
// have ended. It may be called twice.
func (e *Engine) Close() { e.server.close() }

// Addr returns the address in host:port form; empty before Start.
func (e *Engine) Addr() string { return e.server.address() }

// URL returns the base URL without a trailing slash and without /v1; empty before Start.
func (e *Engine) URL() string {
	a := e.Addr()
	if a == "" || strings.HasPrefix(a, unixPrefix) {
		return a
	}
	return "http://" + a
}

// Stats describes the engine's present state. Each number is exact, but they are not read at one
// instant.
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

// SetHealthy sets the answer of the health page: with false it answers 503 from then on. With the
// llamacpp profile every path then answers 503 "Loading model", like that engine. With other
// profiles inference continues.
func (e *Engine) SetHealthy(ok bool) { e.sick.Store(!ok) }

// SetModels replaces the served names. Requests that were already accepted keep their names.
func (e *Engine) SetModels(names ...string) {
	names = append([]string(nil), names...)
	e.models.Store(&names)
}

// setAdapter adds an adapter of the first model to the served names, or removes one. It reports
// whether anything changed.
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

// SetSlots changes the number of requests that run at once. Running requests are not stopped.
func (e *Engine) SetSlots(n int) { e.slots.Resize(n) }

// Reset clears faults, sickness, slowness, the record, the prefix cache and every counter, as a
// restart would. Running requests and the model list stay.
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

// served returns the name for an answer, and whether the engine has the requested model.
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
