// Package proxy runs the edge. It connects the components and contains the public listener and the
// shutdown.
//
// # The path of a request
//
// Package listen accepts a connection and watches its framing. publicAPI rejects a request head
// that two parsers could interpret differently. If it can reject a request regardless of the body,
// it does so before the body is sent (precheck.go). It passes all other requests to their routes.
// Package call handles calls to generation endpoints (package endpoint), from the key check to the
// last byte.
//
//	call       one request: gate, loop, relay
//	  attempt    one attempt of a call: a lease, an exchange, the reading of the reply
//	    failure    what an error means for the call and its client
//	    endpoint   what differs between endpoints: three codecs, and the formats of errors
//	      body       request bodies: JSON, forms, their memory, and how fast clients send them
//	      snapshot   the configuration that a request uses
//
// Each of these packages imports only packages below it.
//
// # The process
//
//	run.go          from the command line to the end: ports, log, memory limit, certificate, edge
//	edge.go         Edge: the components and their connections; no request passes through it
//	public_api.go   the HTTP server of clients; routes.go, catalog_pages.go, api_documents.go
//	drain.go        the steps of a shutdown; shutdown.go: its state, and the second signal
//	signals.go      SIGTERM, SIGINT and the signals for a process that hangs
//	watchdog.go     keep-alive messages for a service manager
//
// A component receives its dependencies as options and functions, never the Edge.
//
// A drain closes the port first. It closes a connection once the client has received the response,
// or if no request is in flight (package listen). fasthttp's own shutdown comes last, because it
// closes keep-alive connections without checking them.
package proxy
