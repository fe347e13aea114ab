package acme

import (
	"context"
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
	mu    sync.Mutex
	http  map[string]string           // by token
	tls   map[string]*tls.Certificate // by domain
	fleet map[string]*answer          // those of other edges' orders, by domain
}

// present has a challenge answered until withdraw is called, in a fleet by all edges.
func (m *Manager) present(
	ctx context.Context, client *acme.Client, name string, c *acme.Challenge,
) (withdraw func(), err error) {
	a := &answer{Token: c.Token}
	var own func()
	if c.Type == http01 {
		if a.Text, err = client.HTTP01ChallengeResponse(c.Token); err != nil {
			return nil, err
		}
		m.answers.set(c.Token, a.Text)
		own = func() { m.answers.set(c.Token, "") }
	} else {
		pair, err := client.TLSALPN01ChallengeCert(c.Token, name)
		if err != nil {
			return nil, err
		}
		a.pair = &pair
		m.answers.setTLS(name, &pair)
		own = func() { m.answers.setTLS(name, nil) }
	}
	if m.fleet == nil {
		return own, nil
	}
	if err := m.fleet.show(ctx, name, a); err != nil {
		own()
		return nil, err
	}
	return func() { own(); m.fleet.end(ctx, EntryAnswer, name) }, nil
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

// share keeps the answer of another edge, as the store has it; one without a token takes it away.
func (a *answers) share(domain string, text []byte) {
	shared := parseAnswer(text)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.fleet, domain)
	if shared == nil {
		return
	}
	if a.fleet == nil {
		a.fleet = map[string]*answer{}
	}
	a.fleet[domain] = shared
}

// httpAnswer returns the answer to the token of an HTTP-01 challenge.
func (m *Manager) httpAnswer(token string) (string, bool) {
	m.answers.mu.Lock()
	defer m.answers.mu.Unlock()
	if text, ok := m.answers.http[token]; ok {
		return text, true
	}
	for _, a := range m.answers.fleet {
		if a.Token == token && a.Text != "" {
			return a.Text, true
		}
	}
	return "", false
}

var errNoChallenge = errors.New("no challenge is open for this domain")

// Challenge returns the certificate that answers a TLS-ALPN-01 challenge.
func (m *Manager) Challenge(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	m.answers.mu.Lock()
	defer m.answers.mu.Unlock()
	name := plainName(hello.ServerName)
	if pair := m.answers.tls[name]; pair != nil {
		return pair, nil
	}
	if a := m.answers.fleet[name]; a != nil && a.pair != nil {
		return a.pair, nil
	}
	return nil, errNoChallenge
}
