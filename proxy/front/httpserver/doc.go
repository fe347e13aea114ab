// Package httpserver contains the common parts of the HTTP servers of all listeners. These are the
// settings of fasthttp, a strict check of request headers, and a router that does not rewrite
// paths.
//
// fasthttp is lenient. After package listen has checked the framing and fasthttp has parsed the
// headers, CheckHead checks them again. Only headers that every parser interprets in the same way
// pass, so a request cannot be smuggled past a proxy.
//
// Only the public listener rewrites a target in absolute form to origin form (OriginForm), because
// the admin listener must compare Host with the address on which it listens. Every listener
// responds to OPTIONS *.
//
// The settings disable three features of fasthttp:
//
//   - Logging, because its messages contain parts of requests.
//   - Default headers.
//   - Redirects, which would send a key and a prompt elsewhere.
package httpserver
