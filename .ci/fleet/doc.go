// Command fleet checks the guarantees of a fleet of edges. Four edges that share a store must admit
// as many calls as a single edge would. The command also measures what happens to calls when the
// store hangs, dies or loses its data, when an edge is killed, and when a key is revoked.
//
//	go run ./.ci/fleet                 sends calls for 80 s; the events take another minute
//	go run ./.ci/fleet -duration 24s   a short run; rows without enough calls are "not exercised"
//
// It builds the program and starts all other processes itself: four edges, five simulated engines,
// and a valkey-server or redis-server from PATH. If neither server is in PATH, it exits with 1. It
// prints a table with a row for each goal. A row contains the bound, the measured value, and
// whether the goal holds. If a goal does not hold, the command exits with 99. If a short run cannot
// measure a goal, its row says where the goal is measured. On a busy machine, the rows in
// milliseconds measure the machine rather than the fleet.
//
// # How the rows are measured
//
// A client knows when it sent a call and when the answer ended. The edge made its decision in
// between. The fleet has certainly admitted too many calls if, within some span, the calls that
// were both sent and answered exceed the limit plus the refill (maxCallsOverLimit). Slow calls on a
// slow machine therefore do not count against the fleet. countAdmittedByOneEdge and
// countAdmittedBySlots compute, from the times at which calls were sent, how many calls a single
// edge with the whole limit would have admitted. countAdmittedBySplitLimit computes the same for
// four edges that each have a quarter of the limit.
//
//   - bursts: the refused calls of a key whose limits are high enough for all of its calls. The key
//     sends bursts of 1 to 100 calls to one edge, and single calls between the bursts. If the store
//     answered a call too late, the row is not exercised, because the edge then uses only its part
//     of the limit.
//   - waits: the edges' histogram penstock_fleet_wait_seconds. While the store is unreachable,
//     waits of more than 10 ms are useless.
//   - calls that wait in vain: the same histogram. An edge's breaker opens after three calls have
//     waited in vain. Calls that arrive before the first of these gives up (after 22.5 ms) also
//     wait. The keys at their limits send 41 calls a second to each edge. In one of 15 outages,
//     more than three calls therefore wait at an edge, and the row does not hold. This is not a
//     fault of the edge: until a request has failed, the store may be healthy, and a decision
//     without the store could be wrong.
//   - slots: the highest number of concurrent calls at the engines. As for the row of bursts, the
//     store must have answered all calls in time. An edge that does not get an answer may use its
//     part of the slots even though other edges use more than their parts.
//   - messages: penstock_fleet_messages_total per call.
//   - a script: the store's INFO commandstats, measured while this command sends the messages of
//     four edges about one key back to back. At other times during the run, most scripts run after
//     a pause. They then take two to four times as long, because the caches are cold.
//   - beyond the limit: the largest excess over the limit in any span of the outage, as a fraction
//     of a minute's limit.
//   - revoked: from the end of `penstock key revoke` to the first 401 at the last edge.
//   - usage: the result of /-/usage?fleet=true compared with the engines' counts, after the store
//     hung, died and lost its data. If an edge was killed, its calls in the last 1.1 s may be
//     missing.
//   - slots free: the time from SIGKILL of an edge that holds all slots of a key until another edge
//     gets these slots.
package main
