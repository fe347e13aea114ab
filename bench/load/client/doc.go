// Package client is the load tester's side of one request: the dialects, the connection, and what
// is known about the answer.
//
// A Sender writes a Request on a connection and reads the answer into a Sample. The clock is read
// once for each read of the socket, and events are parsed in place. If one read returns several
// token events, only the first event has a time. The others count as coalesced and produce no gap:
// tools that record such gaps of microseconds report a median ITL that no user ever saw.
//
// The client is our own, because a library would hide which bytes came in which read. The edge's
// client (upstreams/http1) would refuse what it does not trust, while a load tester must report
// what came. fasthttp parses heads. An idle connection that the server has meanwhile closed is
// replaced once, as in every HTTP client. This is not a failure, and the time for it counts.
//
// A dialect is one entry of a table: how a request is written, how an event and a whole answer are
// read. From a server's text, only identifiers get into a Sample.
package client
