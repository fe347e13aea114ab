// Package upstreams is the live side of the inference engines behind the edge: which engines there
// are, whether they work, how busy they are, and the only way to reach one. It supplies facts.
// Routing decides which upstream gets a call, and proxy decides what status a failure becomes.
//
// # The life of an upstream
//
//	added → pending → up ⇄ down, up ⇄ stalled, up ⇄ busy → down → retiring → gone
//
// Set.Plan works out what a configuration asks for, Set.Commit adds it and starts a probe at once,
// and Set.Retire removes what is no longer configured. An upstream is known by its identity: name,
// normalised URL and, for discovered endpoints (discovery.go), the endpoint. While the
// configuration has that identity, the same *Upstream goes on, with its health, its breaker, its
// in-flight calls, its averages and its connections; a reload swaps only its settings. A retired
// upstream takes no new lease. Its last returned lease closes its connections and removes its
// metrics and its place in the set. If a configuration asks for it again before that, it is
// revived.
//
// Endpoints come from the configuration, DNS or Kubernetes (discovery.go). Each found endpoint is
// an upstream of its own, and a change makes a new plan. A pod that is being deleted takes no new
// call from that event on, before the new plan exists. The alternative was to wait for the plan,
// which probes the endpoints it adds for up to two seconds.
//
// Pending lasts until the first probe. A route falls back on pending upstreams while none of its
// upstreams is up, so a restarted edge serves its first requests.
//
// # Work that moves
//
// Probes show that an engine answers, not that it works. An upstream has stalled if it has work of
// ours and nothing moves, neither the engine's counters nor an answer (stall.go, package progress).
// It gets no new calls, the calls that have sent nothing to their clients leave it, and generation
// probes try it until something moves. Routing has a say (Options.Stall): the last target of a
// route stays, and if many would go at once a failed generation probe is needed.
//
// In the other direction work outranks probes. A probe that times out while answers flow counts for
// nothing, and neither do the probes before it. A probe that times out while a call is at work and
// nothing flows makes the upstream busy (busy.go): whisper and image servers answer no page while
// they work, and vLLM under load does not for half a minute. A busy upstream keeps its calls and is
// full to others. It is up with the next sign of work or answered probe. It is down at once when a
// probe is refused or reset. Otherwise it is down when nothing has come for a minute, or for three
// times the longest recent answer of a model whose calls wait there. If its counters can be read
// while its health page cannot, the counters decide: moving counters keep it, and the stall rule
// applies to counters that stand still. The calls that wait at an engine which is down this way
// leave it (Health.Silent). If another upstream has a free slot, they leave after half of that time
// (Health.Unheard).
//
// # What is believed
//
// Probes (probe.go) decide between up and down by thresholds: `fall` bad ones in a row, `rise` good
// ones. An idle engine is probed less often, and at once when it gets a call (rest.go). Calls
// outrank probes (health.go). A call that cannot reach the engine makes the upstream suspect and
// starts a probe at once. If that probe fails, or the next call cannot reach the engine either, the
// upstream is down. The probe uses a new connection, because an engine that is stopping may still
// answer on old ones. An upstream that answers its probes and fails its work is a case for the
// breaker.
//
// An engine that sends unsolicited bytes is still used, but for a minute after the last such bytes
// each connection carries only one request (http1.HostWatch): on a kept connection they might be
// taken for the next answer.
//
// A host that vanishes (a cut cable, a power failure) leaves its connections open. From the first
// connect that times out or finds no route, the system probes the host once a second on every
// connection of the upstream. Once the upstream is down, the connections that have brought nothing
// since are closed, and their calls end with ErrHostVanished (http1.HostWatch). This takes 3 to 7 s
// with the probes' defaults. A refused connect closes nothing: a draining engine refuses and goes
// on with its calls. If one of several addresses is gone and the name has no `resolve`, the
// upstream is not down, and the system's half a minute applies.
//
// An upstream that is drained, in maintenance or retired gets no new calls. Its running calls
// continue. After Options.DrainTime they should leave it if another upstream can take them
// (HandsOver).
//
// A model that vanishes takes out only its own target. The prober reads the engine's list with
// every fifth probe, and with every probe while a model that a route wants is missing. A 404 about
// a model takes it out at once and starts a probe (model_404.go); one client alone can do so once,
// as long as the list has the model. Losses and returns are logged. NextChance returns when the
// next probe is due, for Retry-After.
//
// If the list decides what is published (`discover`), every probe reads it. An engine.Listing works
// out which models the engine has, and Options.OnModels is called on a change.
//
// An adapter (LoRA) is a model of the list with a parent. Engines that report which adapters they
// use look busier by one call for adapters that they have not used recently (setAdapters).
//
// # What an engine lacks
//
// An engine that was started without a flag refuses what its siblings answer. It does so quickly,
// and as if it were the client's fault. features.go suspects such a refusal: if one status and one
// text make up most of an engine's last 20 answers for a feature (an operation, tools, a forced
// tool, a schema, images, effort), package call asks a sibling for one in ten of the refused calls.
// If siblings answer three different bodies, the engine loses the feature for that model for half a
// minute. Then it is tried again, at intervals that grow to five minutes. A refusal that a sibling
// repeats ends the suspicion. If the engine lacks the path itself there is no doubt, and siblings
// are asked from the first such answer on. Routing asks an engine that lacks a feature only if no
// other engine takes calls.
//
// # The breaker
//
// Five failures in a row, or half of at least twenty calls in ten seconds, concern the breaker. A
// failure is a broken or missing answer, an error of the engine, or a clock of ours that ran out.
// Slowness short of that is no failure. Neither is a client's mistake, nor an engine that says it
// is full.
//
// No client opens the breaker alone (circuit.go): failures of one key, of calls without a key, or
// of one body count once. Five independent failures open it. Any other five ask for a generation
// probe (generation_probe.go), a request of the edge's own of one token and of the model's kind, in
// the slot that the fifth failure frees and at most once a second. If answers broke off after they
// had begun, it asks a chat model for 16 tokens, and the answer must reach its end. A failed probe
// opens the breaker. A successful one starts the count over, but fresh evidence stays: a probe does
// not outvote five independent failures. Two failures in a row with no success also ask for a
// probe, once no call has come for half a second, because routing avoids such an engine. A full
// engine's refusal decides nothing. Neither does a probe that waits in vain while the engine
// answers calls (http1.AnswerWatch) or reports others' work. So an engine that fails everything is
// out after five calls of any clients, and one that fails for a single client stays. Images have no
// generation probe: after their failures the probe asks the upstream's chat model, or another one
// (settings.generation). If there is none, or the engine rejects the probe, only five independent
// failures open the breaker; for clients without keys, five of different bodies.
//
// After a second the breaker lets one trial at a time pass. The pause doubles with each failed
// trial, and with each opening soon after a closing. A call cannot be the trial if its key's
// failures opened the breaker or kept it open: a call of another key is, or a generation probe. If
// there is no probe, other keys have a second to be the trial, and then every call may be. After a
// failed generation probe any key's call may be the first trial. A trial passes when it has ended
// well, or has gone on for three seconds after its first token.
//
// # Slots and load
//
// The in-flight counters that leases change are exact and the only source. All pools of an upstream
// are counted in one word (slots.go), so a lease is one compare-and-swap whether the limit is
// shared or not, and the limit is never exceeded. The limit comes from the first of these that has
// one: the config, the engine, its profile. Others' work at the engine is the engine's own count
// minus ours, while the report is fresh, and affects only choices. Failures and refusals count as
// load for some seconds, so that an engine which fails fast does not look idle. An upstream that
// comes back gets its share of calls over three seconds.
//
// Slots in which an engine still works for clients that have left (reports.go) are subtracted from
// a shared limit if the engine's reports prove them.
//
// An engine that queues calls while it runs others shows how many it runs at once (placeTracker).
// The load is then measured against that number, so that a limit guessed too high does not leave
// calls waiting there while another engine is idle. The limit itself stays: the edge does not
// refuse calls that the engine takes because of reports that are seconds old.
//
// # Models that take turns
//
// An engine that loads models on demand keeps a few in memory and may swap for every call. With
// `residents` its models take turns (package residency). A lease is for a model. Calls of a model
// whose turn it is not find the upstream full, so they wait in their model's queue or are refused
// like calls of a full pool. The gate learns what is loaded from the list of models, and how many
// fit if the engine reports it. A clock that runs out while the engine may be loading the model is
// no failure.
//
// # Engines that sleep
//
// An engine with `wake` is asked to start by the first call that finds none of its model's engines
// up (package wake). The other calls wait for that one start. A vLLM that says it sleeps is down
// although its health page is good. During a start probes are more frequent, and they decide when
// the engine is back.
//
// # Design
//
// Probes and scrapes use the same exchange as calls, on a transport of their own. There is one HTTP
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
// workers watch: the prober with its own goroutine (probe.go), and the generationProber. No part
// holds its lock during I/O. A pick over many upstreams takes no lock and allocates nothing. A call
// that ends well takes one lock, and a stream takes one more at its first token and at its last.
//
// The alternative for names with several addresses was to balance inside the transport. Instead
// each address is an upstream of its own, because health, breaker and load belong to a process, not
// to a name.
//
// Backoff while down is short (twice the interval at most): a probe costs an engine nothing
// compared with a generation, and during the pause a healthy engine stands idle.
package upstreams
