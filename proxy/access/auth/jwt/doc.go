// Package jwt verifies signed tokens (JWT, RFC 7519) with the public keys of their issuers.
//
// A Set holds an issuer's keys, read from a JWK Set (RFC 7517). Parse parses a token without
// trusting it, and returns the issuer that the token names. Token.Verify checks the token's
// signature with a Set. Claims.Check checks that the token is for this edge, and returns its
// validity period.
//
// # Design
//
// go-jose reads JSON and computes signatures. It refuses duplicate members and compares names by
// case. This package makes the checks that the library leaves to its users (RFC 8725):
//
//   - The algorithm belongs to the key. ES256 requires a P-256 key, RS256 an RSA key of 2048 bits
//     or more, EdDSA an Ed25519 key. Symmetric keys are not accepted, so a public key can never be
//     used as the secret of an HMAC. "none" has no key at all.
//   - Keys come only from the Set. The header's jwk, jku, x5u and x5c are ignored; kid is only a
//     name to look up.
//   - A header that marks anything as critical is refused, and so is b64, which a JWT must not have
//     (RFC 7797, 7). A typ must name a JWT or an access token, or be absent; tokens for other
//     purposes (logout, security events, DPoP proofs) are refused.
//   - Base64 must be canonical, so a token has only one spelling.
//   - A token without an expiry is refused.
//
// Claims for rights are read in all formats that providers use: texts, lists, and objects whose
// member names are the values (claims.go). An audience is a text or a list.
//
// No error quotes a token.
package jwt
