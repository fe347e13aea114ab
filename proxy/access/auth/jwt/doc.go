// Package jwt verifies signed tokens (JWT, RFC 7519) with the public keys of their issuers.
//
// # Design
//
// go-jose parses JSON and computes signatures. It rejects duplicate members and compares names
// case-sensitively. This package makes the checks that the library leaves to its users (RFC 8725):
//
//   - The key determines the algorithm. ES256 requires a P-256 key, RS256 an RSA key with at least
//     2048 bits, and EdDSA an Ed25519 key. Symmetric keys are not accepted, so a public key can
//     never be used as the secret of an HMAC. "none" is not accepted, because it uses no key.
//   - Keys come only from the Set. The jwk, jku, x5u and x5c header members are ignored. kid is
//     used only to look up a key.
//   - A header with crit is rejected. A header with b64 is rejected, because a JWT must not have it
//     (RFC 7797, 7). If typ is present, it must denote a JWT or an access token. This excludes
//     logout tokens, security events and DPoP proofs.
//   - Base64 must be canonical, so that a token has only one valid encoding.
//   - A token that does not expire is rejected.
//
// Claims that grant rights are accepted in all formats that providers use: as strings, as lists,
// and as objects whose member names are the values (claims.go). An audience is a string or a list.
//
// Errors never contain text from a token.
package jwt
