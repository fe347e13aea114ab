// Package plan implements `penstock bench plan`: it computes the number and the kind of engines
// that a trace needs to meet given objectives, and the speed of a given fleet with each policy.
//
// It plays the trace on simulated engines behind the edge's own routing (routing.Route over
// upstreams that are planned and never probed), in virtual time. An event loop jumps from change to
// change, so that an hour of a trace takes less than a second. The engines have the rules of
// package sim: slots and room are assigned first come, first served; prompts are read one after
// another; there is a prefix cache; the more requests run, the slower tokens are written; and
// answers that outgrow the room cause evictions. A test plays the same trace on the simulator
// itself and compares the times.
//
// A trace is one sample of a load. The package therefore plays the trace unchanged and in further
// draws, which shuffle the times between requests. The result is the number of engines that
// suffices in 95 % of the draws, with the minimum and the maximum. If the draws do not decide
// between policies, the output says so and does not rank them.
//
// A plan also compares one pool with two pools by prompt length (pools.go). Each of the two is
// played alone with its share of the trace.
//
// The edge learns the speed of its engines from the calls of the trace, like a real edge that has
// just started: until it knows every engine's speed, it chooses by unread tokens and by calls.
//
// A fleet of known size is also played with two rules of other proxies, and with two oracles, which
// know facts that no proxy can know. They show how much better a policy could be. They are not an
// upper limit, because they consider one call at a time.
//
// A block that several running requests share counts once, and a prompt finds the blocks of all
// prompts before it in the cache, even of prompts not yet read. The cache is as large as the room.
//
// The package does not model failures, engines that start slowly, the edge's own microseconds, or
// the real speed of the hardware. The operator gives the speeds.
package plan
