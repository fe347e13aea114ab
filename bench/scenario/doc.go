// Package scenario contains the bundled scenarios, and starts their fleets.
//
// A scenario (scenarios/*.yaml) is a named set of flags for `bench run`. Its run can therefore also
// be described, changed and repeated with flags alone. The fleet of a scenario consists of
// simulated engines and an edge, which are child processes of this program. A single command can
// therefore rehearse a failover or a reload. Events act on the fleet. They kill an engine, change
// the edge's configuration, or send calls with more than one key.
package scenario
