// Package board shares facts between the edges of a fleet: how many calls each edge has at the
// engines, and what any of them has found out.
//
// # Work
//
// An edge sends its number of calls at each upstream once a second, and every 50 ms if a number has
// changed while the edge or the fleet has calls. The board is one hash in the store with one
// script. The script replaces the edge's previous work in the sums over all edges, and answers with
// the sums. The cost of a message therefore grows with the number of engines, and not with the
// number of edges. The difference between the sums and the edge's own work is the others' work
// (upstreams.Elsewhere). Every pick weighs the others' work, an upstream's limits include it, and
// the catalog shows the fleet's capacity. Any further work in an engine's report comes from outside
// the fleet.
//
// An edge knows the others' work as it was some 50 ms ago. Until the next message it assumes that
// each other edge has sent an engine as many calls as it has sent itself, because all edges see the
// same numbers. Calls that were placed by their conversation do not count for this assumption. With
// messages every 100 ms, twice as many calls went to a full engine while another had a free slot.
//
// Messages are numbered and contain all of an edge's work, so losing, repeating or reordering one
// does no harm. The work of an edge that is dead or cut off disappears with its lease of three
// seconds. An edge without an answer for two seconds falls back to its own part of the slots. The
// number of parts is the number of edges that the configuration expects or that were seen,
// whichever is greater.
//
// # Down
//
// With its work an edge reports which upstreams it has found down. This is only a hint: the others
// probe such an upstream at once. A bad network at one edge must not take an engine from all edges.
//
// # Facts
//
// A fact is a name and a value that every edge knows at its next message. There are two kinds of
// facts. An operator's mode stays until an operator sets another mode. The fact that an engine was
// lost to a body stays for a minute. The bodies are hashed with a random value that was chosen when
// the board was made. An edge repeats a fact until the board has answered. Facts are numbered, so
// the board applies each fact only once. When the store has forgotten everything, the edges send it
// the modes again.
//
// With fleet.secrets, the edge at which an operator set a mode signs the mode for a week. A day
// later any edge that knows the mode signs it again (package sign). An edge that reads an older
// mode than the one it knows replaces the older mode.
//
// The store holds nothing of clients: names are hashes of upstreams' ids, and of bodies.
package board
