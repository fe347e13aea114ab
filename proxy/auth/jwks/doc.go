// Package jwks follows the key sets that issuers of tokens publish at a URL.
//
// A Keeper has one Source for each URL, over all reloads. Nothing here runs while a request waits:
// requests read the set that was fetched last, and at most ask for a newer one. A set is fetched
// when its source is followed, every five minutes, and when a token names a key that it does not
// have, but not within five seconds of the fetch before. A fetch that fails is tried again after
// one second, two, and so on up to a minute; the last good set stays meanwhile, however long.
//
// A fetch asks the URL of the configuration alone: redirects are refused, proxies of the
// environment are not used, the answer is bounded in size and time.
package jwks
