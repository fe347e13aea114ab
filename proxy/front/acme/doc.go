// Package acme uses certmagic to obtain and renew the certificates of the public listener from an
// authority with an ACME directory (RFC 8555).
//
// # What certmagic does, and what this package does
//
// certmagic orders certificates, solves challenges and asks for the authority's advice on renewals
// (RFC 9773). It stores its data in a folder, or stores its data and locks in the fleet's store.
// Manager.Run decides when certmagic checks a domain: one domain after the other, every 10 minutes,
// in the foreground. Thus every order ends when the edge stops, nothing is left in certmagic's
// process-wide queues, and an operator sees the result of each attempt. For each directory and
// account, certmagic runs one goroutine, its order rate limiter, until the process ends.
//
// Each domain has its own certificate, so that a domain with wrong DNS does not delay the others.
// No handshake ever waits for an order, and a name that a client sends never causes an order.
//
// # Pauses
//
// The pause after the first failure is 2 minutes. It doubles with each further failure, up to 6
// hours, with a jitter of up to a quarter. The time of the last attempt is stored with the
// certificates, and is checked while the domain's lock is held. Thus a process that keeps
// restarting orders only once in 2 minutes, and the edges of a fleet together order no more often
// than one edge. The current certificate stays in use, even after it expires, because an expired
// certificate tells the client what is wrong. Until a domain has its first certificate, handshakes
// for the domain fail. A handshake without a name, like that of the service manager's watchdog,
// gets a certificate that no client trusts.
//
// # Challenges
//
// The public listener answers TLS-ALPN-01 (RFC 8737): Challenge returns the certificate for a
// handshake that negotiates acme-tls/1 (package listen). A separate listener answers HTTP-01
// (http.go). It redirects browsers to https without the query string. It answers API calls with a
// 403, because a redirected program would keep sending its key over plain HTTP. certmagic also
// tries to listen on our listener's address. It finds the address in use by a server that answers,
// and opens no listener.
//
// # A fleet
//
// Edges with one store (Fleet, which proxy/fleet/certstore implements) share the account,
// certificates, challenge answers and locks. An edge that has waited for a domain's lock finds the
// certificate that the lock's previous holder obtained. When an edge dies, another edge orders once
// the dead edge's lock has expired. The folder also holds the certificate in use. An edge serves
// from the folder while the store is unreachable. It copies data that the store has lost from the
// folder back to the store.
//
// # The folder
//
// The folder has one subfolder for each directory, because the certificates of an authority's test
// directory differ from those of its real one. The layout is certmagic's. At startup, data of
// versions before certmagic is migrated from the folder (account.key, DOMAIN.pem) and from the
// store.
package acme
