// Package plan implements `penstock bench plan`. It computes how many engines of each kind are
// needed to serve a trace within given objectives. The command can also compute a given fleet's
// latencies under each policy.
//
// It plays the trace on simulated engines behind the edge's routing (routing.Route over upstreams
// that are planned but never probed), in virtual time. An event loop jumps from one event to the
// next, so an hour of a trace takes less than a second. The engines follow the rules of package
// sim:
//
//   - Slots and room are assigned in the order of arrival.
//   - Prompts are read one after another, with a prefix cache.
//   - Decoding slows down as more requests run.
//   - If responses outgrow the room, requests are evicted.
//
// A test replays the same trace on the simulator and compares the times.
//
// A trace is only one sample of a load. The package therefore also plays other draws, in which the
// times between requests are shuffled. The result is the number of engines that is sufficient in 95
// % of the draws, together with the minimum and the maximum over all draws. If the draws cannot
// distinguish policies, the output says so and does not rank them.
//
// A plan also compares a single pool with two pools that are divided by prompt length (pools.go).
// Each of the two pools is simulated separately, with its part of the trace.
//
// Like an edge that has just started, the simulated edge learns the speeds of the engines from the
// calls in the trace. Until it knows all speeds, it routes by unread tokens and calls.
//
// A fleet of a given size is also simulated with two rules of other proxies, and with two oracles.
// The oracles know facts that no proxy can know, and show how much better a policy could be. They
// are not an upper bound, because they consider only one call at a time.
//
// A block that is used by more than one running request counts once. A prompt finds the blocks of
// all earlier prompts in the cache, even of prompts that have not been read yet. The cache is as
// large as the room.
//
// The package does not model failures, slow starts, the microseconds that the edge adds, or the
// real speed of hardware. The operator sets the speeds.
package plan
