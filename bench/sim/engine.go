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

const defaultSlots = 16

// Options describes a simulated engine. The zero value describes a vLLM with 16 slots that responds
// as fast as possible. Only New reads the options.
type Options struct {
	// Listen is a TCP address or unix:/PATH. The default is "127.0.0.1:0", any free port.
	Listen string
	// Models are the served names. The default is "sim" or, for engines that include models
	// (speaches, kokoro), the names of those models. If the engine ignores the model name in a
	// request, its responses contain the first name in Models.
	Models []string
	// Profile is the engine to imitate, one of Profiles. The default is "vllm".
	Profile string
	// Slots is the number of requests that run concurrently. The default is that of the real engine
	// (whisper: 1) or, if it has none, 16.
	Slots int
	// Queue is the maximum number of requests waiting for a slot. The engine refuses additional
	// requests with its profile's error for a full queue. 0 or less means no limit. NoQueue
	// disables the queue.
	Queue int
	// NoQueue refuses requests if no slot is free.
	NoQueue bool
	// PrefillRate is the number of prompt tokens that the engine reads per second, for each
	// request. Cached tokens take no time. 0 means that prompts take no time.
	PrefillRate float64
	// SharedPrefill makes PrefillRate the rate of the whole engine. Prompts are then read one after
	// another in order of arrival.
	SharedPrefill bool
	// TokenRate is how many tokens per second a request generates if no other request is running. 0
	// means that tokens are generated as fast as the socket accepts them.
	TokenRate float64
	// BatchCost is added to the time between two tokens of every request for each additional
	// running request. 0 means that batching costs nothing.
	BatchCost time.Duration
	// Jitter (0 to 1) varies the time between tokens uniformly by up to this fraction, without
	// changing the mean. The variation depends only on the prompt and the seeds.
	Jitter float64
	// Latency is a fixed time before the first token, in addition to the prefill. The request
	// occupies its slot during this time.
	Latency time.Duration
	// MaxModelLen is the context length in tokens: the limit for the sum of prompt and response.
	// The default is 32768.
	MaxModelLen int
	// KVTokens, if above 0, limits the total number of prompt and response tokens of the running
	// requests. The first request in the queue waits for room even if a slot is free. When
	// responses outgrow the room, the youngest request is preempted. It returns to the head of the
	// queue and must read its prompt again. kv_cache_usage_perc is relative to KVTokens. If
	// KVTokens is 0, only the slots limit the running requests.
	KVTokens int
	// CacheTokens is the size of the prefix cache in tokens. The default is KVTokens or, if
	// KVTokens is 0, enough for a whole context in each slot. A negative value disables the cache.
	CacheTokens int
	// APIKey, if set, is required on the paths on which the real engine requires a key.
	APIKey string
	// Seed changes the generated texts. The same seed, prompt and request seed give the same
	// response.
	Seed uint64
	// Reasoning overrides the name of the member for reasoning text: "reasoning" or
	// "reasoning_content".
	Reasoning string
	// KeepAlive overrides the time after which an idle connection is closed. 0 means the profile's
	// time, and a negative value means never.
	KeepAlive time.Duration
	// Ping is the time between comments in a silent stream. 0 means the profile's interval (30 s
	// for llamacpp, none for other profiles), and a negative value disables the comments.
	Ping time.Duration
	// CancelOnlyStreams imitates a flaw in llama.cpp. An unstreamed request still completes if its
	// client leaves, even while the request is in the queue.
	CancelOnlyStreams bool
	// StrictSystem refuses a system message that is not the first message, as many chat templates do.
	StrictSystem bool
	// AlternateRoles refuses consecutive messages of the same role, as the templates of Gemma and
	// Mistral do.
	AlternateRoles bool
	// Efforts are the reasoning_effort values that the model's template accepts. If Efforts is
	// empty, the template accepts any value. Other values are refused with a 400 or, in the profile
	// vllm, with a 500, as in versions up to 0.28.
	Efforts []string
	// Priorities orders the queue by the priorities of the requests, as the corresponding flags of
	// vLLM and SGLang do. If Priorities is false, vLLM refuses a priority other than 0, and other
	// engines ignore priorities.
	Priorities bool
	// Residents is the number of models that an on-demand engine can have loaded at a time. 0 means
	// no limit. When another model must be loaded beyond this limit, the least recently requested
	// model is unloaded and its requests are aborted.
	Residents int
	// Events are performed at set times after Start.
	Events []Event
	// Record stores the last 256 inference requests, with headers and bodies, for Stats and
	// Recorded.
	Record bool
}

// Profiles returns the valid names for Options.Profile, sorted.
func Profiles() []string { return profile.Names() }

// Engine is a simulated engine. Its methods are safe for concurrent use.
type Engine struct {
	o   Options
	p   *profile.Profile
	err error // error found by New; Start returns it

	slots       *scheduler.Slots
	cache       *scheduler.PrefixCache
	prefillLine scheduler.PrefillQueue
	slowdown    slowdown
	faults      fault.Schedule
	counters    engineCounters
	record      requestRecorder
	times       struct{ queue, ttft, e2e pages.Histogram }
	pages       *pages.Set
	started     time.Time
	ids         atomic.Uint64
	models      atomic.Pointer[[]string]
	adapters    atomic.Pointer[[]string] // served names that are adapters of the first model
	unhealthy   atomic.Bool
	asleep      atomic.Bool
	loaded      scheduler.LoadedModels

	server *server
}

// engineCounters contains counts since the engine was created or reset.
type engineCounters struct {
	requests, completed, aborted, rejected       atomic.Int64
	generated, prompted, cached                  atomic.Int64
	faults, probes, malformed, followedRedirects atomic.Int64
	preempted, probeRequests                     atomic.Int64
	steps                                        atomic.Int64 // each step is a token or a chunk of a prompt
	// number of generated tokens when TensorRT-LLM's /metrics was last read
	iterations atomic.Int64
}

// Stats describes the engine at one moment.
type Stats struct {
	Running  int   `json:"running"`  // requests that occupy a slot
	Waiting  int   `json:"waiting"`  // requests in the queue
	Peak     int   `json:"peak"`     // highest Running so far
	Conns    int   `json:"conns"`    // open connections
	Accepted int64 `json:"accepted"` // accepted connections
	Requests int64 `json:"requests"` // inference requests received, not counting probes
	// requests whose User-Agent identifies them as probes; included in Requests
	Tests        int64 `json:"tests"`
	Completed    int64 `json:"completed"`     // requests with a complete 200 response that no fault broke
	Aborted      int64 `json:"aborted"`       // requests whose client left before the end of the response
	Rejected     int64 `json:"rejected"`      // requests to which validation or a fault sent an error status
	Probes       int64 `json:"probes"`        // requests that are neither inference nor /sim/
	Faults       int64 `json:"faults"`        // injected faults
	Malformed    int64 `json:"malformed"`     // requests with invalid HTTP: bad head, two lengths, bad chunk
	Followed     int64 `json:"followed"`      // followed redirects to /sim/redirected; must remain 0
	Tokens       int64 `json:"tokens"`        // generated tokens
	PromptTokens int64 `json:"prompt_tokens"` // prompt tokens, including cached ones
	CachedTokens int64 `json:"cached_tokens"` // prompt tokens found in the prefix cache
	Loads        int64 `json:"loads"`         // number of on-demand model loads
	Preempted    int64 `json:"preempted"`     // number of times that a running request was preempted
	// set only if Options.Record is true; a copy that the caller may retain
	LastRequest *Request `json:"last_request,omitempty"`
}

// withDefaults fills in options that are not set. The defaults of the engine's profile take
// precedence over general defaults.
func (o Options) withDefaults() Options {
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

// New creates an engine that does not listen yet. If o contains errors, Start reports them.
func New(o Options) *Engine {
	o = o.withDefaults()
	e := &Engine{o: o, started: time.Now(), server: newServer()}
	e.loaded.SetLimit(o.Residents)
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
	e.p, e.pages = &own, pages.New(&own)
	queue := o.Queue
	switch {
	case o.NoQueue:
		queue = 0
	case queue <= 0:
		queue = -1
	}
	e.slots = scheduler.NewSlots(o.Slots, queue, o.KVTokens)
	e.cache = scheduler.NewPrefixCache(o.CacheTokens)
	e.faults.SetSeed(o.Seed)
	e.record.on = o.Record
	models := append([]string(nil), o.Models...)
	e.models.Store(&models)
	e.adapters.Store(new([]string))
	return e
}

// Texts in pages and faulty responses that must never reach a client. Tests look for them.
const (
	LeakedHost   = profile.LeakedHost
	LeakedPath   = profile.LeakedPath
	LeakedSecret = profile.LeakedSecret
	ForgedText   = fault.ForgedText
)

// Fault is an injected fault and its schedule.
type Fault = fault.Fault

// SetFault replaces the faults. If more than one fault applies to a request, only the first is
// injected. If there are no arguments or all Specs are empty, SetFault removes all faults. It
// panics if fault.Parse rejects a Spec, because this is a mistake in the test.
func (e *Engine) SetFault(faults ...Fault) {
	if err := e.faults.SetFaults(faults...); err != nil {
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
		e.server.wg.Go(e.runEvents)
	}
	return nil
}

// ServeConn serves a connection in the background, until the connection ends or the engine is
// closed.
func (e *Engine) ServeConn(nc net.Conn) { e.server.serve(nc, newConn(e, nc)) }

// Unlisten closes the listener, so the kernel refuses new connections. Open connections continue.
func (e *Engine) Unlisten() { e.server.unlisten() }

// Relisten listens again on the same address after Unlisten.
func (e *Engine) Relisten() error { return e.server.relisten() }

// DropConns immediately closes a share (0 to 1) of the open connections, regardless of their state,
// as an engine does when it restarts. It sends RST if reset is true, and FIN otherwise. It returns
// the number of closed connections.
func (e *Engine) DropConns(share float64, reset bool) int {
	return e.server.dropConns(share, reset, nil)
}

// Close stops listening, closes every connection and waits until all goroutines of the engine have
// exited. It may be called twice.
func (e *Engine) Close() { e.server.close() }

// Addr returns the address as host:port, or "" before Start.
func (e *Engine) Addr() string { return e.server.address() }

// URL returns the base URL without a trailing slash and without /v1, or "" before Start.
func (e *Engine) URL() string {
	a := e.Addr()
	if a == "" || strings.HasPrefix(a, unixPrefix) {
		return a
	}
	return "http://" + a
}

// Stats returns the engine's current state. Each number is exact, but the numbers are not all read
// at the same time.
func (e *Engine) Stats() Stats {
	running, waiting, peak := e.slots.RequestCounts()
	c := &e.counters
	return Stats{
		Running: running, Waiting: waiting, Peak: peak, Conns: e.server.openCount(),
		Accepted: e.server.accepted.Load(), Requests: c.requests.Load(), Tests: c.probeRequests.Load(), Completed: c.completed.Load(), Aborted: c.aborted.Load(),
		Rejected: c.rejected.Load(), Probes: c.probes.Load(), Faults: c.faults.Load(), Malformed: c.malformed.Load(),
		Followed: c.followedRedirects.Load(), Preempted: c.preempted.Load(), Tokens: c.generated.Load(), PromptTokens: c.prompted.Load(), CachedTokens: c.cached.Load(),
		LastRequest: e.record.last(), Loads: e.loaded.LoadCount(),
	}
}

// SetHealthy makes the health page answer 200 or, if ok is false, 503. An unhealthy llamacpp engine
// answers 503 "Loading model" on every path, like the real engine. In all other profiles, inference
// continues.
func (e *Engine) SetHealthy(ok bool) { e.unhealthy.Store(!ok) }

// SetModels replaces the served names. Requests that have already been accepted continue to use the
// old names.
func (e *Engine) SetModels(names ...string) {
	names = append([]string(nil), names...)
	e.models.Store(&names)
}

// setAdapter adds or removes an adapter of the first model. It reports whether the served names
// changed.
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

// SetSlots changes how many requests may run concurrently. It does not stop running requests.
func (e *Engine) SetSlots(n int) { e.slots.Resize(n) }

// Reset restores health and full speed. Like a restart, it also clears the faults, the record, the
// prefix cache and all counters. Running requests and the model list are unchanged.
func (e *Engine) Reset() {
	_ = e.faults.SetFaults()
	e.unhealthy.Store(false)
	e.asleep.Store(false)
	e.slowdown.clear()
	e.record.clear()
	e.cache.Clear()
	e.loaded.Clear()
	e.counters.iterations.Store(0)
	e.slots.ClearPeak()
	c := &e.counters
	for _, n := range []*atomic.Int64{
		&c.requests, &c.completed, &c.aborted, &c.rejected, &c.generated, &c.prompted, &c.cached,
		&c.faults, &c.probes, &c.malformed, &c.followedRedirects, &e.server.accepted, &c.preempted, &c.probeRequests, &c.steps,
	} {
		n.Store(0)
	}
}

// resolveModel returns the model name for the response, and reports whether the engine serves the
// requested model.
func (e *Engine) resolveModel(asked string) (string, bool) {
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
	case profile.UnknownModelEchoed:
		return asked, true
	case profile.UnknownModelServed:
		return first, first != ""
	default:
		return "", false
	}
}

func (e *Engine) nextID() uint64 {
	return textgen.MixHash(e.o.Seed+uint64(e.started.UnixNano()), e.ids.Add(1))
}
