// Package jwks fetches and refreshes the key sets that issuers of tokens publish at a URL.
//
// A Keeper has one Source for each URL, and keeps it across reloads. Requests use the last fetched
// set. A Keeper fetches a set when it starts to follow the source, every five minutes, and when a
// token needs a newer set. Fetches for tokens are at least five seconds apart. A failed fetch is
// retried after one second, then two, and so on up to a minute. The last good set stays in use
// until a fetch succeeds, no matter how long that takes.
//
// A token causes a fetch if the set has no key for it, or if its signature is wrong under the key
// with its kid (an issuer may have replaced that key). The token then waits for the fetch, at most
// a second. Anyone can write such a token, so there are limits. At most 64 tokens of one issuer
// wait. A kid that a fetched set lacks counts as absent for 30 seconds. Bad signatures cause at
// most one fetch in 30 seconds.
//
// A fetch requests only the configured URL: redirects are refused, proxies from the environment are
// not used, and the size and the time of the answer are limited.
package jwks
