// Package auth identifies the caller of a request. It finds the credential in the request, looks up
// the key by its hash, and decides what the key may use.
//
// Package limit decides how much a key may use.
//
// # Design
//
// Keys are stored as plain SHA-256 hashes rather than slow password hashes. A key created by NewKey
// has 256 random bits, which rules out dictionary attacks. If each request needed a slow hash of 50
// ms, clients without a key could use up all processors.
//
// The ring is a map from hash to key. The duration of a map lookup may reveal something about a
// hash, but nothing about the key. The final comparison of the 32 bytes takes constant time anyway.
// Unknown, expired, inactive and malformed keys get the same response, so a client cannot learn
// that a guess was once valid.
//
// A key created by NewKey starts with KeyPrefix and ends with a checksum. Secret scanners can
// search for the prefix. A key with this prefix and a wrong checksum is rejected before the lookup.
//
// A credential in the query string is rejected even if a header contains a valid one, because every
// program between the client and the edge may log request targets. A request with two different
// credentials is rejected, because a proxy between the client and the edge may have used the other
// one.
//
// If a credential is not a key but has the format of a token (package jwt), the edge verifies it
// against the configured issuers. A valid token becomes a Key. The key's rights come from a
// template, which is one of the configured keys, and its id comes from a claim. The result of the
// signature check is cached, keyed by the token's hash. For each request, the edge checks that the
// token has not expired, and that its public key and template are still valid. The edge looks up
// keys before tokens, so tokens do not slow down requests with a key.
//
// Instead of sending a credential, a client may present a certificate in the TLS handshake (package
// cert). A configured key names the certificate. A request is rejected if its certificate and its
// credential belong to different keys, like a request with two credentials.
//
// A Credential borrows the bytes of the request, so it is valid only as long as the request headers
// are. No method of Credential returns the key. Only LastKeyCache stores a key, in memory: until
// the connection closes, it contains the last key presented on the connection and the hash of that
// key. Clients send the same key with each request, so each connection needs to hash the key only
// once. Large requests are checked before their connection is known. That check takes a
// LastKeyCache from a sync.Pool, where a key may stay until two garbage collections have passed.
package auth
