// Package acme uses certmagic to obtain and renew the certificates of the public listener from an
// authority with an ACME directory (RFC 8555).
//
// # certmagic
//
// certmagic orders certificates, solves challenges and fetches the renewal information of the
// authority (RFC 9773). It stores its data in a folder, or its data and locks in the fleet's store.
// Manager.Run decides when certmagic checks a domain: one domain after the other, every 10 minutes,
// in the foreground. As a result, every order ends when the edge stops, certmagic's process-wide
// queues stay empty, and an operator sees the result of each attempt.
//
// Each domain has a separate certificate, so a domain with wrong DNS records does not delay other
// domains. A handshake never waits for an order, and a name in a handshake never causes an order.
//
// # Pauses
//
// The pause after the first failure is 2 minutes. It doubles with each subsequent failure, up to 6
// hours, and has a jitter of up to a quarter. The time of the last attempt is stored with the
// certificates, and checked while the domain's lock is held. A process that restarts repeatedly
// therefore orders at most once in 2 minutes, and a whole fleet orders no more often than a single
// edge.
//
// The current certificate stays in use even after it has expired, because an expired certificate
// shows the client what is wrong. Until a domain has its first certificate, its handshakes fail. A
// handshake without a name, such as that of the service manager's watchdog, gets a certificate that
// no client trusts.
//
// # Challenges
//
// The public listener answers TLS-ALPN-01 (RFC 8737): Challenge returns the certificate for a
// handshake that negotiates acme-tls/1 (package listen). A separate listener answers HTTP-01
// (http.go). It redirects browsers to https without the query string. It answers API calls with a
// 403, because a redirected program would keep sending its key over plain HTTP. certmagic would
// also listen on the address of our listener, but finds that a server already answers there and
// opens no listener.
//
// # Fleet
//
// The edges of a fleet (Fleet, which proxy/fleet/certstore implements) share the account, the
// certificates, the answers to challenges, and the locks. When an edge acquires the lock of a
// domain after a wait, it finds the certificate that the previous holder obtained. Each edge stores
// the certificate in use in its folder as well, and serves from the folder while the store is
// unreachable. If the store has lost data, the edge copies it from the folder to the store.
//
// # Folder
//
// The folder has a subfolder for each ACME directory, because certificates from an authority's test
// directory must not be confused with those from its production directory. The layout is
// certmagic's. At startup, the edge migrates data that versions without certmagic left in the
// folder (account.key, DOMAIN.pem) and in the store.
package acme
