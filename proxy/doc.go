// Package proxy is the edge as a process: how it is wired, its public listener, and its shutdown.
//
// # What happens to a request
//
// Package listen accepts a connection and watches its framing. publicAPI refuses a head that two
// parsers could read differently. If a refusal does not depend on the body, publicAPI refuses the
// request before the body is sent (precheck.go). It passes all other requests to their routes.
// Package call handles the calls of generation endpoints (package endpoint), from the check of the
// key to the last byte. The catalog and the API's description are not calls.
//
//	call       one request: gate, dispatch, relay
//	  attempt    one attempt of a call: a lease, an exchange, the reading of the reply
//	    failure    what an error means for the call and its client
//	    endpoint   what differs between endpoints: three codecs, and the shapes of errors
//	      body       the bytes of requests: JSON, forms, their memory and their pace
//	      snapshot   the configuration that a request uses
//
// Each of these packages imports only those below it. call.Services holds the components of the
// edge that calls share.
//
// # The process
//
//	run.go          from the command line to the end: ports, log, memory limit, certificate, edge
//	edge.go         Edge: the components and their connections; no request passes it
//	public_api.go   the HTTP server of clients; routes.go, catalog_pages.go, api_documents.go
//	drain.go        the steps of a shutdown; ending.go: its state, and the second signal
//	signals.go      SIGTERM, SIGINT and the signals for a process that hangs
//	watchdog.go     signs of life for a service manager
//
// Each component has a package: reload holds the running configuration (package snapshot) and
// replaces it, admin is the operator's listener, listen accepts connections, and observe counts. A
// component gets its dependencies as options and hooks, never the edge itself.
//
// A drain closes the port first. It closes a connection once the client has received the answer, or
// if no request is in flight (package listen). fasthttp's own shutdown comes last, because it
// closes keep-alive connections without checking them.
package proxy
