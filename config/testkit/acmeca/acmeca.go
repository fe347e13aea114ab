// Package acmeca is a certificate authority with an ACME directory (RFC 8555) for tests. It can
// simulate failures. It imports no other package of this module, so tests in any package can use
// it.
package acmeca

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// DialFunc connects to port "80" or "443" of a domain, as a client on the internet would.
type DialFunc func(ctx context.Context, domain, port string) (net.Conn, error)

// Options contains the settings of a CA.
type Options struct {
	Life  time.Duration // lifetime of certificates; default: 90 days
	Reach DialFunc
	// Validate, if set, replaces the challenge check through Reach, for tests without a network.
	Validate func(kind, domain, token, keyAuthorization string) error
	// Binding is the key of "kid-1", the only external account. If it is empty, no binding is
	// required.
	Binding []byte
}

// SimulatedFailures are the failures to simulate. If a failure has a count, each simulated failure
// decrements the count.
type SimulatedFailures struct {
	BadNonces   int           // number of requests whose nonce is rejected
	RateLimited int           // number of orders to reject
	RetryAfter  time.Duration // Retry-After of rejected orders
	Down        bool          // answer all requests with 503
	// Pending is how many times a client must poll before an order is ready, and again before its
	// certificate is issued.
	Pending int
	Wait    chan struct{} // if set, orders are answered only after it is closed
	// WindowStart and WindowEnd are the renewal window that the authority suggests for all
	// certificates (RFC 9773).
	WindowStart, WindowEnd time.Time
}

// CA is a certificate authority.
type CA struct {
	PEM string // certificate of the authority, in PEM

	opts Options
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	base string

	challengeChecks sync.WaitGroup // running challenge checks

	mu       sync.Mutex
	mishaps  SimulatedFailures
	nonces   map[string]bool
	accounts map[string]*jose.JSONWebKey // keyed by URL
	orders   []*order
	issued   int
	accepted []string // paths of the accepted requests
}

// order is an order with a single authorization.
type order struct {
	account, domain, token, status, problem string
	pending                                 int
	chain                                   []byte
}

// New returns an authority without a server.
func New(t testing.TB, o Options) *CA {
	t.Helper()
	if o.Life == 0 {
		o.Life = 90 * 24 * time.Hour
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(20, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &CA{
		PEM:  string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		opts: o, cert: cert, key: key, base: "https://ca.test",
		nonces: map[string]bool{}, accounts: map[string]*jose.JSONWebKey{},
	}
}

// Start returns an authority with a server on loopback.
func Start(t testing.TB, o Options) *CA {
	t.Helper()
	ca := New(t, o)
	server := httptest.NewUnstartedServer(ca)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := ca.signCertificate(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, key.Public(), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(func() {
		server.Close()
		ca.challengeChecks.Wait()
	})
	ca.base = server.URL
	return ca
}

// Directory returns the URL of the authority's ACME directory.
func (c *CA) Directory() string { return c.base + "/directory" }

// TrustPool returns a certificate pool that trusts the authority.
func (c *CA) TrustPool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.cert)
	return pool
}

// SetSimulatedFailures changes the simulated failures.
func (c *CA) SetSimulatedFailures(change func(*SimulatedFailures)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.mishaps)
}

// Counts returns the numbers of accounts, orders and issued certificates.
func (c *CA) Counts() (accounts, orders, issued int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.accounts), len(c.orders), c.issued
}

// CountRequests counts the requests whose path starts with prefix.
func (c *CA) CountRequests(prefix string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, path := range c.accepted {
		if strings.HasPrefix(path, prefix) {
			n++
		}
	}
	return n
}

// RoundTrip implements http.RoundTripper without a network.
func (c *CA) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	c.ServeHTTP(w, req)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func (c *CA) signCertificate(template *x509.Certificate, public crypto.PublicKey, life time.Duration) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = time.Now(), time.Now().Add(life)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	return x509.CreateCertificate(rand.Reader, template, c.cert, public, c.key)
}

type acmeError struct {
	status     int
	kind, text string
	retryAfter time.Duration
}

func (p *acmeError) Error() string { return p.kind + ": " + p.text }

const errorTypePrefix = "urn:ietf:params:acme:error:"

func newProblem(status int, kind, text string) error {
	return &acmeError{status: status, kind: kind, text: text}
}

type request struct {
	account string // URL of the account; empty if the request contains the public key instead
	key     *jose.JSONWebKey
	url     string
	body    []byte
}

// ServeHTTP implements http.Handler.
func (c *CA) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.accepted = append(c.accepted, r.URL.Path)
	wait, down := c.mishaps.Wait, c.mishaps.Down
	c.mu.Unlock()
	if wait != nil && r.URL.Path == "/new-order" {
		select {
		case <-wait:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Replay-Nonce", c.newNonce())
	status, body, err := 0, any(nil), error(nil)
	switch {
	case down:
		err = newProblem(503, "serverInternal", "closed for repairs")
	case r.Method == http.MethodHead && r.URL.Path == "/new-nonce":
		return
	case r.Method == http.MethodGet && r.URL.Path == "/directory":
		status, body = 200, map[string]any{
			"newNonce": c.base + "/new-nonce", "newAccount": c.base + "/new-account", "newOrder": c.base + "/new-order",
			"renewalInfo": c.base + "/renewal-info",
			"meta": map[string]any{
				"termsOfService": c.base + "/terms", "externalAccountRequired": c.opts.Binding != nil,
			},
		}
	case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/renewal-info/"):
		status, body, err = c.renewalInfo(w)
	case r.Method == http.MethodPost:
		var q *request
		if q, err = c.verifyRequest(r); err == nil {
			status, body, err = c.dispatch(w, r.URL.Path, q)
		}
	default:
		err = newProblem(405, "malformed", "this is not asked like that")
	}
	if err != nil {
		var p *acmeError
		if !errors.As(err, &p) {
			p = &acmeError{status: 500, kind: "serverInternal", text: err.Error()}
		}
		if p.retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(p.retryAfter.Seconds())))
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(p.status)
		_ = json.NewEncoder(w).Encode(map[string]any{"type": errorTypePrefix + p.kind, "detail": p.text, "status": p.status})
		return
	}
	if chain, ok := body.([]byte); ok {
		w.Header().Set("Content-Type", "application/pem-certificate-chain")
		_, _ = w.Write(chain)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (c *CA) newNonce() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := rand.Text()
	c.nonces[n] = true
	return n
}

func (c *CA) renewalInfo(w http.ResponseWriter) (int, any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mishaps.WindowStart.IsZero() {
		return 0, nil, newProblem(404, "malformed", "there is no advice")
	}
	w.Header().Set("Retry-After", "21600")
	window := map[string]any{"start": c.mishaps.WindowStart, "end": c.mishaps.WindowEnd}
	return 200, map[string]any{"suggestedWindow": window}, nil
}

// verifyRequest checks the signature, nonce and URL of a request.
func (c *CA) verifyRequest(r *http.Request) (*request, error) {
	var raw json.RawMessage
	err := json.NewDecoder(r.Body).Decode(&raw)
	if err != nil || r.Header.Get("Content-Type") != "application/jose+json" {
		return nil, newProblem(400, "malformed", "it is no JWS")
	}
	jws, err := jose.ParseSignedJSON(string(raw), []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || len(jws.Signatures) != 1 {
		return nil, newProblem(400, "malformed", "it is no JWS of ES256")
	}
	h := jws.Signatures[0].Protected
	q := &request{key: h.JSONWebKey, account: h.KeyID}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.nonces[h.Nonce] || c.mishaps.BadNonces > 0 {
		c.mishaps.BadNonces = max(0, c.mishaps.BadNonces-1)
		return nil, newProblem(400, "badNonce", "the nonce is used up")
	}
	delete(c.nonces, h.Nonce)
	if q.key == nil {
		if q.key = c.accounts[q.account]; q.key == nil {
			return nil, newProblem(400, "accountDoesNotExist", "nobody knows this account")
		}
	}
	if q.body, err = jws.Verify(q.key); err != nil {
		return nil, newProblem(401, "unauthorized", "the signature is wrong")
	}
	q.url, _ = h.ExtraHeaders["url"].(string)
	if q.url != c.base+r.URL.Path {
		return nil, newProblem(401, "unauthorized", "it is signed for another URL")
	}
	return q, nil
}

func (c *CA) dispatch(w http.ResponseWriter, path string, q *request) (int, any, error) {
	switch path {
	case "/new-account":
		return c.newAccount(w, q)
	case "/new-order":
		return c.newOrder(w, q)
	}
	kind, id, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	id, challenge, _ := strings.Cut(id, "/")
	n, err := strconv.Atoi(id)
	c.mu.Lock()
	if err != nil || n >= len(c.orders) || c.orders[n].account != q.account {
		c.mu.Unlock()
		return 0, nil, newProblem(404, "malformed", "there is no such thing")
	}
	o := c.orders[n]
	c.mu.Unlock()
	switch kind {
	case "order":
		return c.orderResponse(w, n, o)
	case "authz":
		return 200, c.authorizationObject(n, o), nil
	case "challenge":
		return c.validateChallenge(n, o, challenge, q)
	case "finalize":
		return c.finalizeOrder(w, n, o, q)
	case "cert":
		return 200, o.chain, nil
	}
	return 0, nil, newProblem(404, "malformed", "there is no such thing")
}

func (c *CA) newAccount(w http.ResponseWriter, q *request) (int, any, error) {
	var body struct {
		Terms   bool            `json:"termsOfServiceAgreed"`
		Binding json.RawMessage `json:"externalAccountBinding"`
	}
	if q.account != "" || json.Unmarshal(q.body, &body) != nil {
		return 0, nil, newProblem(400, "malformed", "this makes no account")
	}
	if !body.Terms {
		return 0, nil, newProblem(403, "userActionRequired", "the terms were not agreed to")
	}
	print, err := q.key.Thumbprint(crypto.SHA256)
	if err != nil {
		return 0, nil, err
	}
	at := c.base + "/account/" + base64.RawURLEncoding.EncodeToString(print)
	c.mu.Lock()
	defer c.mu.Unlock()
	w.Header().Set("Location", at)
	if c.accounts[at] != nil {
		return 200, map[string]any{"status": "valid"}, nil
	}
	if c.opts.Binding != nil {
		jws, err := jose.ParseSignedJSON(string(body.Binding), []jose.SignatureAlgorithm{jose.HS256})
		if err != nil || jws.Signatures[0].Protected.KeyID != "kid-1" {
			return 0, nil, newProblem(403, "externalAccountRequired", "an external account must be bound")
		}
		bound, err := jws.Verify(c.opts.Binding)
		var key jose.JSONWebKey
		if err != nil || json.Unmarshal(bound, &key) != nil {
			return 0, nil, newProblem(403, "unauthorized", "the binding is not signed by the account's key")
		}
		if other, _ := key.Thumbprint(crypto.SHA256); string(other) != string(print) {
			return 0, nil, newProblem(403, "unauthorized", "the binding is of another key")
		}
	}
	c.accounts[at] = q.key
	return 201, map[string]any{"status": "valid"}, nil
}

func (c *CA) newOrder(w http.ResponseWriter, q *request) (int, any, error) {
	var body struct {
		Identifiers []struct{ Type, Value string }
	}
	if q.account == "" || json.Unmarshal(q.body, &body) != nil || len(body.Identifiers) != 1 ||
		body.Identifiers[0].Type != "dns" {
		return 0, nil, newProblem(400, "malformed", "this authority takes orders of one name")
	}
	c.mu.Lock()
	if c.mishaps.RateLimited > 0 {
		c.mishaps.RateLimited--
		p := &acmeError{429, "rateLimited", "too many certificates", c.mishaps.RetryAfter}
		c.mu.Unlock()
		return 0, nil, p
	}
	o := &order{
		account: q.account, domain: body.Identifiers[0].Value, token: rand.Text(), status: "pending",
		pending: c.mishaps.Pending,
	}
	n := len(c.orders)
	c.orders = append(c.orders, o)
	c.mu.Unlock()
	_, shown, err := c.orderResponse(w, n, o)
	return 201, shown, err
}

// orderResponse responds with the current state of an order.
func (c *CA) orderResponse(w http.ResponseWriter, n int, o *order) (int, any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := strconv.Itoa(n)
	status := o.status
	if (status == "ready" || status == "valid") && o.pending > 0 {
		o.pending--
		status = map[string]string{"ready": "pending", "valid": "processing"}[status]
	}
	out := map[string]any{
		"status": status, "identifiers": []any{map[string]string{"type": "dns", "value": o.domain}},
		"authorizations": []string{c.base + "/authz/" + id}, "finalize": c.base + "/finalize/" + id,
	}
	if status == "valid" {
		out["certificate"] = c.base + "/cert/" + id
	}
	w.Header().Set("Location", c.base+"/order/"+id)
	return 200, out, nil
}

func (c *CA) authorizationObject(n int, o *order) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	status := map[string]string{"pending": "pending", "invalid": "invalid"}[o.status]
	if status == "" {
		status = "valid"
	}
	var challenges []any
	for _, kind := range []string{"dns-01", "http-01", "tls-alpn-01"} {
		challenges = append(challenges, challengeObject(c.base, n, o, kind, status))
	}
	name := map[string]string{"type": "dns", "value": o.domain}
	return map[string]any{"status": status, "identifier": name, "challenges": challenges}
}

func challengeObject(base string, n int, o *order, kind, status string) any {
	at := base + "/challenge/" + strconv.Itoa(n) + "/" + kind
	out := map[string]any{"type": kind, "url": at, "token": o.token, "status": status}
	if o.problem != "" {
		out["error"] = map[string]any{"type": errorTypePrefix + "unauthorized", "detail": o.problem}
	}
	return out
}

// validateChallenge checks the response to a challenge.
func (c *CA) validateChallenge(n int, o *order, kind string, q *request) (int, any, error) {
	print, err := q.key.Thumbprint(crypto.SHA256)
	if err != nil {
		return 0, nil, err
	}
	answer := o.token + "." + base64.RawURLEncoding.EncodeToString(print)
	looked := func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if o.status, o.problem = "ready", ""; err != nil {
			o.status, o.problem = "invalid", err.Error()
		}
	}
	if c.opts.Validate != nil {
		looked(c.opts.Validate(kind, o.domain, o.token, answer))
	} else {
		c.challengeChecks.Go(func() { looked(checkChallenge(c.opts.Reach, kind, o.domain, o.token, answer)) })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return 200, challengeObject(c.base, n, o, kind, "processing"), nil
}

// finalizeOrder issues the certificate of an order.
func (c *CA) finalizeOrder(w http.ResponseWriter, n int, o *order, q *request) (int, any, error) {
	var body struct{ CSR string }
	_ = json.Unmarshal(q.body, &body)
	der, err := base64.RawURLEncoding.DecodeString(body.CSR)
	if err != nil {
		return 0, nil, newProblem(400, "badCSR", "it is not base64url")
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil || csr.CheckSignature() != nil || len(csr.DNSNames) != 1 || csr.DNSNames[0] != o.domain {
		return 0, nil, newProblem(400, "badCSR", "it is not for this order")
	}
	c.mu.Lock()
	if o.status != "ready" {
		c.mu.Unlock()
		return 0, nil, newProblem(403, "orderNotReady", "the order is "+o.status)
	}
	leaf, err := c.signCertificate(&x509.Certificate{DNSNames: []string{o.domain}}, csr.PublicKey, c.opts.Life)
	if err != nil {
		c.mu.Unlock()
		return 0, nil, err
	}
	o.chain = append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf}), c.PEM...)
	o.status, o.pending = "valid", c.mishaps.Pending
	c.issued++
	c.mu.Unlock()
	return c.orderResponse(w, n, o)
}

// String summarises the requests so far.
func (c *CA) String() string {
	accounts, orders, issued := c.Counts()
	return fmt.Sprintf("%d accounts, %d orders, %d certificates", accounts, orders, issued)
}
