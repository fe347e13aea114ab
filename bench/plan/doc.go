// Package plan is `penstock bench plan`: how many engines of which kind a trace needs for given
// objectives, and how fast a given fleet is with each policy.
//
// It plays the trace on simulated engines behind the edge's own routing (routing.Route over
// upstreams that are planned and never probed), in virtual time: an event loop goes from change to
// change, so that an hour of a trace takes less than a second. The engines have the rules of
// package sim: slots and room first come first served, one line of prompts to read, a prefix
// cache, tokens that come slower the more requests run, and eviction where answers outgrow the
// room. A test plays the same trace on the simulator itself and holds both to the same times.
//
// A trace is one sample of a load. So it is played as it is and in further draws, in which the
// times between requests change places, and the answer is the number of engines that is enough in
// 95 % of the draws, with the least and the most. Policies between which the draws do not decide
// are called so, and are not ranked.
//
// The edge learns from the calls of the trace how fast its engines are, as a real one does that has
// just started: until it knows the speed of every engine, it goes by tokens to be read and calls.
//
// A fleet of known size is played with two rules of other proxies beside the edge's policies, and
// with two oracles, which know what no proxy can know. They show what a policy leaves on the table;
// they are no bound, as they think of one call at a time.
//
// Room for running requests counts a block that several share once, and a prompt behind another one
// in the line finds what that one will have read. The size of the cache is that of the room.
//
// What it does not know: failures, engines that start slowly, the edge's own microseconds, and how
// fast the hardware really is. The speeds are those that the operator gives.
package plan
