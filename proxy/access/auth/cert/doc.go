// Package cert identifies a client by the certificate that it presented in the TLS handshake.
//
// # Design
//
// The handshake requests a certificate and verifies it against the authority that is configured at
// that moment. A connection may stay open for days, and a reload may change the authority. The edge
// therefore verifies the certificate again when a request relies on it. The result is cached with
// the connection (Peer.Remember), so the verification happens once for each connection and
// configuration.
//
// A configured key names a certificate by one of two marks:
//
//   - The hash of its public key. It does not change if the certificate is renewed with the same
//     key pair.
//   - A subject alternative name (DNS name, URI, mail address or IP address). It does not change
//     when the certificate is renewed. It is as trustworthy as the authority that signs the
//     certificate.
//
// An authority validates each kind of name in a different way. The format of the configured name
// therefore determines its kind, and names of other kinds in a certificate do not match. The common
// name is ignored because its meaning was never settled (RFC 9525, 1.2).
package cert
