// Package browser decides which requests from web pages the edge accepts. It uses headers that
// browsers set and pages cannot change: Host, Origin and the Sec-Fetch headers.
//
// A browser lets every page send requests to the machine on which the browser runs. A request that
// needs no preflight arrives even if the page must not read the response. If an attacker makes the
// host name of a page resolve to the edge's address (DNS rebinding), the page can also read the
// response. If a listener requires a key or token, such pages cannot use it. Otherwise, the
// listener must distinguish pages from programs. CheckPageRequest does so for a public listener without
// keys, and IsLocalRequest for the admin listener.
//
// Keys should not be stored in browsers, so by default no page may call the edge with a key. An
// operator who wants to allow such calls configures the origins of the pages (cors.go). Cookies are
// never allowed, because the API does not use any.
package browser
