// Package browser decides what web pages may do with the edge. It reads headers that browsers set
// and pages cannot change: Host, Origin and the Sec-Fetch headers.
//
// A browser lets every page send requests to the machine that the browser runs on. A request that
// needs no preflight arrives whether or not the page may read the answer. If an attacker makes the
// page's host name resolve to the edge's address (DNS rebinding), the page may read the answer as
// well. A key or a token keeps such pages out. A listener that requires neither must distinguish
// pages from programs. CheckPage does so for a public listener without keys, and LocalRequest for
// the admin listener.
//
// Keys do not belong in browsers, so by default no page of any origin may call the edge with a key.
// An operator who wants such calls lists the pages' origins (cors.go). Cookies are never allowed,
// since the API has none.
package browser
