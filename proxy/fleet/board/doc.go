// Package board shares facts between the edges of a fleet: how many calls each edge has at the
// engines, and what any edge has found out.
//
// # Work
//
// An edge sends its number of calls at each upstream once a second, and every 50 ms if a number has
// changed and the edge or the fleet has calls. The board is one hash in the store with one script.
// The script replaces the edge's previous work in the sums over all edges, and answers with the
// sums. The cost of a message therefore grows with the number of engines, and not with the number
// of edges. The sums minus the edge's own work are the other edges' work (upstreams.Elsewhere).
// Every pick weighs the other edges' work, an upstream's limits include it, and the catalog shows
// the fleet's capacity. Further work that an engine reports comes from outside the fleet.
//
// An edge knows the other edges' work as it was some 50 ms ago. Until the next message it assumes
// that each other edge has sent an engine as many calls as it has itself, because all edges see the
// same numbers. Calls whose conversation determined the engine do not count here. With messages
// every 100 ms, twice as many calls went to a full engine while another had a free slot.
//
// Messages are numbered and contain all of an edge's work, so that a lost, repeated or reordered
// message does no harm. The work of an edge that is dead or cut off disappears with its lease of
// three seconds. An edge without an answer for two seconds falls back to its own part of the slots.
// The number of parts is the configured or the last seen number of edges, whichever is greater.
//
// # Down
//
// With its work an edge reports which upstreams it has found down. The report is only a hint: the
// other edges probe such an upstream at once. A bad network at one edge must not take an engine
// from all edges.
//
// # Facts
//
// A fact is a name and a value that every edge knows at its next message. There are two kinds of
// facts. An operator's mode stays until an operator sets another mode. The fact that an engine was
// lost to a request body stays for a minute. Bodies are hashed with a random value that was chosen
// when the board was created. An edge repeats a fact until the board has answered. Facts are
// numbered, so the board applies each fact only once. If the store has forgotten everything, the
// edges send the modes again.
//
// With fleet.secrets, the edge at which an operator set a mode signs the mode for a week. A day
// later any edge that knows the mode signs it again (package sign). An edge that reads an older
// mode than it knows replaces the older mode.
//
// The store holds no client data: names are hashes of upstream ids and of bodies.
package board
