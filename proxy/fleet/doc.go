// Package fleet lets multiple edges share key limits through one store: Valkey, or Redis 7.0 or
// later. It also informs each edge about the other members.
//
// # The account
//
// Each key has an account in the store. An account is one hash. Only one script reads and writes
// it, atomically, so the store never grants the same amount to two edges. An account has a cell for
// each limit. A cell contains the debt and the amount that each edge holds. The debt is the past
// use that still counts; it decreases over time. The free amount is the limit minus the debt and
// the held amounts.
//
// An edge admits a call only from the amount that it holds. The fleet therefore never admits more
// than a single edge with the whole limit would, even if messages are late, lost or repeated. If an
// edge holds too little, it asks the store (account.askStore). One message serves all waiting calls
// of the key, and each call waits for at most fleet.store.timeout. An edge prefetches a little more
// than it uses, so that calls rarely wait (cell.target). It returns the excess some seconds after
// the last call.
//
// A repeated or lost message does no harm:
//
//   - Messages are numbered, and the store ignores an older message after a newer one.
//   - Charges are reported as a sum since the start of the process. No counter is decremented, so
//     nothing can leak.
//   - While a message is in flight, the edge uses only the amount that the message does not return,
//     because the answer may be lost.
//   - If a connection closes while a message is in flight, the edge sends the message once more
//     over another connection. The message has failed only if the second attempt also fails. A
//     cluster closes such connections when a node restarts.
//
// When an edge dies, its lease expires after nine seconds, and the store releases the amounts that
// the edge held. The slots become free. The tokens and the requests count as used.
//
// Simultaneous requests for different keys share one write, because the client pipelines them.
// Reports are sent one after the other. We also tried writing eight reports at a time. On an idle
// machine each report then cost the edge 30 µs instead of 185 µs, and the store 39 µs instead of
// 130 µs. But with 10,000 keys on a busy machine, calls that queued behind these reports timed out
// five times as often. Neither the edge nor the store used less processor time.
//
// Daily and monthly budgets are separate accounts, named after the period (budget.go).
//
// We rejected these alternatives:
//
//   - Counters that expire admit twice the limit around the end of their window, and remain too
//     high if a decrement is lost.
//   - If edges only exchange their counts afterwards, the fleet admits a third more than the limit.
//   - Equal shares fail if a load balancer sends all calls to one of five edges: the fleet then
//     admits only a fifth of the limit.
//
// # Turns
//
// If the slots of an engine are counted exactly, the engine has an account too, and calls may queue
// for a slot. Edges with queued calls take turns (turns.go). The store remembers their order,
// reserves a free slot for the first edge, and publishes the reservation.
//
// # Without the store
//
// A breaker opens after three calls have timed out or three messages have received no answer. While
// it is open, no call waits for the store, and the edge sends only heartbeats: one immediately, and
// then one each second. After the first failure, only as many calls wait as are needed to open the
// breaker. The breaker closes only when a heartbeat is answered within fleet.store.timeout, because
// with a slower store, calls would time out again.
//
// While the breaker is open, fleet.lost determines what an edge does:
//
//   - open: it does not enforce key limits.
//   - closed: it refuses the calls of all keys.
//   - divide: it continues with its share of each limit.
//
// If the setting is divide, an edge starts with the amount that it holds and its share of the
// amount that was free at the last answer. It then earns its share of the rate (cell.leave,
// cell.earn). When the store answers again, the edge reports its use during the outage, and how
// much of that use no longer counts. Edges reach the store again one after the other, and some may
// not have reported their use yet. For two seconds, each edge therefore takes no more than its
// share of a key's limit.
//
// If a value of an account is not a finite number, the account starts at zero, as if the store had
// lost it. Any comparison with NaN is false, so the script would otherwise grant every request.
//
// If a store has lost all data, its new accounts have different birth ids. Each edge then reports
// those of its charges that still count. For a budget, it also reports the last known sum for all
// edges, which counts until they report again. The store no longer knows the amounts that the edges
// hold. For the duration of a lease, an edge therefore takes no more than its share of the slots
// and of the remaining budget (cell.doubt).
//
// Accounts use only the store's clock, never an edge's clock. If the store's clock is set forward,
// the leases of live edges expire. For the duration of a lease, each edge therefore takes no more
// than its share of the amount that was free before (clock.go).
//
// Edges do not trust the store's replies. If a reply is malformed, or announces more data than any
// valid reply contains, the edge closes the connection before it allocates memory for the reply
// (bound.go). The edge also closes the connection on an unsolicited reply, or on a sentinel message
// with fewer words than the client reads (asked.go). Either would make the client panic.
//
// If the store skips a reply, each later command on the connection gets the reply to the previous
// command. The edge therefore opens a new client after three consecutive failed heartbeats. If the
// failures continue, it opens the next clients after another 6, 12 and 24 failed heartbeats, and
// then after every 30. On a new connection and after a failure, the edge first asks the store for
// its ROLE. A replica counts as lost even if it accepts writes.
//
// # Signatures
//
// If fleet.secrets is set, the entries of members and the modes that operators set are valid only
// if an edge of the fleet has signed them (package sign). The other data of this package in the
// store are numbers, which any client with write access to the store can change.
package fleet
