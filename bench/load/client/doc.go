// Package client implements the client side of a request: dialects, connections, and the facts
// recorded about a response.
//
// A Sender writes a Request to a connection and reads the response into a Sample. It reads the
// clock once per socket read, and parses events in place. If one read returns more than one token
// event, only the first event gets a timestamp. The other events count as coalesced and have no
// gap. Tools that record a gap of microseconds for such events report a median ITL that no user has
// observed.
//
// An HTTP library would hide which bytes each read returned. The edge's client (upstreams/http1)
// rejects responses that it does not trust, whereas a load tester must report responses as it
// receives them. fasthttp parses the heads. If the server has closed an idle connection, the
// request is sent once more on a new connection, as in every HTTP client. This is not a failure,
// but the time it takes is part of the latency.
//
// Each dialect is an entry in a table. The entry defines how to write a request, how to read an
// event, and how to read an unstreamed response. A Sample contains no text from a server except
// identifiers.
package client
