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
// own (http.go), which sends browsers to https, without what is behind a ?, and answers calls of
// the API by a 403: a program that is redirected goes on to send its key over plain HTTP. It knows
// nothing else: as few connections as the admin listener, none with a body.
//
// # A fleet
//
// Edges with one store (Shared, which proxy/fleet/certstore is) obtain their certificates together:
// sharing.go. An edge that finds a certificate due asks for the claim of its domain, and orders
// while it keeps that. First it reads what the store has, so what another edge has just obtained is
// not ordered again. The account's key, the order that runs with the key of its certificate, the
// answer to the challenge and the certificate are entries of the store. So every edge answers
// challenges, and when an edge dies, another ends its order after Lease, wherever it was: also
// where the certificate is issued and was not fetched. The answer is in the store for spreadTime
// before the authority is asked to look.
//
// Follow is a second goroutine. It asks for what is new twice a second, takes it over, and puts
// back what the store has lost or what is older there than here. It keeps the claim, too; an edge
// that cannot keep it gives its order up before the lease ends. Without the store nothing is
// ordered, and the certificates of the folder serve on. The pauses after failures are in the store,
// so many edges do not try more often than one.
//
// Alternatives that were not taken: to ask the store for a challenge's answer when the authority
// comes would let anybody who connects have the edge ask it; a lock without a lease would stay when
// its edge is killed.
//
// # The folder
//
// It has one folder for each directory, for the certificates of an authority's test directory are
// not those of its real one: account.key, DOMAIN.pem (the key, then the certificates) and
// DOMAIN.tried, each of mode 0600 and replaced whole.
package acme
