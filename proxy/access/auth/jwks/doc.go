// Package jwks follows the key sets that issuers of tokens publish at a URL.
//
// A Keeper has one Source for each URL, across all reloads. Requests read the last fetched set. A
// Keeper fetches a set when it starts to follow the source, every five minutes, and when a token
// needs a newer set. Fetches for tokens are at least five seconds apart. A failed fetch is retried
// after one second, two, and so on up to a minute. Meanwhile the last good set stays in use, for
// any length of time.
//
// A token causes a fetch if the set has no key for it, or if its signature is wrong under the key
// with its kid (an issuer may have replaced that key). The token then waits for the fetch, at most
// a second. Anyone can write such a token, so there are bounds. At most 64 tokens of one issuer
// wait. A kid that a fetched set lacks counts as absent for 30 seconds. Bad signatures cause at
// most one fetch in 30 seconds.
//
// A fetch requests only the configured URL: redirects are refused, proxies from the environment are
// not used, and the answer is bounded in size and time.
package jwks
