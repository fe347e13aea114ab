package acme

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"golang.org/x/crypto/acme"
)

// obtain orders a certificate for one domain, and returns it together with its text for the folder.
func (m *Manager) obtain(ctx context.Context, name string) (*tls.Certificate, []byte, error) {
	client, err := m.account(ctx)
	if err != nil {
		return nil, nil, err
	}
	order, key, err := m.begin(ctx, client, name)
	if err != nil {
		return nil, nil, err
	}
	for _, at := range order.AuthzURLs {
		if err := m.authorize(ctx, client, name, at); err != nil {
			return nil, nil, err
		}
	}
	if order, err = client.WaitOrder(ctx, order.URI); err != nil {
		return nil, nil, fmt.Errorf("the order did not become ready: %w", err)
	}
	chain, err := issue(ctx, client, order, name, key)
	if err != nil {
		return nil, nil, fmt.Errorf("the certificate was not issued: %w", err)
	}
	text, err := encodePair(key, chain)
	if err != nil {
		return nil, nil, err
	}
	pair, err := parsePair(name, text)
	if err == nil && time.Now().After(pair.Leaf.NotAfter) {
		err = errors.New("it has expired")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("what was issued cannot be used: %w", err)
	}
	return pair, text, nil
}

// begin orders a certificate, and makes its key. In a fleet it goes on with the order of an edge
// that has died.
func (m *Manager) begin(ctx context.Context, client *acme.Client, name string) (*acme.Order, crypto.Signer, error) {
	if m.fleet != nil {
		if order, key := m.fleet.resume(ctx, client, name); order != nil {
			return order, key, nil
		}
	}
	order, err := client.AuthorizeOrder(ctx, acme.DomainIDs(name))
	if err != nil {
		return nil, nil, fmt.Errorf("the order was refused: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err == nil && m.fleet != nil {
		err = m.fleet.began(ctx, name, order, key)
	}
	return order, key, err
}

// issue has the authority issue the certificate of an order that is ready, and returns it with
// those above it.
func issue(
	ctx context.Context, client *acme.Client, order *acme.Order, name string, key crypto.Signer,
) ([][]byte, error) {
	if order.Status == acme.StatusValid { // an edge that has died has had it issued
		return client.FetchCert(ctx, order.CertURL, true)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{name}}, key)
	if err != nil {
		return nil, err
	}
	chain, _, err := client.CreateCertFromOrder(ctx, order, csr, true)
	return chain, err
}

// account returns a client of the directory that has an account there. It asks for the account at
// each order: the authority knows it by its key, and makes none anew.
func (m *Manager) account(ctx context.Context) (*acme.Client, error) {
	key, err := m.accountKey(ctx)
	if err != nil {
		return nil, err
	}
	client := &acme.Client{
		Key: key, HTTPClient: m.client, DirectoryURL: m.opts.Directory, UserAgent: "penstock", RetryBackoff: backoff,
	}
	account := &acme.Account{}
	if m.opts.Email != "" {
		account.Contact = []string{"mailto:" + m.opts.Email}
	}
	if m.opts.KID != "" {
		account.ExternalAccountBinding = &acme.ExternalAccountBinding{KID: m.opts.KID, Key: m.opts.MACKey}
	}
	if _, err := client.Discover(ctx); err != nil {
		return nil, fmt.Errorf("the directory cannot be read: %w", err)
	}
	_, err = client.Register(ctx, account, acme.AcceptTOS)
	switch {
	case err == nil, errors.Is(err, acme.ErrAccountAlreadyExists):
		return client, nil
	case isRefusal(err):
		return nil, fmt.Errorf("there is no account at the directory: %w", err)
	}
	return nil, fmt.Errorf("the directory could not be asked for the account: %w", err)
}

// isRefusal reports whether the authority will not do what it was asked for, rather than not now.
func isRefusal(err error) bool {
	e, answered := errors.AsType[*acme.Error](err)
	return answered && e.StatusCode/100 == 4 && e.StatusCode != http.StatusTooManyRequests
}

// accountKey returns the key of the account, which is made once.
func (m *Manager) accountKey(ctx context.Context) (crypto.Signer, error) {
	if m.fleet != nil {
		return m.fleet.accountKey(ctx)
	}
	key, _, err := ownAccountKey(m.folder)
	return key, err
}

// ownAccountKey returns the key of the account that the folder keeps, and its text. It is made if
// there is none.
func ownAccountKey(f folder) (crypto.Signer, []byte, error) {
	text, err := f.readAccount()
	if err != nil {
		return nil, nil, err
	}
	if text != nil {
		key, err := parseKey(text)
		return key, text, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if text, err = encodePair(key, nil); err != nil {
		return nil, nil, err
	}
	// without the key an account, and what the authority allows it, would be lost at each start
	return key, text, f.write(accountFile, text)
}

// authorize shows the authority that the domain leads to this edge.
func (m *Manager) authorize(ctx context.Context, client *acme.Client, name, at string) error {
	z, err := client.GetAuthorization(ctx, at)
	switch {
	case err != nil:
		return fmt.Errorf("the challenges cannot be read: %w", err)
	case z.Status == acme.StatusValid:
		return nil
	}
	kind := tlsALPN01
	if m.opts.HTTP {
		kind = http01
	}
	i := slices.IndexFunc(z.Challenges, func(c *acme.Challenge) bool { return c.Type == kind })
	if i < 0 {
		return fmt.Errorf("the authority offers no challenge %s", kind)
	}
	withdraw, err := m.present(ctx, client, name, z.Challenges[i])
	if err != nil {
		return err
	}
	defer withdraw()
	if _, err := client.Accept(ctx, z.Challenges[i]); err != nil {
		return fmt.Errorf("the challenge was not begun: %w", err)
	}
	if _, err := client.WaitAuthorization(ctx, z.URI); err != nil {
		return fmt.Errorf("the authority did not find the answer of %s: %w", kind, err)
	}
	return nil
}

// isRefusedChallenge reports whether the authority has looked, and not found the answer.
func isRefusedChallenge(err error) bool {
	_, refused := errors.AsType[*acme.AuthorizationError](err)
	return refused
}

// backoff is how long a request waits before it is repeated within one attempt; 0: it is not. An
// authority that says when to come back is asked then, by another attempt.
func backoff(n int, _ *http.Request, res *http.Response) time.Duration {
	if n > 4 || res.StatusCode == http.StatusTooManyRequests || res.Header.Get("Retry-After") != "" {
		return 0
	}
	if res.StatusCode < 500 { // a nonce that was used up, or is too old
		return time.Duration(n) * 100 * time.Millisecond
	}
	return time.Second << n
}

// retryAfter returns how long the authority asks to be left alone; 0: it does not say.
func retryAfter(err error, now time.Time) time.Duration {
	e, ok := errors.AsType[*acme.Error](err)
	if !ok {
		return 0
	}
	value := e.Header.Get("Retry-After")
	if n, err := strconv.Atoi(value); err == nil {
		return min(max(0, time.Duration(n)*time.Second), mostRetryAfter)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(0, at.Sub(now)), mostRetryAfter)
	}
	return 0
}
