package acme

import (
	"crypto/tls"
	"errors"
	"sync"

	"golang.org/x/crypto/acme"
)

// The challenges that are answered, as RFC 8555 and RFC 8737 name them.
const (
	http01    = "http-01"
	tlsALPN01 = "tls-alpn-01"
)

// answers are those to the challenges of orders that run.
type answers struct {
	mu   sync.Mutex
	http map[string]string           // by token
	tls  map[string]*tls.Certificate // by domain
}

// present has a challenge answered until withdraw is called.
func (m *Manager) present(client *acme.Client, name string, c *acme.Challenge) (withdraw func(), err error) {
	if c.Type == http01 {
		answer, err := client.HTTP01ChallengeResponse(c.Token)
		if err != nil {
			return nil, err
		}
		m.answers.set(c.Token, answer)
		return func() { m.answers.set(c.Token, "") }, nil
	}
	pair, err := client.TLSALPN01ChallengeCert(c.Token, name)
	if err != nil {
		return nil, err
	}
	m.answers.setTLS(name, &pair)
	return func() { m.answers.setTLS(name, nil) }, nil
}

// set keeps the answer to a token; "" takes it away.
func (a *answers) set(token, answer string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if answer == "" {
		delete(a.http, token)
		return
	}
	if a.http == nil {
		a.http = map[string]string{}
	}
	a.http[token] = answer
}

// setTLS keeps the certificate that answers for a domain; nil takes it away.
func (a *answers) setTLS(name string, pair *tls.Certificate) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if pair == nil {
		delete(a.tls, name)
		return
	}
	if a.tls == nil {
		a.tls = map[string]*tls.Certificate{}
	}
	a.tls[name] = pair
}

// httpAnswer returns the answer to the token of an HTTP-01 challenge.
func (m *Manager) httpAnswer(token string) (string, bool) {
	m.answers.mu.Lock()
	defer m.answers.mu.Unlock()
	answer, ok := m.answers.http[token]
	return answer, ok
}

var errNoChallenge = errors.New("no challenge is open for this domain")

// Challenge returns the certificate that answers a TLS-ALPN-01 challenge.
func (m *Manager) Challenge(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	m.answers.mu.Lock()
	defer m.answers.mu.Unlock()
	if pair := m.answers.tls[plainName(hello.ServerName)]; pair != nil {
		return pair, nil
	}
	return nil, errNoChallenge
}
