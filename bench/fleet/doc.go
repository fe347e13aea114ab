// Package fleet measures what a fleet of edges promises (`penstock bench --scenario fleet`): that
// four edges with one store admit what one edge would, and what happens to calls when the store
// hangs, dies or forgets, an edge is killed or a key is revoked.
//
// It starts all of them itself, as processes of this program and a Valkey or Redis from PATH. It
// prints a table with a row for each goal: its bound, what was measured, and whether it holds. What
// cannot be measured by one short run has a row, too, which says where it is measured.
//
// # How a limit is judged
//
// A client knows of a call when it was sent and when its answer had ended; the edge decided in
// between. So more than a limit allows was admitted surely only where calls that were sent and
// answered within a span are more than the limit and what the span refills (over). What a slow
// machine does to single calls is then no error of the fleet. How many calls one edge with the
// whole limit would have admitted follows from the times of sending (one, oneWithSlots).
//
// Waits for the store are those of the edges' own histograms, and slots in use those of the
// engines: neither is taken from the clients' clocks.
package fleet
