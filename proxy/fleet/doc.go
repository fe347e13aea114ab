// Package fleet lets several edges share key limits through one store: Valkey, or Redis 7.0 or
// later. It also tells each edge which other edges are members.
//
// # The account
//
// Each key has an account in the store: one hash, and one script that reads and writes it. The
// script runs atomically, so two edges are never granted the same amount. An account has a cell for
// each limit. A cell has the debt, which is the use that has not been paid off over time yet, and
// the amount that each edge holds. The limit minus both is free.
//
// An edge admits a call only from the amount that it holds. So the fleet never admits more than one
// edge with the complete limit would, even if messages are late, lost or repeated. If an edge holds
// too little, it asks the store (account.askStore), with one message for all waiting calls of the
// key, and waits for at most fleet.store.timeout. An edge holds a little more than it uses, so that
// calls rarely wait (cell.target), and returns the excess if it has received no call for some
// seconds.
//
// A repeated or lost message does no harm. Messages are numbered, the store ignores an older
// message after a newer one, and charges are reported as a sum since the start of the process.
// While a message is in flight, the edge uses only the amount that the message keeps, because the
// answer may be lost. If a connection ends while a message is in flight, for example to one node of
// a cluster, the edge sends the message once more over another connection. The message has failed
// only if the second attempt also fails. No counter is ever decremented, so nothing can leak. The
// amounts that a dead edge held are released after a lease of nine seconds: slots become free, but
// tokens and requests count as used.
//
// Requests for several keys at the same moment share a write, because the client pipelines them.
// Reports are sent one after the other. We tried eight reports in one write. On an idle machine
// each report then cost the edge 30 µs instead of 185 µs, and the store 39 µs instead of 130 µs.
// But with 10,000 keys on a busy machine, calls behind such bursts timed out five times as often,
// and the processor time of edge and store did not fall.
//
// Daily and monthly budgets are separate accounts, named after the period (budget.go). Charges to a
// budget are not paid off over time, and the store keeps each edge's reported use until the period
// ends. An edge with a ledger keeps its name after a restart, and reports the sum of all its
// processes.
//
// These alternatives were rejected. Counters with an expiry admit twice the limit around the ends
// of their windows, and stay too high when a decrement is lost. If edges exchange their counts
// afterwards, the fleet admits a third too much. If the limit is divided by the number of edges and
// a balancer sends all calls to one edge of five, only a fifth of the limit is admitted.
//
// # Turns
//
// An engine whose slots are counted exactly also has an account (turns.go), and its calls may wait
// in a queue. Edges with waiting calls take turns: the store keeps their order, reserves a free
// slot for the first edge, and publishes the reservation. An edge whose calls wait must ask the
// store even before it reuses a slot that it has freed itself. It also asks every 50 ms, because a
// message may have been lost. An edge's turn ends within a second after its last request.
//
// # Without the store
//
// Three calls that time out, or three messages without an answer, open a breaker. While it is open,
// no call waits for the store, and only the heartbeat asks the store, at once and then once a
// second. After the first failure, no more calls wait than are needed to open the breaker. Only a
// heartbeat that is answered within fleet.store.timeout closes the breaker, because with a slower
// store calls would time out again and again. While the breaker is open, `fleet.lost` decides what
// an edge does. The edge refuses nothing (open), refuses everything (closed), or continues with its
// share (divide). Its share is the amount that it holds, its share of the amount that was free at
// the last answer, and its share of the rate. For a key without a fresh answer the edge starts with
// one call. It also gets its share of the amount paid off since the store stopped answering, which
// is the complete share after a minute. When the store answers again, the edge reports the use in
// that time, and how much of it has been paid off. An answer that refuses a request about a key
// does not count as a failure for the breaker, and concerns that key alone (refusal.go). Edges
// reach the store again one after the other, and some may not have reported their use yet. So for
// two seconds each edge takes no more than its share of a key's limit.
//
// If a value of an account is not a finite number, the account starts at zero, as if the store had
// lost it. A comparison with NaN is always false, so the script would otherwise grant any request.
//
// If a store has lost all data, its accounts have a new birth (an id). Each edge then reports its
// charges that have not been paid off. For a budget it also reports the sum that all edges had
// reported, which counts until they report again. The amounts that the other edges hold are then
// unknown. So for the duration of a lease an edge takes no more than its share of the slots and of
// the remaining budget (cell.doubt).
//
// Only the store's clock is used, never the edges' clocks. The store's clock may jump. If the clock
// is set back, an account continues from its previous time (ahead, in account.lua). If the clock is
// set forward, leases of living edges end. So for the duration of a lease the other edges take no
// more than their share of the amount that was free before (clock.go).
//
// Edges do not trust the store's replies either. If a reply is malformed, or announces more than
// any valid reply can hold, the edge ends the connection before it allocates memory for the reply
// (bound.go). An unsolicited reply would make the client panic, so it also ends its connection. The
// same applies to a sentinel's message that lacks words that the client reads (asked.go).
//
// After a missing reply, each command would get the reply to the previous one. So the edge opens a
// new client after three failed heartbeats, and then after twice as many each time, up to 30. This
// also handles a fail-over behind one address. The old primary keeps its connections and becomes a
// replica, which refuses to write (READONLY) or waits for its primary (MASTERDOWN). After a dial or
// a failure the edge first asks the store for its ROLE. A replica counts as lost even if it accepts
// writes.
//
// # Who is believed
//
// With fleet.secrets, an entry for a member or for an operator's mode is valid only if an edge of
// the fleet has signed it (package sign). All other data in the store are numbers, which any writer
// to the store can change. An edge reads at most 256 members.
//
// # Files
//
// cell.go has the arithmetic of one limit, and account.go a key's decisions. flight.go has a key's
// messages, and report.go the reports that no call waits for. clock.go tracks the store's clock,
// and turns.go the order of edges whose calls wait for a slot. members.go has the heartbeats, and
// store.go the client with its breaker. script.go and account.lua have the protocol. Property tests
// run against a copy of the script in Go.
package fleet
