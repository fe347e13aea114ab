// Package client handles the load tester's side of one request: the dialects, the connection, and
// the facts about the answer.
//
// A Sender writes a Request on a connection and reads the answer into a Sample. The clock is read
// once per socket read, and events are parsed in place. If one read returns several token events,
// only the first event has a time. The other events count as coalesced and produce no gap, because
// tools that record such gaps of microseconds report a median ITL that no user ever saw.
//
// The client is our own, because a library would hide which bytes each read returned. The edge's
// client (upstreams/http1) would refuse an answer that it does not trust, while a load tester must
// report the answer as received. fasthttp parses heads. An idle connection that the server has
// meanwhile closed is replaced once, as in every HTTP client. The replacement is not a failure, and
// its time counts.
//
// A dialect is one entry of a table: how to write a request, and how to read an event and an
// unstreamed answer. The only text from a server that gets into a Sample is identifiers.
package client
