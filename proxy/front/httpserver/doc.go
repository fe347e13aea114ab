// Package httpserver contains what the HTTP servers of all listeners have in common: the settings
// for fasthttp, a strict check of request headers, and a router that does not rewrite paths.
//
// fasthttp is lenient. After package listen has checked the framing and fasthttp has parsed the
// headers, CheckHead therefore checks the headers again. A request passes only if every parser
// interprets its headers in the same way. It therefore cannot be smuggled past a proxy.
//
// Only the public listener rewrites a target in absolute form to origin form (ToOriginForm). The
// admin listener must compare Host with its listen address. Every listener responds to OPTIONS *.
//
// The settings disable three features of fasthttp:
//
//   - Logging, because its messages contain parts of requests.
//   - Default response headers.
//   - Redirects, which would make clients send a key and a prompt to another URL.
package httpserver
