// Package board shares two things between the edges of a fleet: how many calls each edge has at
// each upstream, and facts that one edge has learned.
//
// # Work
//
// An edge's work is the number of its calls at each upstream. An edge sends its work once a second.
// If the work has changed and any edge has calls, the edge sends it every 50 ms. The board is a
// single hash in the store, which only one script accesses. The script replaces the edge's previous
// work in the sums over all edges, and returns the sums. The size of a message therefore grows with
// the number of upstreams rather than with the number of edges.
//
// By subtracting its own work from the sums, an edge gets the work of the other edges
// (upstreams.Elsewhere). If an engine reports more work than all edges together, the additional
// work comes from outside the fleet.
//
// An edge's view of the other edges' work is about 50 ms old. All edges see the same sums. Until
// the next message, an edge therefore assumes that each other edge has sent an engine as many new
// calls as it has sent itself. When we tried messages every 100 ms, twice as many calls went to a
// full engine while another engine had a free slot.
//
// Each message has a number and contains all of an edge's work, so a lost, repeated or reordered
// message does no harm. The board drops the work of a dead or disconnected edge when its lease of
// three seconds expires. If an edge gets no answer for two seconds, it uses only its share of the
// slots.
//
// # Down
//
// Together with its work, an edge reports which upstreams it has found down. The other edges treat
// the report as a hint: they immediately probe the upstream. If they trusted the report, a network
// problem at one edge would make all edges stop using an engine.
//
// # Facts
//
// A fact has a name and a value. Every edge receives it in the answer to its next message. There
// are two kinds of facts:
//
//   - An operator's mode for an upstream. It applies until an operator sets a different mode.
//   - A request body that has killed an engine. It expires after a minute. Bodies are hashed with a
//     random seed that was chosen when the board was created.
//
// An edge repeats a fact until the board has acknowledged it. Facts are numbered, so the board
// applies each fact only once. If the store has lost all data, the edges send the modes again.
//
// If fleet.secrets is set, the edge at which an operator sets a mode signs the mode. The signature
// is valid for a week. After a day, any edge that knows the mode signs it again (package sign).
//
// The store contains no client data: the names of facts consist of hashes of upstream ids and
// bodies.
package board
