// Package client implements the client side of a request: dialects, connections, and facts about
// the response.
//
// A Sender writes a Request to a connection and reads the response into a Sample. It reads the
// clock once per socket read, and parses events in place. If one read returns more than one token
// event, only the first of them gets a time. The other events count as coalesced and have no gap.
// Tools that record a gap of microseconds for such events report a median ITL that no user has
// observed.
//
// An HTTP library would hide which bytes each read returned. The edge's client (upstreams/http1)
// rejects responses that it does not trust, whereas a load tester must report responses as it
// receives them. fasthttp parses the heads. As in every HTTP client, an idle connection that the
// server has closed is replaced once. The replacement is not a failure, but its time counts.
//
// Each dialect is an entry in a table. The entry defines how to write a request, and how to read an
// event and an unstreamed response. The only texts from a server in a Sample are identifiers.
package client
