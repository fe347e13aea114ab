// Package auth tells who sends a request: it finds the credential in the headers, looks the key up
// by its hash, and says what the key may use.
//
// The way of a credential: Extract looks at the two headers that may carry a key and at the query
// string, which may not; Ring.Find turns the credential into a Key; Key.Allows and Key.AllowsOp say
// what the key is good for. How much a key may use is not said here but in package limit, by the
// key's id.
//
// # Design
//
// Keys are stored as plain SHA-256, not as a slow password hash. The keys that NewKey makes hold
// 256 random bits, so no dictionary of them exists, and a slow hash would let anybody without a key
// burn our processors at 50 ms a request.
//
// The ring is a map by hash. The timing of a map look-up can show something of a hash, which says
// nothing about a key that has the hash; the last step, the comparison of the 32 bytes, is constant
// in time nevertheless. A key that is unknown and one that is expired, inactive or of a damaged
// form get the same answer, so that nobody learns that a guess was once right.
//
// A key of our own making starts with Prefix, which secret scanners can look for, and ends with a
// checksum. What starts with the prefix and fails the checksum is refused before anything is looked
// up: a truncated paste costs nothing.
//
// A credential in the query string is refused even beside a good header, because targets end up in
// the logs and the histories of everything between the client and us; and a request that carries
// two credentials is refused, because whichever of them we chose, something else on the way may
// have chosen the other.
//
// A credential that is no key and has the form of a token (package jwt) is judged by the issuers of
// the configuration. It becomes a Key of its own: the rights are those of a template, which is an
// entry of the keys, and the id is made of a claim. What the signature has proved is remembered by
// the token's hash; that it has not expired, and that its public key and its template are in force,
// is looked at each time. Keys are looked up first, so tokens cost them nothing.
//
// A client may show a certificate in the TLS handshake instead (package cert). It stands for the
// key that names it. Beside the credential of another key it is refused, as two credentials are.
//
// Credential borrows the bytes of the request. It lives as long as the request's headers, is never
// stored, and has no method that shows the key.
package auth
