// Command fleet measures what a fleet of edges promises: that four edges with one store admit what
// one edge would, and what happens to calls when the store hangs, dies or forgets, an edge is killed
// or a key is revoked.
//
//	go run ./.ci/fleet                 calls come for 80 s, and the events take a minute more
//	go run ./.ci/fleet -duration 24s   in short: a row that the run was too short for says "not exercised"
//
// It builds the program and starts all of them itself: four edges, five simulated engines, and a
// valkey-server or redis-server from PATH, without which it ends with 1. It prints a table with a row for each goal: its
// bound, what was measured, and whether it held. A goal that was missed ends it with 99. What cannot be
// measured by one short run has a row, too, which says where it is measured. On a busy machine the
// rows with milliseconds are those of the machine.
//
// # How a row is measured
//
// A client knows of a call when it was sent and when its answer had ended; the edge decided in
// between. So more than a limit allows was admitted surely only where calls that were sent and
// answered within a span are more than the limit and what the span refills (over). What a slow
// machine does to single calls is then no error of the fleet. How many calls one edge with the
// whole limit would have admitted follows from the times of sending (one, oneWithSlots); beside it
// stand four edges with a quarter each.
//
//   - bursts: 1 to 100 calls at once at one edge, beside single ones, of a key that has room for
//     all: calls that were refused. Not exercised where the store answered too late for one, as its
//     edge then has only its part.
//   - waits: those of the edges' own histogram penstock_fleet_wait_seconds, never a client's clock; in
//     vain are those longer than 10 ms while the store is away.
//   - slots: the engines' highest number of calls at once.
//   - messages: penstock_fleet_messages_total a call.
//   - a script: by the store's INFO commandstats, which has the time that a busy machine takes away:
//     above the bound it is not exercised, and the benchmark that the row names decides.
//   - beyond the limit: by how much the worst span grew over the outage, of a minute's limit.
//   - revoked: from the end of `penstock key revoke` to the last edge's first 401.
//   - usage: /-/usage?fleet=true against the engines' own counts, after the store hung, died and lost
//     its data; of an edge that is killed, the calls of its last 1.1 s may be missing.
//   - slots free: from SIGKILL of an edge with all slots of a key until another has them.
package main
