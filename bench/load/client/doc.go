// Package client is the load tester's side of one request: the dialects, the connection, and what
// is known of the answer.
//
// A Sender writes a Request on a connection and reads the answer into a Sample. The clock is read
// once for each read of the socket, and events are parsed in place. Of several token events in one
// read only the first has a time. The others count as coalesced, and make no gap: tools that book
// them as gaps of microseconds report a median ITL that no user ever saw.
//
// Why a client of our own: a library would hide which bytes came in which read, and the edge's
// client (upstreams/http1) refuses what it does not trust, where a load tester has to say what
// came. fasthttp parses heads. An idle connection that the server has closed meanwhile is replaced
// once, as every HTTP client does; it is no failure, and its time counts.
//
// A dialect is one entry of a table: how a request is written, how an event and a whole answer are
// read. No text of a server gets into a Sample but identifiers.
package client
