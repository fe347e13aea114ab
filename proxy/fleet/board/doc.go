// Package board has the edges of a fleet know of each other's work at the engines, and of what one
// of them has found out for all.
//
// # Work
//
// Every 50 ms an edge with calls, or in a fleet with calls, sends how many it has at each upstream,
// if that has changed, and once a second in any case. The board is one hash in the store with one
// script. It puts the edge's work in the place of what it was before in the sums of all, and
// answers with the sums. So a message costs the store as much as there are engines, however many
// edges there are. What the sums have beyond the edge's own work is that of others
// (upstreams.Elsewhere): it is weighed in every pick, it counts for the limits of an upstream, and
// the catalog's capacity is the fleet's. What an engine reports beyond all of that is work from
// outside of the fleet.
//
// An edge knows what the others had some 50 ms ago. Until the next message it takes them to have
// sent as much to an engine as it has itself, since they see the same numbers; calls that went there
// for their conversation's sake do not count for that. With messages every
// 100 ms twice as many calls went to a full engine beside a free one.
//
// Messages are numbered and tell all of an edge's work, so it does no harm to lose one, to send it
// twice or to have it overtaken. The work of an edge that is dead or cut off goes with its lease of
// three seconds. An edge without an answer for two seconds has its own part of the slots again: one
// for each edge that the configuration expects, or that was seen, if those are more.
//
// # Down
//
// With its work an edge says which upstreams it has found down. That is a hint, and no verdict: the
// others probe such an upstream at once. One edge's bad network must not take an engine from all.
//
// # Facts
//
// A fact is a name and a value that every edge knows at its next message: the modes that operators
// have asked for, which stay until another is asked for, and which engines were lost to which
// bodies, for a minute. The bodies are hashed under a random value that the board was made with. A
// fact is sent until the board has answered, and heard once, by its number. When the store has
// forgotten everything the edges tell it the modes again.
//
// With fleet.secrets modes are signed, for a week, by the edge that was asked, and again by any edge
// that knows them, a day later (package sign). One that is older than what an edge knows is replaced
// by that.
//
// Nothing in the store is a client's: names are hashes of upstreams' ids, and of bodies.
package board
