// Package scenario holds the bundled scenarios, and starts the fleets that they run against.
//
// A scenario (scenarios/*.yaml) is a named set of flags for `bench run`, so a run can also be
// described, changed and repeated without the scenario. Its fleet consists of simulated engines and
// an edge, which are child processes of this program. One command therefore rehearses a failover or
// a reload. Its events act on that fleet: a KILL signal to an engine's process, a new configuration
// for the edge, calls with several keys.
package scenario
