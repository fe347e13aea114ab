// Package proxy is the edge as a process: its wiring, its public listener, its shutdown.
//
// # What happens to a request
//
// Package listen accepts a connection and watches its framing. publicAPI refuses a head that two
// parsers could read differently, and refuses what needs no body before the body is sent
// (precheck.go). It passes all other requests to their routes. Package call handles the calls of
// generation endpoints (package endpoint), from the check of the key to the last byte. The catalog
// and the API's description are not calls.
//
//	call       one request: gate, dispatch, relay
//	  attempt    one try of it: a lease, an exchange, the reading of the reply
//	    failure    what it means that something went wrong
//	    endpoint   what differs between endpoints: three codecs, and the shapes of errors
//	      body       the bytes of requests: JSON, forms, their memory and their pace
//	      snapshot   the configuration that a request runs under
//
// Each of these imports only those below it. call.Services holds what calls share of the edge.
//
// # The process
//
//	run.go          from the command line to the end: ports, log, memory limit, certificate, edge
//	edge.go         Edge: the parts and what connects them; nothing of it is on a request's path
//	public_api.go   the HTTP server of clients; routes.go, catalog_pages.go, api_documents.go
//	drain.go        the steps of the end; ending.go: its state, and the operator's hurry
//	signals.go      SIGTERM, SIGINT and those for a process that hangs
//	watchdog.go     signs of life for a service manager
//
// Each component has a package: reload holds the running configuration (package snapshot) and
// replaces it, admin is the operator's listener, listen accepts connections, and observe counts. A
// component gets its dependencies as options and hooks, never the edge itself.
//
// A drain closes the port first. It closes a connection when the client has received the answer, or
// has no request on its way (package listen). fasthttp's own shutdown comes last, because it closes
// kept connections without checking them.
package proxy
