// Package scenario has the bundled scenarios, and the fleet that one plays on.
//
// A scenario (scenarios/*.yaml) is flags of `bench run` with a name: what it does can be said,
// changed and repeated without it. Its fleet is simulated engines and an edge, started as child
// processes of this very program, so that one command rehearses a failover or a reload. Its events
// act on that fleet: KILL to an engine's process, a new configuration for the edge.
package scenario
