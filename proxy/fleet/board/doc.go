// Package board shares facts between the edges of a fleet: how many calls each edge has at the
// engines, and facts that one edge has found out.
//
// # Work
//
// An edge sends its number of calls at each upstream once a second, and every 50 ms if a number has
// changed and the edge or the fleet has calls. The board is one hash in the store with one script.
// The script replaces the edge's previous work in the sums over all edges, and answers with the
// sums. So the cost of a message grows with the number of engines, not with the number of edges.
// The sums minus the edge's own work are the other edges' work (upstreams.Elsewhere). Every pick
// considers the other edges' work, an upstream's limits include it, and the catalog shows the
// fleet's capacity. If an engine reports more work than that, the additional work comes from
// outside the fleet.
//
// What an edge knows about the other edges' work is about 50 ms old. Until the next message it
// assumes that each other edge has sent an engine as many calls as this edge, because all edges see
// the same numbers. Calls whose conversation determined the engine do not count in this assumption.
// With messages every 100 ms, twice as many calls went to a full engine while another had a free
// slot.
//
// Messages are numbered and contain all of an edge's work, so that a lost, repeated or reordered
// message does no harm. The work of an edge that is dead or cut off disappears with its lease of
// three seconds. An edge without an answer for two seconds falls back to its own share of the
// slots. The number of shares is the configured or the last seen number of edges, whichever is
// greater.
//
// # Down
//
// Together with its work an edge reports which upstreams it has found down. The report is only a
// hint, and makes the other edges probe such an upstream at once. A bad network at one edge must
// not make all edges stop using an engine.
//
// # Facts
//
// A fact is a name and a value that every edge gets with its next message. There are two kinds of
// facts. An operator's mode stays until an operator sets another mode. The fact that a request body
// has killed an engine stays for a minute. Bodies are hashed with a random value that was chosen
// when the board was created. An edge repeats a fact until the board has answered. Facts are
// numbered, so the board applies each fact only once. If the store has lost all data, the edges
// send the modes again.
//
// With fleet.secrets, the edge at which an operator set a mode signs the mode for a week. After a
// day any edge that knows the mode signs it again (package sign). An edge that reads an older mode
// than the one it knows replaces the older mode.
//
// The store holds no client data, because the names are hashes of upstream ids and of bodies.
package board
