// Package proxy is the edge as a process: its wiring, its public listener, its end.
//
// # What happens to a request
//
// A connection is accepted and its framing watched by package listen. publicAPI refuses a head that
// two parsers could read differently, refuses what needs no body before the body is sent
// (precheck.go), and hands the rest to its route: a generation endpoint (package endpoint), whose
// calls package call takes from their key to their last byte; the catalog and the API's
// description, which are no calls.
//
//	call       one request: gate, dispatch, relay
//	  attempt    one try of it: a lease, an exchange, the reading of the reply
//	    failure    what it means that something went wrong
//	    endpoint   what differs between endpoints: three codecs, and the shapes of errors
//	      body       the bytes of requests: JSON, forms, their memory and their pace
//	      snapshot   the configuration that a request runs under
//
// Each of these knows those below it and none above. What calls share of the edge is call.Services.
//
// # Configuration
//
// A snapshot of the configuration is loaded once a request (package snapshot). Package reload
// replaces it.
//
// # The end
//
// A drain (drain.go) leaves the port first and the connections after it, each when its client has
// been told or has nothing on its way (package listen). fasthttp's own shutdown comes last, because
// it closes kept connections without a look.
package proxy
