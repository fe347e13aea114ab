// Package acme uses certmagic to obtain and renew the certificates of the public listener from an
// authority that has an ACME directory (RFC 8555).
//
// # certmagic
//
// certmagic orders certificates, solves challenges and fetches the authority's renewal information
// (RFC 9773). It stores its data in a folder, or its data and locks in the fleet's store.
// Manager.Run decides when certmagic checks the domains: every 10 minutes, one domain after
// another, in the foreground. As a result, every order ends when the edge stops, certmagic's
// process-wide queues stay empty, and operators see the result of each attempt.
//
// Each domain has a separate certificate, so a domain with wrong DNS records does not delay the
// others. A handshake never waits for an order, and the name in a handshake never causes an order.
//
// # Pauses
//
// The pause after the first failure is 2 minutes. It doubles with each failure, up to 6 hours, and
// has a jitter of up to a quarter. The time of the last attempt is stored with the certificates,
// and is checked while the domain is locked. A process that restarts repeatedly therefore orders at
// most once in 2 minutes, and an entire fleet orders no more often than a single edge.
//
// The current certificate stays in use even after it has expired, because it shows the client what
// is wrong. Handshakes for a domain fail until the domain has its first certificate. A handshake
// without a name, such as that of the service manager's watchdog, gets a certificate that no client
// trusts.
//
// # Challenges
//
// The public listener answers TLS-ALPN-01 challenges (RFC 8737): if a handshake negotiates
// acme-tls/1, ChallengeCertificate returns its certificate (package listen). A separate listener
// answers HTTP-01 challenges (http.go). It redirects browsers to https, without the query string.
// It answers API calls with a 403, because a redirected program would continue to send its key over
// plain HTTP. certmagic would also listen on the address of our listener, but it finds that a
// server already responds there and opens no listener.
//
// # Fleet
//
// The edges of a fleet share the account, the certificates, the answers to challenges, and the
// locks (FleetStore, implemented by proxy/fleet/certstore). An edge that had to wait for a domain's
// lock finds the certificate obtained by the previous holder. Each edge also stores the certificate
// in its folder, and serves from the folder while the store is unreachable. If the store loses
// data, the edge copies that data from the folder to the store.
//
// # Folder
//
// The folder contains a subfolder for each ACME directory, because certificates from an authority's
// test directory must not be mixed with those from its production directory. certmagic defines the
// layout. At startup, the edge migrates data written by versions without certmagic, both in the
// folder (account.key, DOMAIN.pem) and in the store.
package acme
