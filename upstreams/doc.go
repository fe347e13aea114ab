// Package upstreams keeps the live state of the inference engines behind the edge: which engines
// exist, whether they work and how busy they are. It is also the only way to reach an engine. It
// supplies facts. Routing decides which upstream gets a call, and proxy decides what status a
// failure becomes.
//
// # The lifetime of an upstream
//
//	added → pending → up ⇄ down, up ⇄ stalled, up ⇄ busy → down → retiring → gone
//
// Set.Plan works out which upstreams a configuration asks for. Set.Commit adds them and starts a
// probe at once, and Set.Retire removes upstreams that are no longer configured. An upstream's
// identity is its name, its normalised URL and, for discovered endpoints (discovery.go), the
// endpoint. As long as the configuration has that identity, the same *Upstream stays, with its
// health, breaker, in-flight calls, averages and connections; a reload swaps only the settings. A
// retired upstream takes no new lease. When the last lease is returned, the upstream's connections
// are closed, and the upstream and its metrics are removed from the set. If a configuration asks
// for the upstream again before that, it is revived.
//
// Endpoints come from the configuration, DNS or Kubernetes (discovery.go). Each found endpoint is a
// separate upstream, and a change triggers a new plan. A pod that is being deleted takes no new
// call from that event on, even before the new plan exists. The alternative was to wait for the
// plan, which probes new endpoints for up to two seconds.
//
// Pending lasts until the first probe. While none of its upstreams is up, a route falls back on
// pending ones, so a restarted edge serves its first requests.
//
// # Work that moves
//
// Probes show that an engine answers, not that it works. An upstream has stalled if it has calls
// of this edge but neither the engine's counters nor an answer moves (stall.go, package
// progress). It then gets no new calls. Calls that have sent nothing to their clients leave it,
// and generation probes try it until something moves. Options.Stall lets routing decide: the last
// target of a route stays in service, and if many upstreams would leave at once, each needs a
// failed generation probe first.
//
// Conversely, work outranks probes. If a probe times out while answers flow, neither this probe nor
// the failed probes before it count. If a probe times out while a call runs and nothing flows, the
// upstream becomes busy (busy.go): whisper and image servers answer no page while they work, and
// vLLM under load may take half a minute. A busy upstream keeps its calls and looks full to other
// calls. The next sign of work or answered probe brings it up. It goes down at once if a probe is
// refused or reset. Otherwise it goes down after a minute without a sign of work, or after three
// times the longest recent answer of a model whose calls wait there. If its counters can be read
// while its health page cannot, the counters decide: moving counters keep it busy, and counters
// that stand still fall under the stall rule. Calls that wait at an engine which went down this way
// leave that engine (Health.Silent). If another upstream has a free slot, they leave after half of
// that time (Health.Unheard).
//
// # Evidence
//
// Probes (probe.go) decide between up and down by thresholds: `fall` bad probes in a row, or `rise`
// good probes. An idle engine is probed less often, until it gets a call (rest.go). Calls outrank
// probes (health.go). A call that cannot reach the engine makes the upstream suspect and starts a
// probe at once. If that probe fails, or the next call cannot reach the engine either, the upstream
// is down. The probe uses a new connection, because an engine that is stopping may still answer on
// old connections. An upstream that answers its probes but fails its calls is left to the breaker.
//
// An engine that sends unsolicited bytes stays in use, but for a minute after the last such bytes
// each connection carries only one request (http1.HostWatch). On a reused connection, these bytes
// might be taken for the next answer.
//
// A host that vanishes (a cut cable, a power failure) leaves its connections open. After the
// first connect that times out or finds no route, the kernel probes the host once a second on
// every connection of the upstream. Once the upstream is down, connections that have received
// nothing since then are closed, and their calls end with ErrHostVanished (http1.HostWatch). This
// takes 3 to 7 s with the probes' defaults. A refused connect closes nothing: a draining engine
// refuses and goes on with its calls. If one of several addresses is gone and the name has no
// `resolve`, the upstream is not down, and only the kernel's timeout of half a minute applies.
//
// An upstream that is drained, in maintenance or retired gets no new calls. Its running calls
// continue. After Options.DrainTime they should move to another upstream that can take them
// (HandsOver).
//
// A model that vanishes takes out only its own target. The prober reads the engine's list with
// every fifth probe, and with every probe while a model that a route wants is missing. A 404 about
// a model takes that target out at once and starts a probe (model_404.go). While the list has the
// model, no single client can take the target out more than once. Losses and returns are logged.
// NextChance returns when the next probe is due, for Retry-After.
//
// If the list decides what is published (`discover`), every probe reads it. An engine.Listing
// works out which models the engine has, and a change calls Options.OnModels.
//
// An adapter (LoRA) is a model that the list shows with a parent. If an engine reports its adapters
// in use, it looks one call busier for adapters that it has not used recently (setAdapters).
//
// # Features that an engine lacks
//
// An engine that was started without a flag refuses calls that its siblings answer. Such an engine
// refuses quickly, and blames the client. features.go suspects these refusals if the same status
// and text make up most of an engine's last 20 answers for a feature (an operation, tools, a forced
// tool, a schema, images, effort). Package call then sends one in ten of the refused calls to a
// sibling. If siblings answer three different bodies, the engine loses the feature for that model
// for half a minute. Then the feature is tried again, at intervals that grow to five minutes. A
// refusal that a sibling repeats ends the suspicion. If the engine lacks the path itself, the cause
// is certain, and siblings are asked from the first such answer on. Routing picks an engine that
// lacks a feature only if no other engine takes calls.
//
// # The breaker
//
// The breaker reacts to five failures in a row. It also reacts if at least half of the calls in ten
// seconds fail and these are at least twenty calls. A failure is a broken or missing answer, an
// engine's error, or an expired timeout of the edge. Slowness within the timeouts does not count,
// nor does a client's error or an engine that says it is full.
//
// No client opens the breaker alone (circuit.go): failures of one key, of calls without a key, or
// of one body count once. Five independent failures open the breaker. Any other five trigger a
// generation probe (generation_probe.go): the edge's own request for one token, of the model's
// kind. The probe uses the slot that the fifth failure frees, and is sent at most once a second. If
// answers broke off after they had begun, the probe asks a chat model for 16 tokens, and the answer
// must be complete. A failed probe opens the breaker. A successful probe resets the count but keeps
// recent evidence, because a probe does not outvote five independent failures. Routing avoids an
// engine after two failures in a row, so these trigger a probe, too, once no call has come for half
// a second. A full engine's refusal decides nothing, and neither does a probe that times out while
// the engine answers calls (http1.AnswerWatch) or reports others' work. As a result, an engine that
// fails every call is taken out after five calls from any clients. An engine that fails for a
// single client stays. Images have no generation probe: after their failures the probe asks the
// upstream's chat model, or another model (settings.generation). If there is none, or the engine
// rejects the probe, only five independent failures open the breaker. For clients without keys,
// failures of different bodies count as independent.
//
// After a second the breaker lets one trial at a time pass. The pause doubles with each failed
// trial, and with each opening soon after a closing. If a key's failures opened the breaker or kept
// it open, its calls cannot be the trial: another key's call or a generation probe becomes the
// trial. If no probe is possible, other keys have a second to send the trial, and then any call may
// become it. After a failed generation probe any key's call may be the first trial. A trial passes
// when it has completed, or has continued for three seconds after its first token.
//
// # Slots and load
//
// Leases change the in-flight counters, which are exact and the only source. All pools of an
// upstream are counted in one machine word (slots.go), so a lease is one compare-and-swap whether
// the limit is shared or not, and the limit is never exceeded. The limit comes from the
// configuration, the engine or the engine's profile: the first of these that has one. The work of
// others at the engine is the engine's own count minus ours, while the report is fresh. It affects
// only choices. Failures and refusals count as load for some seconds, so that a fast-failing engine
// does not look idle. An upstream that comes back gets its share of calls over three seconds.
//
// An engine may still work for clients that have left. If its reports prove such slots
// (reports.go), they are subtracted from a shared limit.
//
// An engine that queues calls while it runs others shows how many it runs at once (placeTracker).
// The load is then measured against that number. Otherwise calls would wait there because of too
// high a limit, while another engine is idle. The limit itself stays: reports that are seconds old
// are no reason to refuse calls that the engine accepts.
//
// # Models that take turns
//
// An engine that loads models on demand keeps a few in memory and may swap for every call. With
// `residents` its models take turns (package residency). A lease is for one model. Calls for every
// other model find the upstream full: they wait in their model's queue, or are refused as if a pool
// were full. The gate learns from the model list which models are loaded, and also how many fit if
// the engine reports that. A timeout while the engine may be loading the model is not a failure.
//
// # Engines that sleep
//
// If a call finds none of its model's engines up, the edge asks an engine with `wake` to start
// (package wake). Later calls wait for that same start. A vLLM that reports sleep mode is down
// although its health page is good. During a start the probes are more frequent, and they decide
// when the engine is back.
//
// # Design
//
// Probes and scrapes use the same exchange as calls, on a separate transport. So there is only one
// HTTP implementation to trust, and calls and probes never wait for each other's connections.
//
// An Upstream is built from parts. Each has its own state, its lock and the atomics that a pick
// reads:
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
// Parts do not know each other or the upstream. A Lease books a call's outcome with them. Two
// workers watch the engine: the prober with its own goroutine (probe.go), and the
// generationProber. No part holds its lock during I/O. A pick over many upstreams takes no lock
// and allocates nothing. A successful call takes one lock, and a stream takes another lock at its
// first token and at its last.
//
// Each address of a name is a separate upstream, because health, breaker and load belong to a
// process. The alternative was to balance inside the transport, by name.
//
// Backoff while down is short (twice the interval at most): a probe costs an engine nothing
// compared with a generation, and during the pause a healthy engine stands idle.
package upstreams
