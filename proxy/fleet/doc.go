// Package fleet lets several edges share the limits of keys through one store: a Valkey, or a Redis
// from 7.0 on. It also tells the edges of each other.
//
// # The account
//
// Each key has an account in the store: one hash, and one script that reads and writes it. The
// script runs as a whole, so no two edges are ever granted the same. An account has a cell for each
// limit. A cell holds the debt, which is what was used and time has not paid yet, and what each
// edge holds. The limit less both is free.
//
// An edge admits a call only from what it holds. So the fleet never admits more than one edge with
// the whole limit would, whatever is late, lost or repeated on the way. If an edge holds too little
// it asks (account.draw), all calls of the key together in one message, and waits for at most
// fleet.store.timeout. To wait seldom it holds a little more than it uses (cell.target), and gives
// that back when no call has come for some seconds.
//
// Repeating or losing a message does no harm. Messages are numbered, an older one is ignored after
// a newer one, and charges are reported as a sum since the start of the process. While a message is
// under way the edge uses only what it said it would keep, because the answer may be lost. If a
// connection ends while a message is under way, such as the connection to one node of a cluster,
// the edge sends the message once more over another one. The message has failed only if that fails,
// too. Nothing is ever counted down, so nothing can leak: what a dead edge held comes back after a
// lease of nine seconds, slots as free, tokens and requests as used.
//
// Draws of several keys at the same moment share a write, because the client pipelines them.
// Reports go one after the other. Eight in a write were tried: alone on a machine each costs an
// edge 30 us instead of 185, and the store 39 instead of 130. But with 10,000 keys on a busy one,
// calls behind such bursts waited in vain five times as often, and the processor time of neither
// fell.
//
// Budgets of days and months are accounts of their own, named by the period (budget.go). Time does
// not pay what they were charged, and the store keeps each edge's reported use as long as the
// period lasts. An edge with a ledger keeps its name over restarts and reports the sum of all.
//
// Rejected alternatives: Counters with an expiry let twice the limit through at the edges of their
// window, and stick when a decrement is lost. Counts that are exchanged afterwards let a third too
// much through. A division by the number of edges lets a fifth through when a balancer sends all
// calls to one of them.
//
// # Turns
//
// The slots of an engine that are counted exactly are such an account, too (turns.go), whose calls
// may wait in a queue. Edges with waiting calls take turns: the store keeps their order, sets a
// free slot aside for the first, and publishes that. An edge whose calls wait does not use a slot
// that it has freed itself before it has asked. It also asks every 50 ms, in case a message was
// lost. Its turn ends within a second after it last asked.
//
// # Without the store
//
// Three calls that wait in vain, or messages without an answer, open a breaker. Then no call waits,
// and only the heartbeat asks again, at once and then once a second. After the first of them, no
// more calls wait than it takes to open the breaker. Only a heartbeat that is answered within
// fleet.store.timeout closes the breaker: with a store that answers later, calls would wait in vain
// again and again. Depending on `fleet.lost` an edge then refuses nothing (open), everything
// (closed), or continues with its part (divide): what it holds, its part of what was free at the
// last answer, and its part of the rate. For a key without a fresh answer it begins with its part
// of what time has paid since the store fell silent, which is all of it after a minute, and with
// one call. When the store is back, the edge reports what was used meanwhile, and how much of it
// time has paid. An answer that refuses a request about a key is not such a failure, and concerns
// that key alone (refusal.go). Edges find a store again one after the other. So for two seconds
// each takes no more of a key than its part: others may not have reported their use yet.
//
// An account that holds anything but finite numbers begins again, as if the store had forgotten it:
// a comparison with nan is always false, and would grant whatever an edge asks.
//
// A store that has forgotten everything has a new birth (an id). Then each edge reports what it has
// charged itself and time has not paid. Of a budget it also reports what all edges had reported,
// which counts until they report again. The holds of other edges are unknown then: for a lease an
// edge takes no more than its part of the slots and of what was left of a budget (cell.doubt).
//
// The clocks of edges are never used. The store's clock may jump. If it is set back, an account
// continues from its previous time (ahead, in account.lua). If it is set forward, leases of living
// edges end, so for a lease the other edges take no more than their part of what was free before
// (clock.go).
//
// Edges do not trust the store's replies either. A reply that is malformed, or announces more than
// any of ours can be, ends its connection before memory is allocated for it (bound.go). So does an
// unsolicited reply, at which the client panics, and a sentinel's message without the words that
// the client takes from it (asked.go). After a missing reply, each command would get the reply to
// the one before it.
//
// So the client is made anew after three failed heartbeats, and then after twice as many each time,
// up to 30. This also handles a fail-over behind one address. After it the old primary lives on as
// a replica, with its connections, and refuses to write (READONLY) or waits for its primary
// (MASTERDOWN). A store that is dialled, or has failed, is asked for its ROLE first: a replica
// counts as lost even if it takes writes.
//
// # Who is believed
//
// With fleet.secrets an edge is a member, and an operator's mode is valid, only if an edge of the
// fleet has signed it (package sign). Everything else in the store is numbers, which any writer to
// the store can change. At most 256 members are taken over.
//
// # Places
//
// cell.go is the arithmetic of one limit, clock.go what is known of the store's clock, turns.go the
// order of edges whose calls wait for a slot, account.go a key's decisions and messages, report.go
// the reports that no call asks for, members.go the heartbeats, store.go the client with its
// breaker, script.go and account.lua the protocol. Property tests run against a twin of the script
// in Go.
package fleet
