// Package scenario holds the bundled scenarios, and the fleet that a scenario plays on.
//
// A scenario (scenarios/*.yaml) is a named set of flags of `bench run`: it can be described,
// changed and repeated without the scenario. Its fleet is simulated engines and an edge, started as
// child processes of this program, so that one command rehearses a failover or a reload. Its events
// act on that fleet: KILL to an engine's process, a new configuration for the edge, calls of
// several keys.
package scenario
