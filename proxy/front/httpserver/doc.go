// Package httpserver is the common part of both listeners' HTTP servers: fasthttp's settings, the
// strict check of request heads, and a router that changes no path.
//
// fasthttp parses heads leniently. CheckHead checks the heads that fasthttp has accepted once more,
// after package listen has checked the framing of the bytes. Only heads that every parser reads
// alike pass, so no request can be smuggled past a proxy. listen/doc.go says which parser decides
// what.
//
// Only the public listener turns a target in absolute form into its origin form (OriginForm),
// because the admin listener must compare Host with its own address. Every listener answers
// OPTIONS *.
//
// The settings stop fasthttp from doing what the edge does itself or must not do: logging (its
// messages contain parts of requests), default headers, and redirects, which would send a key and
// a prompt elsewhere.
package httpserver
