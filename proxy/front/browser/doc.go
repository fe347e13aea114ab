// Package browser decides what web pages may do with the edge. It reads headers that browsers set
// and pages cannot change: Host, Origin and the Sec-Fetch headers.
//
// A browser lets every page send requests to the machine that it runs on. A request that needs no
// preflight arrives whether or not the page may read the answer. If the name of a page is made to
// resolve to the edge (DNS rebinding), the page may read the answer as well. A key or a token keeps
// such pages out. A listener that requires neither must tell pages from programs. CheckPage does so
// for a public listener without keys, LocalRequest for the admin listener.
//
// Keys do not belong in browsers, so by default no origin may call the edge with a key from a
// page. An operator who wants such calls lists their origins (cors.go). Cookies are never allowed,
// since the API has none.
package browser
