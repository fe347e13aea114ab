// Package jwks follows the key sets that issuers of tokens publish at a URL.
//
// A Keeper has one Source for each URL, across all reloads. Requests read the set that was fetched
// last. A set is fetched when its source starts to be followed, every five minutes, and when a
// token asks for it, at the earliest five seconds after the last fetch that a token asked for. A
// failed fetch is retried after one second, two, and so on up to a minute. Meanwhile the last good
// set stays, however long.
//
// A token asks for a newer set, and waits for it for at most a second, if the set has no key for
// it, or one with which its signature is wrong, as after an issuer has replaced a key under its
// kid. Anyone can write such a token, so there are bounds. 64 tokens of an issuer may wait. A kid
// that a fetch has not brought is known to be absent for 30 seconds. Bad signatures ask for a set
// once in 30 seconds.
//
// A fetch asks only the configured URL: redirects are refused, proxies of the environment are not
// used, and the answer is bounded in size and time.
package jwks
