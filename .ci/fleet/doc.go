// Command fleet measures what a fleet of edges promises: that four edges with one store admit as
// much as a single edge would, and what happens to calls when the store hangs, dies or loses its
// data, when an edge is killed, and when a key is revoked.
//
//	go run ./.ci/fleet                 makes calls for 80 s, and the events take a minute more
//	go run ./.ci/fleet -duration 24s   a short run: a row that it was too short for says "not exercised"
//
// It builds the program and starts everything itself: four edges, five simulated engines, and a
// valkey-server or redis-server from PATH, without which it exits with 1. It prints a table with a
// row for each goal: its bound, the measured value, and whether the goal holds. If a goal is
// missed, it exits with 99. A goal that one short run cannot measure also has a row, which says
// where it is measured. On a busy machine the rows with milliseconds measure the machine.
//
// # How a row is measured
//
// A client knows when it sent a call and when the answer ended; the edge decided in between. So the
// fleet has certainly admitted too many calls only if the calls that were both sent and answered
// within a span exceed the limit plus the span's refill (over). Delays of single calls on a slow
// machine thus do not count against the fleet. The times of sending determine how many calls one
// edge with the complete limit would have admitted (one, oneWithSlots). That number is compared
// with four edges that have a quarter each.
//
//   - bursts: the refused calls among bursts of 1 to 100 calls at one edge, together with single
//     ones, of a key that has room for all. Not exercised if the store answered too late for a
//     call, because its edge then has only its own part.
//   - waits: from the edges' own histogram penstock_fleet_wait_seconds, never from a client's
//     clock. Waits longer than 10 ms while the store is away are in vain.
//   - slots: the highest number of simultaneous calls at the engines.
//   - messages: penstock_fleet_messages_total per call.
//   - a script: from the store's INFO commandstats, which includes the time that a busy machine
//     takes away. Above the bound the row is not exercised, and the benchmark that it names
//     decides.
//   - beyond the limit: by how much the worst span exceeded the limit over the outage, as a
//     fraction of a minute's limit.
//   - revoked: from the end of `penstock key revoke` to the last edge's first 401.
//   - usage: /-/usage?fleet=true compared with the engines' own counts, after the store hung, died
//     and lost its data. The last 1.1 s of calls of a killed edge may be missing.
//   - slots free: from SIGKILL of an edge with all slots of a key until another edge has them.
package main
