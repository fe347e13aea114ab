// Package acme obtains the certificates of the public listener from an authority with an ACME
// directory (RFC 8555), keeps them in a folder and renews them.
//
// # Why a manager of our own
//
// The protocol is golang.org/x/crypto/acme's, which the Go project keeps: 150 KB of the stripped
// program. Its autocert, at 440 KB with net/http's server, orders while a client's handshake waits.
// What is left to do here is when to order, and what to do when that fails.
//
// # A certificate's life
//
// Each domain has a certificate of its own, so that one whose DNS is wrong holds up no other. It is
// renewed before a third of its life is left, and earlier where the authority advises so (RFC 9773,
// renewal_info.go). Manager.Run is one goroutine that looks at the domains one after the other; no
// handshake ever waits for it, and nothing is ordered for a name that a client shows.
//
// The pause after a failure begins at 2 minutes and doubles up to 6 hours, with up to a quarter
// more by chance. An authority that names a time (Retry-After) is not asked before it. When the
// last attempt was, and that time, are in a file: a process that starts again and again orders once
// in 2 minutes, or when the authority has said. The certificate in use stays meanwhile, also after
// its end: a client then sees what is wrong. Until there is a first one, a handshake for a domain
// fails, and one without a name, as those of the service manager's watchdog, is shown a certificate
// that nobody trusts.
//
// # Challenges
//
// TLS-ALPN-01 (RFC 8737) is answered by the public listener: Challenge gives the certificate for a
// handshake that negotiates acme-tls/1 (package listen). HTTP-01 is answered by a listener of its
// own (http.go), which sends GET and HEAD for the edge's domains to https and knows nothing else:
// as few connections as the admin listener, none with a body.
//
// # The folder
//
// It has one folder for each directory, for the certificates of an authority's test directory are
// not those of its real one: account.key, DOMAIN.pem (the key, then the certificates) and
// DOMAIN.tried, each of mode 0600 and replaced whole.
package acme
