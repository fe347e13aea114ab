// Package cert identifies a client by the certificate that it presented in the TLS handshake.
//
// # Design
//
// The handshake requests a certificate and verifies it against the authorities in force at that
// moment. A connection may live for days, and a reload may remove authorities. Therefore, when a
// request relies on a certificate, the certificate is checked again with the authorities in force.
// The result is kept with the connection (Peer.Remember), so the check happens once for each
// connection and configuration.
//
// A key identifies a certificate in one of two ways. The hash of the certificate's public key
// survives a renewal that keeps the key pair. A name in the certificate (DNS name, URI, mail or IP
// address) survives any renewal, and is as trustworthy as the authority that signs it. An authority
// checks each kind of name in its own way. Therefore the form of the name in the configuration
// determines its kind, and a certificate's name of another kind does not match. The common name is
// not used: its meaning was never settled (RFC 9525, 1.2).
package cert
