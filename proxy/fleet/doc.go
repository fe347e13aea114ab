// Package fleet lets several edges hold the limits of keys together, by one store: a Valkey, or a
// Redis from 7.0 on. It tells them of each other, too.
//
// # The account
//
// Each key has an account in the store: one hash, and one script that reads and writes it. The
// script runs as a whole, so no two edges are ever granted the same. An account has a cell for each
// limit: debt, what was used and time has not paid yet; and what each edge holds. Free is the limit
// less both.
//
// An edge admits a call only from what it holds. So the fleet never admits more than one edge with
// the whole limit would, whatever is late, lost or repeated on the way. Where an edge holds too
// little it asks (account.draw), all calls of the key together in one message, and waits for at
// most fleet.store.timeout. To have it wait seldom it holds a little more than it uses
// (cell.target), and gives that back when no call has come for some seconds.
//
// Messages are made so that it does no harm to send them twice or to lose them: they are numbered,
// an older one is not heard after a newer one, and what was charged is told as a sum since the
// start of the process. While a message is under way the edge uses only what it said it would
// keep, as the answer may be lost. Where a connection ends under a message, as of one node of a
// cluster, it is sent once more over another one; only if that fails, too, has it failed. Nothing
// is ever counted down, so nothing can leak: what a dead edge held comes back after a lease of nine
// seconds, slots as free, tokens and requests as used.
//
// Draws of several keys at one moment share a write, as the client pipelines them. Reports go one
// after the other. Eight in a write were tried: alone on a machine each costs an edge 30 us in
// place of 185 and the store 39 in place of 130. But with 10,000 keys on a busy one, calls behind
// such bursts waited in vain five times as often, and the processor time of neither fell.
//
// Budgets of days and months are accounts of their own, named by the period (budget.go). Nothing
// pays what they were charged, and the store keeps what each edge has told of its use as long as
// the period lasts. An edge with a ledger keeps its name over restarts and tells the sum of all.
//
// Alternatives that were not taken: counters with an expiry let twice the limit through at the
// edges of their window, and stick when a decrement is lost; counts that are exchanged afterwards
// let a third too much through; a division by the number of edges lets a fifth through when a
// balancer sends all calls to one of them.
//
// # Turns
//
// The slots of an engine that are held exactly are such an account, too (turns.go), whose calls may
// wait in a queue. Edges with calls that wait take turns: the store keeps their order, sets a free
// slot aside for the first, and publishes that. An edge whose calls wait uses no slot that has come
// free at itself before it has asked. It asks every 50 ms besides, should a word be lost; its turn
// ends within a second after it has asked last.
//
// # Without the store
//
// Three calls that wait in vain, or messages without an answer, open a breaker: then nobody waits,
// and the heartbeat alone asks again, at once and then once a second. After the first of them no
// more calls wait than that. Only a heartbeat that is answered within fleet.store.timeout closes
// the breaker: at a store that answers later calls would wait in vain again and again. By
// `fleet.lost` an edge then refuses nothing (open), everything (closed), or goes on with its part
// (divide): what it holds, its part of what was free by the last answer, and its part of the rate.
// For a key without a fresh answer that begins with its part of what time has paid since the store
// fell silent, which is all of it after a minute, and with one call. What was used
// meanwhile is told when the store is back, with how much of it time has paid. An answer that
// refuses what was asked of a key is no such failure, and that key's alone (refusal.go). Edges find
// a store again one after the other. So for two seconds each takes no more of a key than its part:
// others may not have told yet what they used.
//
// An account that holds anything but finite numbers begins again, as if the store had forgotten it:
// a comparison with nan is always false, and would grant whatever an edge asks.
//
// A store that has forgotten everything gives another birth; then each edge tells what it has
// charged itself and time has not paid. Of a budget it tells what all had told, too, which counts
// until they tell again. What others hold is not known then: for a lease an edge takes no more than
// its part of the slots and of what was left of a budget (cell.doubt).
//
// The clocks of edges are never used. The store's may jump: set back, an account goes on from the
// time where it was (ahead, in account.lua); set forward, leases end whose edges are alive, so that
// the other edges take no more for a lease than their part of what was free before (clock.go).
//
// What the store sends is not trusted either: a reply that announces more than any of ours can be,
// or has no form, ends its connection before room is made for it (bound.go); so does a reply that
// nobody has asked for, at which the client panics, and what a sentinel says without the words that
// the client takes from it (asked.go). Where one was left out each command gets the reply of the one
// before it then.
//
// So the client is made anew after three failed heartbeats, and then after twice as many each time,
// up to 30. That also follows a fail-over behind one address, after which the old primary lives on
// as a replica with its connections: it refuses to write (READONLY), or waits for its primary
// (MASTERDOWN). A store that is dialled, or has failed, is asked for its ROLE first: a replica is
// lost even where it takes writes.
//
// # Who is believed
//
// With fleet.secrets an edge is a member, and an operator's mode counts, only where an edge of the
// fleet has signed it (package sign); the rest of what the store holds are numbers, which its writers
// can change. At most 256 members are taken over.
//
// # Places
//
// cell.go is the arithmetic of one limit, clock.go what is known of the store's clock, turns.go the
// order of edges whose calls wait for a slot, account.go a key's decisions and messages, report.go
// what is told without a call that asks, members.go the heartbeats, store.go the client with its
// breaker, script.go and account.lua what is said. Properties run against a twin of the script in
// Go.
package fleet
