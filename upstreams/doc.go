// Package upstreams tracks the inference engines behind the edge: which engines exist, whether they
// work and how busy they are. All requests to engines pass through this package. The package only
// reports facts: routing picks an upstream for each call, and package proxy maps failures to HTTP
// statuses.
//
// # The lifetime of an upstream
//
//	added → pending → up ⇄ down, up ⇄ stalled, up ⇄ busy → down → retiring → gone
//
// Set.PlanChanges computes which upstreams a configuration needs. Set.Commit adds the new upstreams and
// starts probing them immediately. Set.RetireOmitted removes upstreams that are no longer
// configured. An upstream is identified by its name, its normalised URL and, if it was discovered
// (discovery.go), its endpoint. While the configuration contains that identity, a reload keeps
// the same *Upstream with its health, breaker, in-flight calls, averages and connections, and
// replaces only the settings. A retired upstream grants no new leases. When its last lease is
// released, the set closes its connections and removes the upstream and its metrics. If a new
// configuration contains the upstream before its last lease is released, the set revives it.
//
// Endpoints come from the configuration, DNS or Kubernetes (discovery.go). Each discovered endpoint
// is a separate upstream, and a change of the endpoints triggers a new plan. As soon as Kubernetes
// reports that a pod is being deleted, the pod gets no new calls. The new plan would take up to two
// seconds, because it probes new endpoints first.
//
// An upstream is pending until its first probe completes. If no upstream of a route is up, the
// route uses pending upstreams, so a restarted edge can serve its first requests.
//
// # Stalled and busy engines
//
// A successful probe shows that an engine responds, but not that the engine generates. An upstream
// stalls if this edge has calls there, but the engine's counters do not change and no response
// makes progress (stall.go, package progress). A stalled upstream gets no new calls. Calls that
// have sent nothing to their clients are retried elsewhere. Generation probes continue until the
// engine makes progress. Options.Stall lets routing decide whether to take the upstream out of
// service. Routing keeps a route's last target in service. If many upstreams appear stalled at the
// same time, a generation probe decides for each of them.
//
// Progress on calls outranks probes. If a probe times out while response bytes arrive, the edge
// ignores this probe and the failed probes before it. If a probe times out while calls are running
// and no response bytes arrive, the upstream becomes busy (busy.go). Whisper and image servers
// answer no health check while they work, and vLLM under load may need half a minute. A busy
// upstream keeps its calls, and counts as full for new calls. The next progress or successful probe
// brings it up. A refused or reset probe takes it down immediately. Otherwise it goes down after a
// silence of one minute or, if that is longer, of three times the longest recent response. For the
// longest response, only models with waiting calls count. If the engine's counters can be read
// while its health page times out, the counters decide. While the counters change, the upstream
// stays busy. If the counters do not change, the stall rule applies. If an engine has gone down
// because of its silence, its waiting calls are retried elsewhere (Health.IsSilent). If another
// upstream has a free slot, the calls are retried there after half of that silence
// (Health.ShouldRetryElsewhere).
//
// # Health
//
// Probes (probe.go) take an upstream down after `fall` failed probes in a row, and bring it up
// after `rise` successful probes in a row. An idle engine is probed less often until it gets a call
// (idle_tracker.go). Results of calls outrank probes (health.go). A call that cannot reach the engine marks
// the upstream suspect and starts a probe immediately. If that probe fails, or the next call cannot
// reach the engine either, the upstream goes down. Probes always open a new connection, because an
// engine that is shutting down may still respond on existing connections. If the probes succeed but
// calls fail, the breaker decides.
//
// An engine that sends unsolicited bytes stays in service. For a minute after the last such bytes,
// the edge uses each connection to the engine for only one request (http1.HostWatch). If a
// connection were reused, the edge could mistake unsolicited bytes for the next response.
//
// A host that disappears, for example after a power failure, leaves its connections open. After a
// connect attempt times out or finds no route, the edge makes the kernel send keep-alive probes
// every second on every connection to the upstream. Once the upstream is down, the edge closes the
// connections that have received nothing since that attempt, and their calls fail with
// ErrHostVanished (http1.HostWatch). With the default probe settings, this takes 3 to 7 s. A
// refused connect attempt closes no connection, because a draining engine refuses connections and
// still finishes its calls. If only one of several addresses disappears and `resolve` is not set,
// the upstream stays up. In that case, the kernel closes the connections after a timeout of half a
// minute.
//
// An upstream in drain or maintenance, or a retired upstream, gets no new calls. Its running calls
// continue. After Options.DrainTime, each of them is handed over if another upstream can accept the
// call (ShouldHandOverCalls).
//
// If a model disappears from an engine, only the target for that model goes out of service. The
// prober reads the engine's model list with every fifth probe. While a routed model is missing, the
// prober reads the list with every probe. A 404 for a model takes the target out of service
// immediately and starts a probe (model_404.go). While the list contains the model, no single
// client can take the target out of service more than once. The edge logs when a model disappears
// or returns. RetryDelay returns the time until the next probe, for Retry-After.
//
// If the engine's model list determines the published models (`discover`), every probe reads the
// list. An engine.TrackedModels derives the models from the list, and Options.OnModels is called
// whenever the models change.
//
// An adapter (LoRA) is a listed model with a parent. If an engine reports which adapters are in
// use, the engine's load is one call higher for calls to an adapter that was not used recently
// (setAdapters).
//
// # Missing features
//
// An engine that was started without a certain flag refuses calls that its sibling engines accept.
// Such an engine refuses quickly, with a client error. If the same status and text make up most of
// an engine's last 20 responses for a feature, the edge suspects that the engine lacks the feature
// (features.go). The features are: an operation, tools, a forced tool, a schema, images, and
// effort. Package call then sends one in ten of the refused calls to a sibling. After siblings have
// accepted calls with three different bodies, the engine counts as lacking the feature for that
// model for half a minute. The edge then tries the feature again, at intervals that grow to five
// minutes. If a sibling also refuses, the suspicion ends. If the engine does not serve the path,
// the cause is certain, and the edge sends every refused call to a sibling, beginning with the
// first. Routing picks an engine that lacks a feature only if no other engine can accept the call.
//
// # The breaker
//
// The breaker reacts to five failures in a row. It also reacts if there were at least twenty calls
// within ten seconds and at least half of them failed. A failure is a missing or malformed
// response, a server error, or an expired timeout of the edge. Slow responses within the timeouts,
// client errors and refusals by a full engine do not count.
//
// No single client can open the breaker (circuit.go). Failures of the same key, of calls without a
// key, or of the same body count once. Five independent failures open the breaker. Any other five
// failures trigger a generation probe (generation_probe.go). This probe requests one token from a
// model of the same kind as that of the failed calls. The probe uses the slot that the fifth failed
// call releases. An engine gets at most one such probe per second. If responses broke off after
// their first bytes, the probe requests 16 tokens from a chat model and requires a complete
// response. A failed probe opens the breaker. A successful probe resets the failure count but keeps
// recent failures as evidence, because one successful probe does not outweigh five independent
// failures. Routing avoids an engine after two consecutive failures. Two failures therefore also
// trigger a probe, after half a second without a call. A probe is inconclusive if a full engine
// refuses it, or if it times out while the engine sends responses (http1.AnswerWatch) or reports
// work for others. As a result, an engine that fails every call goes out of service after five
// calls, regardless of which clients sent them. An engine that fails for a single client stays in
// service. Image models have no generation probe. If their calls fail, the probe uses the
// upstream's chat model, or another model (settings.generationSteps). If no model can be probed, or
// the engine rejects the probe, only five independent failures open the breaker. For clients
// without keys, failures of different bodies count as independent.
//
// One second after it has opened, the breaker admits one trial call at a time. This pause doubles
// after each failed trial, and each time the breaker opens again soon after it has closed. If a
// key's failures opened the breaker or kept it open, that key's calls cannot be the trial. In that
// case, a call of another key or a generation probe becomes the trial. If no probe is possible,
// other keys have one second to send the trial. After that second, any call may be the trial. If a
// failed generation probe opened the breaker, the first trial may be a call of any key. A trial
// succeeds when it completes successfully, or when it has streamed for three seconds after its
// first token.
//
// # Slots and load
//
// Only leases change the in-flight counters, so the counters are exact. One machine word contains
// the counters of all pools of an upstream (slots.go). Acquiring a lease is one compare-and-swap,
// and the limit is never exceeded. The limit comes from the first of these that sets one: the
// configuration, the engine, the engine's profile. While an engine's report is fresh, the work of
// other clients is the reported number of calls minus this edge's calls. This work affects routing
// choices but not the limit. Failures and refusals count as load for some seconds, so that an
// engine that fails fast does not look idle. After an upstream has come up again, its share of
// calls grows over three seconds.
//
// Some engines continue to generate for clients that have disconnected. If an engine's reports
// indicate that such calls still occupy slots (reports.go), the edge subtracts these slots from a
// shared limit.
//
// If an engine queues calls while others run, its reports reveal how many calls it runs
// concurrently (concurrencyTracker). The edge then measures the load against that number. If the edge
// used a limit that is too high, calls would queue at this engine while another engine is idle. The
// limit does not change, because reports are seconds old and the engine would still accept the
// calls.
//
// # Models that take turns
//
// An engine that loads models on demand keeps only a few in memory and may swap models for every
// call. If `residents` is configured, its models take turns (package residency). A lease belongs to
// one model. During one model's turn, calls for other models find the upstream full. Those calls
// wait in their model's queue, or are refused, as if a pool were full. The residency gate learns
// from the model list which models are loaded. Some engines also report how many models fit into
// memory. A timeout while the engine may be loading the model does not count as a failure.
//
// # Engines that sleep
//
// If no engine of a call's model is up, the edge sends a wake request to an engine for which `wake`
// is configured (package wake). Later calls wait until that engine is up. A vLLM engine that
// reports sleep mode counts as down, even though its health check succeeds. While an engine starts,
// the prober sends probes more often, and the probes decide when the engine is up.
//
// # Design
//
// Probes and scrapes use the same HTTP/1 implementation as calls, but a separate transport. Calls
// and probes therefore never wait for each other's connections.
//
// An Upstream consists of parts. Each part has separate state, a lock, and the atomic fields that
// routing reads:
//
//	Health (health.go)            up or down; the liveness machine in it is pure
//	CircuitBreaker (breaker.go)   closed, open, half-open; the circuit in it is pure (circuit.go)
//	ServedModels (models.go)      the served models: an immutable view, replaced as a whole,
//	                              and the turns of an engine that loads few models
//	slots (slots.go)              calls in flight, and the limits
//	progress.Watch (progress/)    whether calls make progress; stall.go records samples in it and
//	                              acts on its result
//	reports (reports.go)          work that the engine reports: others' calls, ghosts, places
//	penalty (load.go)             failures and refusals as load
//	Averages (averages.go)        measurements of calls: time to first token, bytes per token, and
//	                              the engine's speed for each model (speedometer, SiblingSpeeds)
//	modeSwitch (mode.go)          the operator's mode: ready, drain or maintenance
//	series (metrics.go)           the metrics
//
// The parts do not refer to each other or to the upstream. A Lease reports a call's outcome to
// the parts. Two components observe the engine: the prober (probe.go), which has a goroutine, and
// the generationProber. No part holds its lock during I/O. Picking an upstream does not allocate.
// It acquires a lock only to recompute the estimated speeds, ten times a second. A successful
// call acquires one lock. A streamed call acquires one more lock at its first token and one at
// its last token.
//
// Each resolved address of a name is a separate upstream, because health, breaker and load are
// properties of a process. If the transport balanced calls over the addresses of a name, these
// properties could not be tracked.
//
// The probe interval at most doubles while an engine is down. A probe costs an engine nothing
// compared with a generation, and a longer pause would leave a recovered engine idle.
package upstreams
