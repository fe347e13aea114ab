// Package httpserver is what both listeners' HTTP servers share: fasthttp's settings, the strict
// check of request heads, and a router that never rewrites paths.
//
// fasthttp parses heads leniently. After package listen has checked the framing, CheckHead checks
// each head that fasthttp has accepted once more. Only heads that every parser reads alike pass, so
// no request can be smuggled past a proxy. listen/doc.go says which parser decides what.
//
// Only the public listener rewrites a target in absolute form to origin form (OriginForm). The
// admin listener must compare Host with its own address. Every listener answers OPTIONS *.
//
// The settings turn off features of fasthttp that the edge has itself or must not have: logging
// (its messages contain parts of requests), default headers, and redirects, which would send a key
// and a prompt elsewhere.
package httpserver
