// Package fleet lets several edges share key limits through one store: Valkey, or Redis 7.0 or
// later. It also tells each edge which other edges are members.
//
// # The account
//
// Each key has an account in the store: one hash, and one script that reads and writes it. The
// script runs atomically, so two edges are never granted the same amount. An account has a cell for
// each limit. A cell has the debt, which is the use that time has not paid yet, and what each edge
// holds. The limit minus both is free.
//
// An edge admits a call only from what it holds. Therefore the fleet never admits more than one
// edge with the complete limit would, even if messages are late, lost or repeated. If an edge holds
// too little, it asks the store (account.askStore), with one message for all waiting calls of the
// key, and waits for at most fleet.store.timeout. An edge holds a little more than it uses, so that
// calls rarely wait (cell.target), and returns the excess when no call has come for some seconds.
//
// A repeated or lost message does no harm. Messages are numbered, the store ignores an older
// message after a newer one, and charges are reported as a sum since the start of the process.
// While a message is in flight, the edge uses only what the message keeps, because the answer may
// be lost. If a connection ends while a message is in flight, for example to one node of a cluster,
// the edge sends the message once more over another connection. The message has failed only if the
// second attempt also fails. No counter is ever decremented, so nothing can leak. What a dead edge
// held is released after a lease of nine seconds: slots become free, tokens and requests count as
// used.
//
// Requests for several keys at the same moment share a write, because the client pipelines them.
// Reports are sent one after the other. Eight reports in one write were tried. On an idle machine
// each report costs the edge 30 us instead of 185, and the store 39 instead of 130. But with 10,000
// keys on a busy machine, calls behind such bursts timed out five times as often, and the processor
// time of edge and store did not fall.
//
// Daily and monthly budgets are separate accounts, named after the period (budget.go). Time does
// not pay what is charged to a budget, and the store keeps each edge's reported use until the
// period ends. An edge with a ledger keeps its name across restarts, and reports the sum over all
// its processes.
//
// These alternatives were rejected. Counters with an expiry admit twice the limit around the ends
// of their windows, and stay too high when a decrement is lost. Counts that are exchanged
// afterwards admit a third too much. If the limit is divided by the number of edges and a balancer
// sends all calls to one of five, only a fifth is admitted.
//
// # Turns
//
// An engine whose slots are counted exactly also has an account (turns.go), and its calls may wait
// in a queue. Edges with waiting calls take turns: the store keeps their order, reserves a free
// slot for the first edge, and publishes the reservation. An edge whose calls wait asks the store
// even before it uses a slot that it has freed itself. It also asks every 50 ms, in case a message
// was lost. An edge's turn ends within a second after its last request.
//
// # Without the store
//
// Three calls that time out, or three messages without an answer, open a breaker. While it is open,
// no call waits, and only the heartbeat asks the store, at once and then once a second. After the
// first failure, no more calls wait than are needed to open the breaker. Only a heartbeat that is
// answered within fleet.store.timeout closes the breaker, because with a slower store calls would
// time out again and again. While the breaker is open, `fleet.lost` decides what an edge does. The
// edge refuses nothing (open), refuses everything (closed), or continues with its part (divide):
// what it holds, its part of what was free at the last answer, and its part of the rate. For a key
// without a fresh answer the edge begins with one call and with its part of what time has paid
// since the store fell silent, which is the complete part after a minute. When the store is back,
// the edge reports what was used meanwhile, and how much of that use time has paid. An answer that
// refuses a request about a key does not count as a failure for the breaker, and concerns that key
// alone (refusal.go). Edges find a store again one after the other, and some may not have reported
// their use yet. For two seconds each edge therefore takes no more than its part of a key's limit.
//
// An account with a value that is not a finite number starts at zero, as if the store had forgotten
// it, because a comparison with NaN is always false and would grant any request.
//
// A store that has forgotten everything has a new birth (an id). Each edge then reports the charges
// that time has not paid. For a budget it also reports what all edges had reported, which counts
// until they report again. The other edges' holds are then unknown, so for the length of a lease an
// edge takes no more than its part of the slots and of what is left of a budget (cell.doubt).
//
// Only the store's clock is used, never the edges' clocks. The store's clock may jump. If the clock
// is set back, an account continues from its previous time (ahead, in account.lua). If the clock is
// set forward, leases of living edges end. For the length of a lease the other edges therefore take
// no more than their part of what was free before (clock.go).
//
// Edges do not trust the store's replies either. A reply that is malformed, or that announces more
// than any valid reply can hold, ends its connection before memory is allocated for it (bound.go).
// An unsolicited reply, at which the client would panic, also ends its connection, and so does a
// sentinel's message that lacks words that the client reads (asked.go).
//
// After a missing reply, each command would get the reply to the previous one. The edge therefore
// opens a new client after three failed heartbeats, and then after twice as many each time, up to
// 30. This also handles a fail-over behind one address, after which the old primary keeps its
// connections and lives on as a replica, which refuses to write (READONLY) or waits for its primary
// (MASTERDOWN). After a dial or a failure the edge first asks the store for its ROLE: a replica
// counts as lost even if it accepts writes.
//
// # Who is believed
//
// With fleet.secrets, an entry for a member or for an operator's mode is valid only if an edge of
// the fleet has signed it (package sign). Everything else in the store consists of numbers, which
// any writer to the store can change. An edge reads at most 256 members.
//
// # Places
//
// cell.go holds the arithmetic of one limit, clock.go the edge's view of the store's clock,
// turns.go the order of edges whose calls wait for a slot, account.go a key's decisions, flight.go
// its messages, report.go the reports that no call waits for, members.go the heartbeats, store.go
// the client with its breaker, and script.go and account.lua the protocol. Property tests run
// against a twin of the script in Go.
package fleet
