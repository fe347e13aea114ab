// Package admin is the operator's side of the edge: the admin listener with its handlers and the
// status page, and the commands that ask a running edge (reload, ready, top).
//
// # The listener
//
// It is a listener of its own, so that no path of it can be reached from the public side. A Server
// gets the parts of the edge that an operator sees and steers (Options) and never the edge. The
// files: routes.go (the route table, and what every request passes), token.go (the admin tokens,
// their roles, and guesses at them), handlers.go, page.go (the page and its events), state.go (what the page shows;
// package status renders it), diagnosis.go (the process itself, for a bug report).
//
// With a certificate of its own (Port) it speaks TLS. A health check and a scraper then ask https.
//
// A web page must not reach it: requests of other origins are refused (browser.LocalRequest), and
// upstreams are drained only where an admin token is set.
//
// # The commands
//
// A command sends one request over a connection of its own and ends (client.go), to an Edge
// (client_edge.go), whose certificate it verifies. The program at the other end may be another one,
// so every answer passes package plaintext before a terminal shows it.
package admin
