// Package auth identifies the caller of a request. It finds the credential in the headers, looks up
// the key by its hash, and decides what the key may use.
//
// Package limit decides how much a key may use.
//
// # Design
//
// Keys are stored as plain SHA-256 hashes, not as slow password hashes. A key from NewKey has 256
// random bits, so dictionary attacks are not possible. If each request required a slow hash of 50
// ms, clients without a key could use up all processors.
//
// The ring is a map from hash to key. The time that a map look-up takes may reveal something about
// a hash, but nothing about the key. The final comparison of the 32 bytes nevertheless takes
// constant time. Unknown, expired, inactive and malformed keys get the same answer, so a client
// cannot learn that a guess was once valid.
//
// A key from NewKey starts with Prefix and ends with a checksum. Secret scanners can search for
// Prefix. A key with Prefix and a wrong checksum is refused before the look-up.
//
// A credential in the query string is refused even if a header contains a valid one, because every
// program between the client and the edge may log request targets. A request with two different
// credentials is refused, because a proxy between client and edge may have used the other
// credential.
//
// If a credential is not a key but has the format of a token (package jwt), the edge verifies it
// with the configured issuers. A valid token becomes a Key. Its rights come from a template, which
// is one of the configured keys, and its id comes from a claim. The result of the signature check
// is cached under the hash of the token. For each request, the edge checks that the token has not
// expired and that its public key and its template are still valid. Keys are looked up before
// tokens, so tokens do not slow down requests with a key.
//
// A client may present a certificate in the TLS handshake instead (package cert). A configured key
// names the certificate. A request whose certificate and credential belong to different keys is
// refused, like a request with two credentials.
//
// A Credential borrows the bytes of the request. It is valid as long as the request headers are,
// and none of its methods returns the key. Only LastKey stores a key: until the connection closes,
// it contains the last key that was presented on the connection, and the key's hash. Clients send
// the same key with each request, so each connection hashes the key only once.
package auth
