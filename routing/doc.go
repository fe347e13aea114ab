// Package routing decides which engine a call goes to. It turns the configuration into a Table
// (model → Route → Targets) and answers one question: given the live facts, which target gets this
// call?
//
//	model or alias ─► Table.Lookup ─► Route ─► filter eligible ─► score ─► lease
//
// # Design
//
// Decisions only: the package does no I/O, starts no goroutine, writes no log and never asks for
// the time or for chance; both come in with the Query. Every decision is therefore a table test.
//
// Filter, score, lease. A full scan over the targets (tens of them at most) costs less than any
// index that would have to be kept right. The score is computed from a moment's facts, but the
// limit is enforced by Upstream.TryLease, a compare-and-swap: there is no check-then-act, so a
// limit is never exceeded by one. Losing that race means scanning again, at most once per target
// and once more: what is found then is the answer.
//
// Equal scores are decided by a reservoir choice. A fixed order would send every first request of a
// burst to the same engine, and a rotating start alone favours the target behind an excluded one.
//
// The default policy picks the target at which the answer begins soonest (soonest.go): after the
// prompts ahead of it, the part of its own that the engine does not hold, and the wait for a place.
// The time is that until ten tokens of the answer, not its end: how long an answer will be is not
// known, and an engine that is slower to write would get nothing until all others are full. Where the
// speed of one target is not known, the product of tokens to be read and of the share of places in
// use stands for the time (LMetric, arXiv 2603.15202), so that what is new gets calls that make it
// known. A weight scales what an engine has shown.
//
// What a pick went by, its reason and the estimates, is noted for operators (Why). A query that does not
// ask for it pays nothing.
//
// A lease is booked with the tokens that its engine is believed to have to read, and corrected by
// what the engine has counted.
//
// Failure is load: an upstream that fails fast is idle most of the time, and plain least-in-flight
// would pour every call into it. Its recent failures are charged to its score by the upstream
// itself (Load.Penalty).
//
// Others' work at an engine is known from its reports alone, seconds late, and other edges read the
// same ones. It is weighed as an average (Load.Usual): edges that followed the newest report would
// move as a herd.
//
// What each engine holds is believed by what it was sent (directory.go): the newest blocks of 512
// bytes of prompts, as many as its cache has room for. What was sent longer ago than that misleads:
// calls would queue for a cache that is gone. The room is the engine's own number; what its usage
// reports as cached, beside what was expected, lowers and raises it. A beginning that many
// conversations share, such as a system prompt, counts for nothing, since the engine that saw it first
// would get them all.
//
// A conversation that no engine knows goes to a home, by rendezvous hashing of its session or of its
// own part, if that is nearly as soon as any other. So conversations are spread over the caches even
// while loads are equal, and edges that share engines agree without talking.
//
// A pick over 32 upstreams costs two to five microseconds on a busy machine, with 40 blocks, and
// allocates nothing: round_robin looks at no more targets than it needs, whether a target has its
// model is one atomic (upstreams.ServedModel), what limits and reports come to is worked out when
// they change, loads are read into one variable, and chance is a multiplication. BenchmarkPick
// measures it. Where a model has one target nothing is hashed.
//
// At a model without a queue a refused key holds a claim on the next slot (Claims). The queue's
// turns are for calls that wait; here nothing waits, and a client that does as Retry-After says
// would lose to one that does not. What each key holds is counted beside the slots by a hash of its
// id, so that a call which finds a free slot and no claim pays for an addition and one load.
//
// A tier is a route of its own over a part of the targets, asked when those before it have no slot
// for the call. Nothing is remembered of that, so there is nothing to switch back.
//
// An arm is a part of a tier for a share of the model's conversations (arms.go). Whose a call is
// follows from a hash, so that is not remembered either, and edges agree on it.
//
// A Table is immutable but for what its routes remember, which outlives reloads: the round robin's
// position, the directory and the claims. Live counters belong to the upstreams, and a reload
// builds a new Table over the same ones.
package routing
