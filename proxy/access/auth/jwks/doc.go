// Package jwks follows the key sets that issuers of tokens publish at a URL.
//
// A Keeper has one Source for each URL, over all reloads. Requests read the set that was fetched
// last. A set is fetched when its source is followed, every five minutes, and when a token asks for
// it, five seconds after the fetch that a token asked for before. A fetch that fails is tried again
// after one second, two, and so on up to a minute; the last good set stays meanwhile, however long.
//
// A token asks for a newer set, and waits for it for a second at most, if the set has no key for it,
// or one by which its signature is not good, as after an issuer has replaced a key under its kid.
// Anybody can write such a token. So 64 of an issuer may wait; a kid that a fetch has not brought is
// known to be absent for 30 seconds; and bad signatures ask for a set once in 30 seconds.
//
// A fetch asks the URL of the configuration alone: redirects are refused, proxies of the
// environment are not used, the answer is bounded in size and time.
package jwks
