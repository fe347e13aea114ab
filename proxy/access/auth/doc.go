// Package auth determines who sends a request. It finds the credential in the headers, looks the
// key up by its hash, and decides what the key may use.
//
// A credential takes this path. Extract looks at the two headers that may carry a key, and at the
// query string, which may not. Ring.Find turns the credential into a Key. Key.Allows and
// Key.AllowsOp decide what the key may be used for. Package limit decides how much a key may use,
// by the key's id.
//
// # Design
//
// Keys are stored as plain SHA-256 hashes, not as slow password hashes. The keys that NewKey makes
// hold 256 random bits, so no dictionary of them exists. With a slow hash, clients without a key
// could use up our processors at 50 ms a request.
//
// The ring is a map by hash. The timing of a map look-up can reveal something about a hash, but
// nothing about a key that has the hash. The last step, the comparison of the 32 bytes, still takes
// constant time. Unknown, expired, inactive and damaged keys get the same answer, so that a client
// never learns that a guess was once right.
//
// A key that NewKey makes starts with Prefix, which secret scanners can look for, and ends with a
// checksum. A key with the prefix and a wrong checksum is refused before any look-up, so a
// truncated paste costs nothing.
//
// A credential in the query string is refused even next to a good header, because request targets
// end up in the logs and histories of everything between the client and the edge. A request with
// two credentials is refused, because a proxy on the way may have chosen the other one.
//
// A credential that is not a key but has the form of a token (package jwt) is verified against the
// configured issuers. A valid token becomes a Key of its own, whose rights come from a template (an
// entry of the keys) and whose id comes from a claim. The result of the signature check is cached
// under the token's hash. The edge still checks at each request that the token has not expired, and
// that its public key and its template are in force. Keys are looked up first, so requests with
// keys do not pay for tokens.
//
// A client may present a certificate in the TLS handshake instead (package cert). The certificate
// stands for the key that names it. A request with a certificate and the credential of another key
// is refused, like one with two credentials.
//
// Credential borrows the bytes of the request. A Credential lives as long as the request's headers,
// and has no method that shows the key. Only LastKey stores a key: the last one presented on its
// connection, with the key's hash, until the connection ends. Clients present the same key with
// each request, so the key is hashed once. The look-up by hash is made for each request.
package auth
