// Package routing decides which engine gets a call. It compiles the configuration into a Table
// (model → Route → Targets), and picks a target based on the live state of the upstreams.
//
//	model or alias ─► Table.Lookup ─► Route ─► filter eligible ─► score ─► lease
//
// # Design
//
// The package does no I/O, starts no goroutines and writes no logs. It reads no clock and draws no
// random numbers. The Query contains both instead. Every decision can therefore be covered by a
// table-driven test.
//
// A pick filters the targets, scores them and leases the best one. A full scan (tens of targets at
// most) costs less than maintaining an index. The score uses a snapshot, but Upstream.TryLease
// enforces the limit with a compare-and-swap. The limit is therefore never exceeded. A call that
// loses the race scans again, at most one more time than there are targets. The last scan
// determines the result.
//
// If scores are equal, a reservoir sample decides. A fixed order would send all first requests in a
// burst to the same engine. A rotating start alone would favour the target that follows an excluded
// one.
//
// The default policy picks the target whose response would start soonest (soonest.go). It adds up
// the time for the queued prompts, the time for the call's uncached tokens, and the wait until the
// engine runs the call. The estimate covers the time to the tenth token. The length of the response
// is unknown. If the estimate covered more tokens, a slower engine would get no calls until all
// other engines are full. A target that has shown little counts as fast as the others
// (upstreams.Siblings), so new engines get calls that reveal their speed. While the targets together
// have shown no speed, the policy multiplies the tokens to read by the fill level of the engine, and
// compares the products (LMetric, arXiv 2603.15202). A weight scales the estimated speed.
//
// A pick can record its reason and its estimates for operators (Why). This costs nothing for
// queries without a Why.
//
// A lease counts the tokens that its engine probably has to read. When the engine reports the
// actual number, it replaces the estimate.
//
// Failures count as load. An upstream that fails fast is mostly idle, so plain least-in-flight
// would send every call to it. The upstream adds its recent failures to its load (Load.Penalty).
//
// The edge knows other clients' calls at an engine only from the engine's reports, which are
// seconds old and read by all edges. These calls are counted as an average over time (Load.Usual).
// Otherwise all edges would pick the engine that looked idle in the newest report.
//
// The directory (directory.go) infers what each engine has cached from the prompts that were sent
// to it: the newest blocks of 512 bytes, as many as fit in its cache. If it remembered older
// prompts, calls would queue for a cache that is gone. The engine reports its cache size. If the
// cached tokens that it reports in usage differ from the expectation, the directory adjusts the
// size. A prefix that many conversations share, such as a system prompt, does not count. Otherwise
// the engine that first read the prefix would get all of these conversations.
//
// A new conversation goes to its home target if that target would respond nearly as soon as the
// best one. The home is determined by rendezvous hashing of the session, or of the part of the
// prompt that no other conversation shares. Conversations therefore spread over the caches even
// while loads are equal. Edges that share engines agree on the home without communication.
//
// A pick among 32 upstreams for a prompt with 40 blocks takes two to five microseconds on a busy
// machine and does not allocate. The policy round_robin examines as few targets as possible. An
// atomic records whether a target serves its model (upstreams.ServedModel). Sums of limits and
// reports are computed only when they change, loads are read into one variable, and a random number
// costs one multiplication. BenchmarkPick measures the time of a pick. A model that has only one
// target needs no hashing.
//
// If a model has no queue, a refused key gets a claim on the next slot (Claims). No call waits at
// such a model, so a client that obeys Retry-After would lose out to a client that does not. To
// count the slots of each key, the edge uses a hash of the key's id. A call that finds a free slot
// and no claims costs one addition and one load.
//
// A tier is a route over some of the targets. A call tries a tier if the earlier tiers have no free
// slot. Tiers have no state, so nothing has to be switched back.
//
// An arm is a group of a tier's targets that gets a share of the model's conversations (arms.go). A
// hash determines a call's arm. Arms therefore have no state either, and all edges agree.
//
// A Table is immutable except for the state of its routes, which consists of the rotating start,
// the directory and the claims. That state survives reloads. The live counters belong to the
// upstreams, and a reload builds a new Table over the same upstreams.
package routing
