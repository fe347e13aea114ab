// Package auth determines who sends a request. It finds the credential in the headers, looks the
// key up by its hash, and decides what the key may use.
//
// A credential takes this path. Extract reads the two headers that may carry a key, and refuses a
// key in the query string. Ring.Find turns the credential into a Key. Key.Allows and Key.AllowsOp
// decide what the key may be used for. Package limit decides how much a key may use, by the key's
// id.
//
// # Design
//
// Keys are stored as plain SHA-256 hashes, not as slow password hashes. The keys that NewKey makes
// hold 256 random bits, so no dictionary of them exists. If each request cost a slow hash of 50 ms,
// clients without a key could occupy all processors.
//
// The ring is a map by hash. The timing of a map look-up can reveal something about a hash, but
// nothing about the key. The last step, the comparison of the 32 bytes, takes constant time anyway.
// Unknown, expired, inactive and damaged keys get the same answer, so that a client never learns
// that a guess was once right.
//
// A key that NewKey makes starts with Prefix and ends with a checksum. Secret scanners can search
// for Prefix. A key with the prefix and a wrong checksum is refused before any look-up, so a
// truncated key costs no look-up.
//
// A credential in the query string is refused even if a header has a valid one. The reason is that
// request targets end up in the logs and histories of every program between the client and the
// edge. A request with two different credentials is refused, because a proxy on the path may have
// chosen the other one.
//
// A credential that is not a key but has the format of a token (package jwt) is verified against
// the configured issuers. A valid token becomes a Key of its own. Its rights come from a template
// (an entry of the keys), and its id comes from a claim. The result of the signature check is
// cached under the token's hash. With each request the edge still checks that the token has not
// expired, and that its public key and its template are in force. Keys are looked up first, so
// requests with keys do not pay for tokens.
//
// A client may present a certificate in the TLS handshake instead (package cert). The certificate
// stands for the key that names it. A request with a certificate and the credential of another key
// is refused, like a request with two credentials.
//
// Credential borrows the bytes of the request. A Credential is valid as long as the request's
// headers are, and has no method that returns the key. Only LastKey stores a key: the last one
// presented on its connection, with the key's hash, until the connection ends. Clients present the
// same key with each request, so each connection hashes the key only once. The edge still looks up
// the hash for each request.
package auth
