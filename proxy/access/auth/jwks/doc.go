// Package jwks fetches and refreshes the key sets that token issuers publish at URLs.
//
// A KeySetKeeper has one Source per URL. A Source survives reloads. Requests use the set that was
// fetched last. The KeySetKeeper fetches a set when it starts to follow the Source, every five
// minutes after that, and whenever a token needs a newer set. Fetches for tokens are at least five
// seconds apart. A failed fetch is retried after one second, then after two seconds, four seconds
// and so on, up to a minute. The last valid set stays in use until a fetch succeeds.
//
// A token causes a fetch in two cases. Either the set has no key for the token, or the key with the
// token's kid does not verify the signature because the issuer may have replaced that key. The
// request with the token waits at most one second for the fetch. Because anyone can send such
// tokens, their effect is limited:
//
//   - At most 64 tokens from one issuer wait at a time.
//   - If a fetched set does not contain a kid, that kid counts as absent for 30 seconds.
//   - Wrong signatures cause at most one fetch in 30 seconds.
//
// A fetch connects only to the configured URL. It does not follow redirects or use proxies from the
// environment, and it limits the response in size and time.
package jwks
