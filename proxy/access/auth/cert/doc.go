// Package cert identifies a client by the certificate that it presented in the TLS handshake.
//
// # Design
//
// The handshake requests a certificate and verifies it against the authorities in force at that
// moment. A connection may stay open for days, and a reload may remove authorities. So when a
// request relies on a certificate, the edge checks the certificate again with the authorities now
// in force. The result is kept with the connection (Peer.Remember), so the second check happens
// once for each connection and configuration.
//
// A configured key identifies a certificate by one of two marks. The hash of the certificate's
// public key stays the same after a renewal that keeps the key pair. A name in the certificate (DNS
// name, URI, mail or IP address) stays the same after any renewal, and is as trustworthy as the
// authority that signs it. An authority checks each kind of name in its own way. Therefore the
// format of the name in the configuration determines its kind, and a name of another kind in a
// certificate does not match. The common name is not used: its meaning was never settled (RFC 9525,
// 1.2).
package cert
