// Package cert tells who a client is by the certificate that it showed in the TLS handshake.
//
// # Design
//
// The handshake asks for a certificate and checks one that is shown against the authorities of that
// moment. A connection may live for days, and authorities may be taken away by a reload. So a
// certificate is checked again with the authorities in force when a request is to be answered by
// it. The result is kept with the connection (Peer.Remember), so this happens once for a connection
// and a configuration.
//
// A key names a certificate by one of two marks. The hash of its public key survives a renewal that
// keeps the key pair. A name of it (DNS name, URI, mail or IP address) survives any renewal, and is
// as good as the authority that signs it. An authority checks each kind of name in its own way, so
// a key's name is of the kind that its form tells, and a certificate's name of another kind is not
// it. The common name is no mark: what it means was never settled (RFC 9525, 1.2).
package cert
