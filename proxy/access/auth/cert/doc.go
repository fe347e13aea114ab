// Package cert identifies a client by the certificate that it presented in the TLS handshake.
//
// # Design
//
// The handshake requests a certificate and verifies it against the authority that is configured at
// that moment. A connection may stay open for days, and a reload may change the authority. The edge
// therefore verifies the certificate again when a request relies on it. It caches the result with
// the connection (Peer.CacheValue), and therefore verifies the certificate only once per connection
// and configuration.
//
// A configured key names one of two identities of a certificate:
//
//   - The hash of its public key. It stays the same if the certificate is renewed with the same key
//     pair.
//   - A subject alternative name (DNS name, URI, mail address or IP address). It stays the same
//     when the certificate is renewed. It is as trustworthy as the authority that signs the
//     certificate.
//
// Authorities validate each kind of name in a different way. The format of the configured name
// therefore determines its kind, and names of other kinds in a certificate do not match. The common
// name is ignored because its meaning is not well defined (RFC 9525, 1.2).
package cert
