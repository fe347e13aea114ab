// Package routing decides which engine gets a call. It compiles the configuration into a Table
// (model → Route → Targets), and picks a target based on the live state of the upstreams.
//
//	model or alias ─► Table.Lookup ─► Route ─► filter eligible ─► score ─► lease
//
// # Design
//
// The package does no I/O, starts no goroutines and writes no logs. It reads no clock and draws no
// random numbers. Instead, the Query contains the time and a random number. Every decision can
// therefore be covered by a table-driven test.
//
// A pick filters the targets, scores them and acquires a lease on the best one. A full scan (tens
// of targets at most) costs less than maintaining an index. The score uses a snapshot, but
// Upstream.TryLease enforces the limit with a compare-and-swap. The limit is therefore never
// exceeded. A call that loses the race for a slot scans again. It scans again at most once more
// than there are targets. The last scan determines the result.
//
// If scores are equal, a reservoir sample decides. A fixed order would send all first requests of a
// burst to the same engine. A rotating start alone would favour the target that follows an excluded
// target.
//
// The default policy picks the target whose response would start soonest (soonest.go). It adds up
// the time for the queued prompts, the time for the call's uncached tokens, and the wait until the
// engine runs the call. The estimate covers the time to the tenth token. The length of the response
// is unknown. If the estimate covered more tokens, a slower engine would get no calls until all
// other engines were full. A target with few measurements is assumed to be as fast as the others
// (upstreams.SiblingSpeeds), so new engines get calls that reveal their speed. Until enough
// responses have been measured at all targets together, the policy compares products instead of
// times. A product is the number of tokens to read, multiplied by the fill level of the engine
// (LMetric, arXiv 2603.15202). A weight scales the estimated speed.
//
// A pick can record its reason and its estimates for operators (Query.Why). If Why is nil, this
// costs nothing.
//
// A lease counts the tokens that its engine probably has to read. The number that the engine
// reports later replaces this estimate.
//
// Failures count as load. An upstream that fails fast is mostly idle, so a simple policy that
// counts running calls would send every call to it. Recent failures are therefore added to an
// upstream's load (Load.Penalty).
//
// An edge learns of other clients' calls at an engine only from the engine's load reports, which
// are seconds old and which all edges read. These calls therefore count as an average over time
// (Load.Usual). Otherwise all edges would pick the engine that looks idle in the newest report.
//
// The prefix index (prefix_index.go) infers what each engine has cached from the prompts that were
// sent to it. It stores the newest blocks of 512 bytes, as many as fit in the engine's cache. If
// the index contained older blocks, calls would queue at an engine that no longer has their prompts
// cached. The engine reports its cache size. If the cached tokens that the engine reports in usage
// differ from the expectation, the index adjusts the size. A prefix that many conversations share,
// such as a system prompt, does not count. Otherwise the engine that first read the prefix would
// get all of these conversations.
//
// A new conversation goes to its home target if that target would respond nearly as soon as the
// best one. The home is determined by rendezvous hashing of the session, or of the part of the
// prompt that no other conversation shares. Conversations therefore spread over the caches even
// while loads are equal. Edges that share engines agree on the home without communication.
//
// A pick among 32 upstreams for a prompt with 40 blocks takes two to five microseconds on a busy
// machine and does not allocate (BenchmarkPick). The policy round_robin examines as few targets as
// possible. An atomic variable records whether a target serves its model (upstreams.ServedModel).
// Sums of limits and of reports are computed only when they change, all loads are read into the
// same variable, and a random number costs one multiplication. If a model has only one target,
// prompts are not hashed.
//
// If a model has no queue, a refused key gets a claim on the next slot (SlotClaims). At such a
// model, refused calls do not wait, so a client that honours Retry-After would lose out to a client
// that does not. The slots of each key are counted by a hash of the key's id. If there is a free
// slot and there are no claims, this costs a call one addition and one load.
//
// A tier is a route over some of the targets. A call tries a tier if the earlier tiers have no free
// slot. Tiers have no state, so no component has to switch back to an earlier tier.
//
// An arm is a group of a tier's targets that gets a share of the model's conversations (arms.go). A
// hash determines a call's arm. Arms therefore have no state either, and all edges agree on the
// arm.
//
// A Table is immutable except for the state of its routes: the rotating start, the prefix index and
// the claims. That state survives reloads. The live counters belong to the upstreams, and a reload
// builds a new Table over the same upstreams.
package routing
