// Package board shares two things among the edges of a fleet: how many calls each edge has at each
// upstream, and facts learned by one edge.
//
// # Work
//
// An edge's work is the number of its calls at each upstream. An edge sends its work once a second.
// If the work has changed and at least one edge has calls, the edge sends it every 50 ms. The board
// is a single hash in the store, and only one script accesses it. The script replaces the edge's
// previous work in the sums over all edges, and returns these sums. The size of a message therefore
// grows with the number of upstreams rather than with the number of edges.
//
// An edge subtracts its work from the sums to get the work of the other edges
// (upstreams.OtherEdgesWork). If an engine reports more work than all edges together, the excess
// comes from outside the fleet.
//
// An edge's view of the other edges' work is about 50 ms old. All edges see the same sums. Until
// the next message, an edge therefore assumes that each of the other edges has sent as many new
// calls to an engine as this edge has. When we tried one message every 100 ms, twice as many calls
// went to a full engine while another engine had a free slot.
//
// Each message has a number and contains all of an edge's work, so losing, repeating or reordering
// messages does no harm. If an edge dies or is disconnected, its lease of three seconds expires,
// and the board drops its work. If an edge gets no answer for two seconds, it uses only its share
// of the slots.
//
// # Down
//
// Along with its work, an edge reports which upstreams it has found down. The other edges treat
// such a report as a hint, and immediately probe the upstream. If they trusted the report, a
// network problem at one edge would make all edges stop using an engine.
//
// # Facts
//
// A fact has a name and a value. Every edge receives a new fact in the answer to its next message.
// There are two kinds of facts:
//
//   - The mode that an operator has set for an upstream. It applies until an operator sets another
//     mode, even if the upstream is removed from an edge and returns.
//   - A request body that has crashed an engine. It expires after a minute. Bodies are hashed with
//     a random seed that is chosen when the board is created.
//
// An edge repeats a fact until the board has acknowledged it. Facts are numbered, so the board
// applies each fact only once. If the store has lost all data, the edges send the modes again.
//
// If fleet.secrets is set, a mode is signed by the edge on which the operator sets it. The
// signature is valid for a week. After a day, any edge that has the upstream signs it again
// (package sign). The board drops a mode whose signature has expired, so modes of removed upstreams
// do not accumulate. If no edge has had an upstream for a week, the upstream may therefore return
// without its mode.
//
// Without fleet.secrets, modes of removed upstreams are kept, and apply whenever the upstream
// returns. Each mode takes some 100 bytes in the store, and in the answer that follows a new fact.
// Modes of removed upstreams that edges of older versions have set are also kept.
//
// The store contains no client data. The names of facts are hashes of upstream ids and bodies.
package board
