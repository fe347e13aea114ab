// Package jwks fetches and refreshes the key sets that issuers of tokens publish at a URL.
//
// A Keeper has one Source for each URL. A Source survives reloads. Requests use the set that was
// fetched last. A set is fetched when the Keeper starts to follow the Source, every five minutes
// after that, and when a token needs a newer set. Fetches for tokens are at least five seconds
// apart. A failed fetch is retried after one second, then after two, four and so on, up to a
// minute. The last good set stays in use until a fetch succeeds.
//
// A token causes a fetch in two cases. Either the set has no key for the token, or the key with the
// token's kid does not verify the signature, because the issuer may have replaced the key. The
// request with the token waits at most a second for the fetch. Anyone can send such tokens, so
// their effect is limited:
//
//   - At most 64 tokens of one issuer wait at a time.
//   - If a fetched set does not contain a kid, the kid counts as absent for 30 seconds.
//   - Wrong signatures cause at most one fetch in 30 seconds.
//
// A fetch connects only to the configured URL. Redirects and proxies from the environment are not
// used, and the response is limited in size and time.
package jwks
