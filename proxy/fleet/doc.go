// Package fleet lets multiple edges share key limits through one store: Valkey, or Redis 7.0 or
// later. It also provides each edge with information about the other members.
//
// # The account
//
// Each key has an account in the store, which is a single hash. Only one script accesses the hash,
// atomically, so the store never grants the same amount to two edges. An account has one cell per
// limit. A cell contains the debt and the amount that each edge has been granted. The debt is the
// past usage that still counts. It decreases over time. The free amount is the limit minus the debt
// and the granted amounts.
//
// An edge admits calls only from the amount that it has been granted. The fleet therefore never
// admits more than a single edge with the entire limit would, even if messages are late, lost or
// repeated. If an edge has been granted too little, it asks the store (keyAccount.askStore). One
// message serves all waiting calls of a key, and each call waits for at most fleet.store.timeout.
// An edge prefetches a little more than it uses, so that calls rarely wait
// (limitCell.prefetchTarget). It returns the excess a few seconds after the last call.
//
// A repeated or lost message does no harm:
//
//   - Messages are numbered, and the store ignores a message that arrives after a newer one.
//   - Charges are reported as a sum since the process started. No counter is ever decremented, so
//     nothing can leak.
//   - While a message is in flight, the edge uses only the amounts that the message does not
//     return, because the answer may be lost.
//   - If the connection closes while a message is in flight, the edge sends the message once more
//     over another connection. The message fails only if the second attempt also fails. A cluster
//     closes such connections when a node restarts.
//
// If an edge dies, its lease expires after nine seconds, and the store releases the amounts granted
// to it. The slots become free. Tokens and requests count as used.
//
// Simultaneous requests for different keys share one write, because the client pipelines them.
// Reports are sent one after another. We also tried to write eight reports at a time. On an idle
// machine, each report then took the edge 30 µs instead of 185 µs, and the store 39 µs instead of
// 130 µs. However, with 10,000 keys on a busy machine, calls that queued behind these reports timed
// out five times as often. Neither the edge nor the store used less processor time.
//
// Daily and monthly budgets are separate accounts, named after the period (budget.go).
//
// We rejected these alternatives:
//
//   - Counters that expire. They admit twice the limit around the end of a window, and stay too
//     high if a decrement is lost.
//   - Exchanging counts afterwards. The fleet then admits a third more than the limit.
//   - Equal shares. If a load balancer sends all calls to one of five edges, the fleet admits only
//     a fifth of the limit.
//
// # Turns
//
// If the fleet counts the slots of an engine exactly, the engine also has an account, and calls may
// queue for a slot. The edges with queued calls take turns (turns.go). The store keeps these edges
// in order, reserves a free slot for the first edge, and publishes the reservation.
//
// # Without the store
//
// A breaker opens after three calls have timed out, or three messages have received no answer.
// While it is open, no call waits for the store, and the edge sends only heartbeats: one
// immediately, and then one per second. After the first failure, only as many calls wait as are
// needed to open the breaker. Calls that arrived before the first failure wait for their full
// timeout. The store may be healthy until then, and a decision without the store could wrongly
// admit or reject a call. The breaker closes only when a heartbeat is answered within
// fleet.store.timeout, because if the store is slower than that, calls would time out again.
//
// While the breaker is open, fleet.lost determines what an edge does:
//
//   - open: the edge does not enforce key limits.
//   - closed: the edge rejects the calls of all keys.
//   - divide: the edge continues with its share of each limit.
//
// With divide, an edge starts with the amounts granted to it, and with its share of the amount that
// was free at the last answer. After that, it earns its share of the rate (limitCell.goOffline,
// limitCell.accrueOffline). When the store answers again, the edge reports its usage during the
// outage, and how much of that usage no longer counts. Not all edges reach the store again at the
// same moment, and some may not have reported their usage yet. For two seconds, each edge therefore
// takes no more than its share of a key's limit.
//
// If a value in an account is not a finite number, the account starts at zero, as if the store had
// lost it. Otherwise, the script would grant every request, because every comparison with NaN is
// false.
//
// If a store has lost all data, the new accounts have different birth ids. Each edge then reports
// its charges that still count. For a budget, it also reports the last known sum over all edges,
// which counts until they report again. The store no longer knows the amounts granted to the edges.
// For the duration of a lease, an edge therefore takes no more than its share of the slots and of
// the remaining budget (limitCell.beginLossDoubt).
//
// Accounts use only the store's clock, never that of an edge. If the store's clock is set forward,
// the leases of live edges expire early. For the duration of a lease, each edge therefore takes no
// more than its share of the amount that was free before (clock.go).
//
// Edges do not trust the store's replies. If a reply is malformed or announces more data than any
// valid reply contains, the edge closes the connection before memory is allocated for the reply
// (bounded_conn.go). It also closes the connection after an unsolicited reply, or after a sentinel message
// that has fewer words than the client reads (reply_matcher.go). The client would panic in both cases.
//
// If the store skips a reply, each later command on the connection gets the reply to the command
// before it. The edge therefore opens a new client after three consecutive failed heartbeats. If
// the failures continue, it opens another client after 6, 12 and 24 more failed heartbeats, and
// then after every 30 failed heartbeats. On a new connection and after a failure, the edge first
// asks the store for its ROLE. A replica counts as lost even if it accepts writes.
//
// # Signatures
//
// If fleet.secrets is set, members' entries and operators' modes are valid only if an edge of the
// fleet has signed them (package sign). The other data that this package keeps in the store are
// numbers, which any client with write access to the store can change.
package fleet
