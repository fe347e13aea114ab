// Package upstreams is the live side of the inference engines behind the edge: which there are,
// whether they work, how busy they are, and the only way to reach one. Facts come from here; what
// to do about them is decided in routing (which upstream gets a call) and in proxy (what status a
// failure becomes).
//
// # The life of an upstream
//
//	added → pending → up ⇄ down, up ⇄ stalled, up ⇄ busy → down → retiring → gone
//
// Set.Plan works out what a configuration asks for, Set.Commit adds it and starts a probe at once,
// Set.Retire takes out what is no longer asked for. An upstream is known by its identity: name,
// normalised URL and, where endpoints are discovered (discovery.go), which of them it is. As long
// as a configuration has the identity, the same *Upstream goes on, with its health, its breaker,
// its in-flight calls, its averages and its connections; a reload swaps its settings and nothing
// else. Retired, it takes no new lease, and the last one that comes back closes the door: the
// connections, the metrics and its place in the set. A configuration that asks for it again before
// that revives it.
//
// Endpoints come from the configuration, DNS or Kubernetes (discovery.go). What is found is an
// upstream of its own; a plan is made anew when it changes. A pod that is being deleted takes no
// new call from the event on, before there is such a plan. The alternative was to wait for the
// plan, which probes what it adds for up to two seconds.
//
// Pending lasts until the first probe. A route falls back on pending upstreams while none of its
// own is up, so a restarted edge serves its first requests.
//
// # Work that moves
//
// Probes ask whether an engine answers, not whether it works. An upstream that has work of ours in
// which nothing moves, neither the engine's counters nor an answer, is stalled (stall.go, package
// progress): it gets no new calls, those that have shown nothing to their clients leave it, and
// generation probes try it until something moves. Routing has a say (Options.Stall): the last
// target of a route stays, and where many would go at once a failed generation probe is needed.
//
// In the other direction work outranks probes. One that times out while answers flow counts for
// nothing, and neither do those before it. One that times out while a call is at work and nothing
// flows makes the upstream busy (busy.go): whisper and image servers answer no page while they
// work, and vLLM under load for half a minute. A busy upstream keeps its calls and is full to
// others. It is up with the next sign of work or answered probe. It is down at once when a probe is
// refused or reset, and otherwise when nothing has come for a minute, or for three times the
// longest recent answer of a model whose calls wait there. Where its counters can be read while its
// health page cannot, they decide: moving ones keep it, and for those that stand still there is the
// stall rule. The calls that wait at an engine which is down this way leave it (Health.Silent), and
// after half of that time already where another upstream has a free slot (Health.Unheard).
//
// # What is believed
//
// Probes (probe.go) decide between up and down by thresholds: `fall` bad ones in a row, `rise` good
// ones. An engine at rest is probed less often, and at once when it gets a call (rest.go). The calls themselves outrank them (health.go). A call that cannot reach the engine makes
// the upstream suspect and starts a probe at once. If that probe fails, or the next call cannot
// reach the engine either, the upstream is down. The probe uses a new connection, because an engine
// that is stopping may still answer on old ones. An upstream that answers its probes and fails its
// work is a case for the breaker.
//
// An engine that sends bytes which no request has asked for is still used, but each connection for
// one request only, for a minute after the last such bytes (http1.HostWatch): on a kept
// connection they might be taken for the next answer.
//
// A host that vanishes (a cut cable, a power failure) leaves its connections as they are. From the
// first connect that runs out of time or finds no route on, the system asks the host once a second
// on every connection of the upstream; once the upstream is down, those end that have brought
// nothing since, their calls with ErrHostVanished (http1.HostWatch). It takes 3 to 7 s with the
// probes' defaults. A refused connect ends nothing: an engine that drains refuses and goes on with
// what it has. Where an address of several is gone and the name has no `resolve`, the upstream is
// not down, and the system's half a minute counts.
//
// An upstream that is drained, in maintenance or retired gets no new calls. Those that it has run
// on; after Options.DrainTime they are to leave it, where another can take them (HandsOver).
//
// A model that vanishes takes out its own target only. The engine's list shows it: the prober reads
// the list with every fifth probe, and with every one while a model that a route wants is missing.
// A 404 that is about a model takes it out at once and starts a probe (model_404.go); one client
// alone does so once, as long as the list has the model. Losses and returns are logged. NextChance
// returns when the next probe is due, for Retry-After.
//
// Where the list decides what is published (`discover`), every probe reads it, and an
// engine.Listing makes of it what the engine has; Options.OnModels is told of a change.
//
// An adapter (LoRA) is a model of the list with a parent. Engines that say which adapters they use
// look busier by one call for those that they have not used last (setAdapters).
//
// # What an engine lacks
//
// An engine that was started without a flag refuses what its siblings answer, quickly, and as if it
// were the client's fault. Such a refusal is suspected (features.go): where one status and one text
// make most of an engine's last 20 answers for a feature (an operation, tools, a forced tool, a
// schema, images, effort), package call asks a sibling for one in ten of the calls that it refuses.
// Three different bodies that siblings answer take the feature from the engine for half a minute, for
// that model; then it is tried again, less and less often up to every five minutes. One that a sibling refuses, too, ends the suspicion. A path
// that the engine does not have leaves no doubt, and is asked for elsewhere from the first such
// answer on. Routing asks an engine that lacks a feature if no other one takes calls.
//
// # The breaker
//
// Five failures in a row, or half of at least twenty calls in ten seconds, bring the breaker in. A
// failure is a broken or missing answer, an error of the engine's, or one of our clocks that ran
// out; slowness short of that is none, and neither is what the client did wrong, nor an engine that
// says it is full.
//
// No client opens the breaker alone (circuit.go): failures of one key, of calls without a
// key, or of one body count once. Five independent failures open it. Any other five ask for a
// generation probe (generation_probe.go), a request of the edge's own of one token and of the
// model's kind, in the slot that the fifth failure leaves and at most once a second. Where answers
// broke off after they had begun, it asks a chat model for 16 tokens, and the answer has to reach
// its end. A probe that fails opens the breaker. One that succeeds starts the count over, but fresh
// evidence stays: a probe does not outvote five independent failures. Two failures in a row with no
// success ask for one, too, once no call has come for half a second, as routing avoids such an
// engine. A full engine's refusal decides nothing, nor does a probe that waits in vain while the
// engine answers calls (http1.AnswerWatch) or reports others' work. So an engine that fails
// everything is out after five calls of any clients, and one that fails for a single client stays.
// Images have no generation probe: behind failures of theirs it asks for the upstream's chat model,
// or another one (settings.generation). Where there is none, or the engine rejects it, only five
// independent failures open the breaker; of clients without keys, five of different bodies.
//
// After a second one trial at a time may pass, and the pause doubles with each that fails, and with
// each opening soon after a closing. A call whose key's failures opened the breaker, or kept it
// open, is no trial: one of another key is, or a generation probe. Where there is no probe, other
// keys have a second to be it, and then every call may be. Behind a failed generation probe any
// key's call may be the first trial. A trial passes when it has ended well, or has gone on for
// three seconds after its first token.
//
// # Slots and load
//
// The in-flight counters that leases move are exact and the only source. All pools of an upstream
// are counted in one word (slots.go), so a lease is one compare-and-swap whether the limit is
// shared or not, and the limit is never exceeded. The first of these that has a limit sets it: the
// config, the engine, its profile. The work of others on the same engine is the engine's own count
// less ours, while the report is fresh, and steers choices only. Failures and refusals count as
// load for some seconds, so that an engine which fails fast does not look idle. An upstream that
// comes back gets its share of calls over three seconds.
//
// Slots in which an engine works for clients that have left (reports.go) are taken off a shared
// limit where the engine's reports prove them.
//
// An engine that lets calls wait while it runs others shows how many it runs at once
// (placeTracker). A share of its slots is then a share of those, so that a guess which is too high
// does not have calls wait there while another engine is idle. The limit stays: what the engine
// takes is not refused for a number that reports, seconds old, have shown.
//
// # Models that take turns
//
// An engine that loads models on demand keeps a few in memory and swaps for every other call. With
// `residents` its models take turns (package residency): a lease is for a model, and the calls of
// one whose turn it is not find the upstream full, so they wait in their model's queue or are
// refused like calls of a full pool. The gate learns what is loaded from the list of models, and
// how many fit where the engine says so. A clock that runs out while the engine may be loading the
// model counts as no failure.
//
// # Engines that sleep
//
// An engine with `wake` is asked to start by the first call that finds none of its model's engines
// up (package wake); what the others wait for is that one start. A vLLM that says it sleeps is down
// although its health page is good. Probes come more often during a start, and decide when the
// engine is back.
//
// # Design
//
// Probes and scrapes use the same exchange as calls, on a transport of their own: one HTTP
// implementation to trust, and neither side waits for the other's connections.
//
// An Upstream is made of parts, each with its state, its lock and the atomics that a pick reads:
//
//	Health (health.go)            up or down; the liveness machine in it is pure
//	CircuitBreaker (breaker.go)   closed, open, half-open; the circuit in it is pure (circuit.go)
//	ServedModels (models.go)      which models it has: an immutable view, replaced as a whole; and
//	                              whose turn it is, where it keeps few of them loaded
//	slots (slots.go)              calls in flight, and the limits
//	progress.Watch (progress/)    whether work moves; stall.go feeds it and acts on it
//	reports (reports.go)          what the engine says of its work: others' work, ghosts, places
//	penalty (load.go)             failures and refusals as load
//	Averages (averages.go)        what calls have shown: time to first token, bytes of a token, and
//	                              for each model the engine's speed (speedometer)
//	modeSwitch (mode.go)          what the operator wants
//	series (metrics.go)           the metrics
//
// Parts do not know each other or the upstream. A Lease books a call's outcome with them, and two
// workers watch: the prober with its own goroutine (probe.go), and the generationProber. No lock of
// a part is held over I/O. A pick over many upstreams takes no lock and allocates nothing.
// A call that ends well takes one, and a stream one more at its first token and at its last.
//
// The alternative for names with several addresses was to balance inside the transport. Each
// address is an upstream of its own instead, because health, breaker and load belong to a process,
// not to a name.
//
// Backoff while down is short (twice the interval at most): a probe costs an engine nothing next to
// a generation, and the pause is time in which a healthy engine stands idle.
package upstreams
