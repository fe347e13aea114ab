// Package routing decides which engine a call goes to. It turns the configuration into a Table
// (model → Route → Targets), and decides from the live facts which target gets a call.
//
//	model or alias ─► Table.Lookup ─► Route ─► filter eligible ─► score ─► lease
//
// # Design
//
// The package only decides. It does no I/O, starts no goroutine and writes no log. It reads no
// clock and draws no random numbers, because the Query contains both. Every decision can therefore
// be tested in a table.
//
// A pick filters the targets, scores them and leases the best one. A full scan over the targets
// (tens of them at most) costs less than maintaining an index. The score is computed from a
// moment's facts, but Upstream.TryLease enforces the limit with a compare-and-swap. There is no
// check-then-act, so a limit is never exceeded, not even by one call. A call that loses the race
// scans again, at most once per target and once more, and the last scan's result is the answer.
//
// Equal scores are decided by a reservoir choice. A fixed order would send every first request of a
// burst to the same engine, and a rotating start alone favours the target behind an excluded one.
//
// The default policy picks the target at which the answer starts soonest (soonest.go). It adds up
// the time for the prompts ahead of the call, the time for the tokens of the call's own prompt that
// the engine does not hold, and the wait until the engine runs the call. The policy estimates the
// time to the tenth token of the answer, not to its end: the length of an answer is not known in
// advance, and a slower engine would get no calls until all others are full. If the speed of one
// target is unknown, the policy instead multiplies the tokens to be read by how full the engine is,
// and compares the products (LMetric, arXiv 2603.15202). New engines thus get the calls that reveal
// their speed. A weight scales the measured speed.
//
// A pick can record its reason and its estimates for operators (Why). A query that does not ask for
// these pays nothing.
//
// A lease is booked with the tokens that its engine probably has to read. The engine's own count
// corrects the booking.
//
// Failures count as load: an upstream that fails fast is idle most of the time, and plain
// least-in-flight would send every call to it. The upstream itself adds its recent failures to its
// load (Load.Penalty).
//
// The edge knows other clients' work at an engine only from the engine's reports, which are seconds
// late and which other edges read too. The work of others counts as an average (Load.Usual),
// because edges that followed the newest report would all pick the same engine.
//
// The directory (directory.go) infers what each engine has cached from the prompts sent to it: the
// newest blocks of 512 bytes, as many as fit in its cache. Older prompts would mislead: calls would
// queue for a cache that is gone. The engine reports the size of its cache. The directory raises or
// lowers that size if the cached tokens in the engine's usage differ from the expectation. A prefix
// that many conversations share, such as a system prompt, counts for nothing. Otherwise the engine
// that saw the prefix first would get all of these conversations.
//
// A conversation that no engine knows goes to its home target, if that target would answer nearly
// as soon as any other. Rendezvous hashing of the session, or of the conversation's own part of the
// prompt, determines the home. Conversations are thus spread over the caches even while loads are
// equal, and edges that share engines agree without communicating.
//
// A pick over 32 upstreams costs two to five microseconds on a busy machine, with 40 blocks, and
// allocates nothing. round_robin examines no more targets than it needs. An atomic records whether
// a target has its model (upstreams.ServedModel). The sums of limits and reports are computed when
// they change, loads are read into one variable, and a random number costs a multiplication.
// BenchmarkPick measures a pick. A model with one target hashes nothing.
//
// At a model without a queue a refused key holds a claim on the next slot (Claims). A queue gives
// turns only to waiting calls. Without a queue no call waits, and a client that obeys Retry-After
// would lose to a client that does not. The slots that each key holds are counted by a hash of its
// id, so a call that finds a free slot and no claim pays for one addition and one load.
//
// A tier is a route of its own over some of the targets. It is asked when the tiers before it have
// no slot for the call. No state is kept, so there is nothing to switch back.
//
// An arm is a group of a tier's targets for a share of the model's conversations (arms.go). A hash
// assigns a call to its arm, so arms need no state either, and all edges assign alike.
//
// A Table is immutable except for the state of its routes, which outlives reloads: the round
// robin's position, the directory and the claims. Live counters belong to the upstreams, and a
// reload builds a new Table over the same upstreams.
package routing
