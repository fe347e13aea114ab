// Package board lets the edges of a fleet know of each other's work at the engines, and shares what
// one of them has found out.
//
// # Work
//
// An edge sends how many calls it has at each upstream: every 50 ms, if that has changed and it or
// the fleet has calls, and once a second in any case. The board is one hash in the store with one
// script. The script replaces the edge's previous work in the sums of all, and answers with the
// sums. So the cost of a message grows with the number of engines, not with that of edges. The
// difference between the sums and the edge's own work is the work of others (upstreams.Elsewhere):
// every pick weighs it, it counts for the limits of an upstream, and the catalog's capacity is the
// fleet's. Anything beyond that in an engine's report is work from outside the fleet.
//
// An edge knows what the others had some 50 ms ago. Until the next message it assumes that they
// have sent as much to an engine as it has itself, since they see the same numbers; calls that were
// placed by their conversation do not count for that. With messages every 100 ms twice as many
// calls went to a full engine beside a free one.
//
// Messages are numbered and contain all of an edge's work, so losing, repeating or reordering one
// does no harm. The work of an edge that is dead or cut off disappears with its lease of three
// seconds. An edge without an answer for two seconds falls back to its own part of the slots: one
// part for each edge that the configuration expects, or that was seen, if those are more.
//
// # Down
//
// With its work an edge says which upstreams it has found down. That is a hint, not a verdict: the
// others probe such an upstream at once. One edge's bad network must not take an engine from all.
//
// # Facts
//
// A fact is a name and a value that every edge knows at its next message. The facts are the modes
// that operators have asked for, which stay until another is asked for, and which engines were lost
// to which bodies, for a minute. The bodies are hashed with a random value that was chosen when the
// board was made. An edge repeats a fact until the board has answered; facts are numbered, so the
// board takes each one only once. When the store has forgotten everything, the edges send it the
// modes again.
//
// With fleet.secrets modes are signed, for a week, by the edge that was asked, and a day later
// again by any edge that knows them (package sign). If a mode is older than the one that an edge
// knows, the edge replaces it.
//
// The store holds nothing of clients: names are hashes of upstreams' ids, and of bodies.
package board
