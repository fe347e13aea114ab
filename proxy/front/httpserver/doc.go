// Package httpserver contains what the HTTP servers of both listeners share: fasthttp's settings,
// the strict check of request heads, and a router that never rewrites paths.
//
// fasthttp parses heads leniently. After package listen has checked the framing and fasthttp has
// accepted a head, CheckHead checks the head once more. Only heads that every parser reads alike
// pass, so no request can be smuggled past a proxy. listen/doc.go says which parser decides what.
//
// Only the public listener rewrites a target in absolute form to origin form (OriginForm). The
// admin listener must compare Host with its own address. Every listener answers OPTIONS *.
//
// The settings turn off features of fasthttp that the edge implements itself or must not have.
// These are logging (its messages contain parts of requests), default headers, and redirects (they
// would send a key and a prompt elsewhere).
package httpserver
