// Package acme has certmagic obtain and renew the certificates of the public listener, from an
// authority with an ACME directory (RFC 8555).
//
// # What is certmagic's, and what is ours
//
// certmagic orders, solves challenges, asks for the authority's advice on renewals (RFC 9773), and
// keeps what it has in a folder or, with its locks, in the fleet's store. Manager.Run says when it
// looks at a domain: one after the other, every 10 minutes, in the foreground. So every order ends
// with the edge, nothing of one manager is in certmagic's process-wide queues, and an operator sees
// what each attempt has come to. certmagic keeps one goroutine for each directory and account, its
// limit of orders, until the process ends.
//
// Each domain has a certificate of its own, so that one whose DNS is wrong holds up no other. No
// handshake ever waits for an order, and nothing is ordered for a name that a client shows.
//
// # Pauses
//
// The pause after a failure begins at 2 minutes and doubles up to 6 hours, with up to a quarter more
// by chance. When the last attempt was is kept beside the certificates, and is looked at while the
// lock of the domain is held: a process that starts again and again orders once in 2 minutes, and
// the edges of a fleet together no more often than one. The certificate in use stays meanwhile, also
// after its end: a client then sees what is wrong. Until there is a first one, a handshake for a
// domain fails, and one without a name, as those of the service manager's watchdog, is shown a
// certificate that nobody trusts.
//
// # Challenges
//
// TLS-ALPN-01 (RFC 8737) is answered by the public listener: Challenge gives the certificate for a
// handshake that negotiates acme-tls/1 (package listen). HTTP-01 is answered by a listener of its
// own (http.go), which sends browsers to https, without what is behind a ?, and answers calls of
// the API by a 403: a program that is redirected goes on to send its key over plain HTTP. certmagic
// tries to listen at the address of ours, finds it in use and served, and opens none.
//
// # A fleet
//
// Edges with one store (Fleet, which proxy/fleet/certstore is) share account, certificates, answers
// and locks. An edge that waits for the lock of a domain finds what the other has obtained. When an
// edge dies, another orders after the lease of its lock. The certificate that is in use is in the
// folder, too, from which an edge serves while the store is away, and puts back what the store has
// lost.
//
// # The folder
//
// It has one folder for each directory, for the certificates of an authority's test directory are
// not those of its real one, with certmagic's layout. What versions before certmagic have kept there
// (account.key, DOMAIN.pem) or in the store is taken over at the start.
package acme
