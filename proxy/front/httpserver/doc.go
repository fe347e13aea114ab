// Package httpserver is what the HTTP servers of both listeners have in common: fasthttp's
// settings, the strict reading of request heads, and a router that changes no path.
//
// fasthttp parses heads leniently. CheckHead checks the accepted heads once more, after package
// listen has checked the framing of the bytes. Where the two agree with every other parser, no
// request can be smuggled past a proxy. listen/doc.go says which parser decides what.
//
// Only the public listener reads a target in absolute form as its origin form (OriginForm), since
// the admin listener has to compare Host with its own address. Every listener answers OPTIONS *.
//
// The settings stop fasthttp from doing what the edge does itself: logging (its messages hold
// pieces of requests), default headers, and redirects, which would send a key and a prompt
// elsewhere.
package httpserver
