// Package admin contains the admin listener with its handlers and the status page, and the commands
// that send requests to a running edge (reload, ready, top).
//
// # The listener
//
// The admin listener is separate from the public listener, so that its paths cannot be reached from
// outside. The files are:
//
//   - routes.go contains the route table, and the checks for every request.
//   - token.go contains the admin tokens, their roles, and the limit on guesses.
//   - handlers.go contains the handlers.
//   - page.go contains the page and its events.
//   - state.go collects the state that package status renders.
//   - process_facts.go describes the process itself for bug reports.
//
// If the listener has a certificate (AdminPort), it uses TLS. Health checks and scrapers must then
// use https.
//
// Pages of other web sites must not reach the listener. Requests from other origins are rejected
// (browser.IsLocalRequest), and upstreams can be drained only if an admin token is set.
//
// # The commands
//
// A command sends one request to an Edge (client_edge.go) over a new connection and exits
// (client.go). It verifies the edge's certificate. Package plaintext removes control characters
// from every response, because the server at the address may not be an edge.
package admin
