// Package admin serves the edge's operator. It has the admin listener with its handlers and the
// status page. It also has the commands that send requests to a running edge (reload, ready, top).
//
// # The listener
//
// The admin listener is separate, so that none of its paths can be reached through the public
// listener. A Server gets the components that an operator sees and controls (Options), never the
// edge itself. The files are routes.go (the route table, and the checks of every request), token.go
// (the admin tokens, their roles, and guesses at them), handlers.go, page.go (the page and its
// events), state.go (the state that package status renders) and diagnosis.go (the process itself,
// for a bug report).
//
// With its own certificate (Port) the listener speaks TLS. Health checks and scrapers then use
// https.
//
// Web pages must not reach the listener: requests from other origins are refused
// (browser.LocalRequest), and upstreams can be drained only if an admin token is set.
//
// # The commands
//
// A command sends one request to an Edge (client_edge.go) over its own connection, and exits
// (client.go). It verifies the edge's certificate. The program at the other end may not be an edge,
// so every answer passes package plaintext before a terminal shows it.
package admin
