package acme

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"penstock/config/testkit/acmeca"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// certmagic's rate limiter runs until the process ends.
		goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.(*RingBufferRateLimiter).loop"),
		// This goroutine may take 5 seconds to notice that its lock has been released.
		goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.keepLockfileFresh"),
	)
}

type edge struct {
	*Manager
	log  *observer.ObservedLogs
	stop func()
}

func startEdge(t *testing.T, o Options) *edge {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	o.Log = zap.New(core)
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	e := &edge{m, logs, sync.OnceFunc(func() { cancel(); running.Wait() })}
	t.Cleanup(e.stop)
	return e
}

// publicListener is the listener to which an authority connects. It uses the certificates of its
// Manager.
type publicListener struct {
	net.Listener
	mu sync.Mutex
	to *Manager
}

func listenPublic(t *testing.T) *publicListener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &publicListener{Listener: ln}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				conn := tls.Server(c, &tls.Config{NextProtos: []string{"acme-tls/1"}, GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
					p.mu.Lock()
					defer p.mu.Unlock()
					if p.to == nil {
						return nil, errors.New("nobody")
					}
					return p.to.ChallengeCertificate(h)
				}})
				_ = conn.Handshake()
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() { ln.Close(); serving.Wait() })
	return p
}

func (p *publicListener) setManager(m *Manager) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = m
}

func (p *publicListener) dialPublic(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", p.Addr().String())
}

const waitTimeout = time.Minute

func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(waitTimeout); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute: " + what)
		}
	}
}

func orderCount(ca *acmeca.CA) int {
	_, n, _ := ca.Counts()
	return n
}

// oldPair returns a certificate in the format used by versions without certmagic.
func oldPair(t *testing.T, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 0, 80)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return append(oldKey(t, key), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
}

func oldKey(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// TestMigrationFromLegacyVersion checks the first start after an upgrade from a version without certmagic. No
// certificate may be ordered, and the next order must use the same account.
func TestMigrationFromLegacyVersion(t *testing.T) {
	for _, email := range []string{"", "Ops@example.com"} {
		p := listenPublic(t)
		ca := acmeca.Start(t, acmeca.Options{Reach: p.dialPublic})
		o := Options{Domains: []string{"b.test"}, Directory: ca.Directory(), Roots: ca.TrustPool(), Folder: t.TempDir(), Email: email, Challenge: p.Addr()}
		first := startEdge(t, o)
		p.setManager(first.Manager)
		wait(t, "an account and an order", func() bool { ok, _ := first.OrderCounts(); return ok == 1 })
		_, key := first.accountStorageKeys()
		text, err := first.folder.Load(t.Context(), key)
		first.stop()
		if err != nil {
			t.Fatal(err)
		}
		o.Folder = t.TempDir()
		at := filepath.Join(o.Folder, directoryName(ca.Directory()))
		block, _ := pem.Decode(text)
		k, err := x509.ParseECPrivateKey(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(os.MkdirAll(at, 0o700), os.WriteFile(filepath.Join(at, "account.key"), oldKey(t, k), 0o600), os.WriteFile(filepath.Join(at, "a.test.pem"), oldPair(t, "a.test"), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		o.Domains = []string{"a.test"}
		e := startEdge(t, o)
		p.setManager(e.Manager)
		wait(t, "it was looked at", func() bool { return time.Until(e.CertificateStates()[0].Next) > time.Minute })
		if n := orderCount(ca); n != 1 || e.CertificateStates()[0].NotAfter.IsZero() {
			t.Errorf("%s at the first start, %+v", ca, e.CertificateStates())
		}
		e.SetDomains([]string{"a.test", "b.test"})
		wait(t, "b.test has a certificate", func() bool { ok, _ := e.OrderCounts(); return ok == 1 })
		if accounts, n, _ := ca.Counts(); accounts != 1 || n != 2 {
			t.Errorf("%s, want 1 account and 2 orders", ca)
		}
		e.stop()
		_ = filepath.WalkDir(at, func(name string, d os.DirEntry, err error) error {
			if info, bad := d.Info(); err != nil || bad != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v, %v; want it for its owner alone", name, info.Mode(), err)
			}
			return nil
		})
	}
}

// TestRestarts checks that a process that restarts repeatedly orders at most once in two minutes if
// its orders are rejected or the authority is down.
func TestRestarts(t *testing.T) {
	for name, mishap := range map[string]func(*acmeca.SimulatedFailures){
		"refused": func(m *acmeca.SimulatedFailures) { m.RateLimited = 1000 },
		"down":    func(m *acmeca.SimulatedFailures) { m.Down = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := listenPublic(t)
			ca := acmeca.Start(t, acmeca.Options{Reach: p.dialPublic})
			ca.SetSimulatedFailures(mishap)
			o := Options{Domains: []string{"a.test"}, Directory: ca.Directory(), Roots: ca.TrustPool(), Folder: t.TempDir(), Challenge: p.Addr()}
			asked := 0
			for i := range 3 {
				e := startEdge(t, o)
				wait(t, "an attempt or a pause", func() bool { return time.Until(e.CertificateStates()[0].Next) > time.Minute })
				e.stop()
				if i == 0 {
					asked = ca.CountRequests("/")
					if s := e.CertificateStates()[0]; s.Failures != 1 || s.Trouble == "" {
						t.Errorf("state = %+v, want 1 failure and its trouble", s)
					}
				}
			}
			if n := ca.CountRequests("/"); n != asked || n == 0 {
				t.Errorf("%d requests at the first start, %d after three", asked, n)
			}
		})
	}
}

// TestBinding checks that an ACME account can be bound to an external account at the authority.
func TestBinding(t *testing.T) {
	p := listenPublic(t)
	ca := acmeca.Start(t, acmeca.Options{Reach: p.dialPublic, Binding: []byte("secret of an account, 32 bytes at least")})
	o := Options{Domains: []string{"a.test"}, Directory: ca.Directory(), Roots: ca.TrustPool(), Folder: t.TempDir(), KID: "kid-1", MACKey: []byte("secret of an account, 32 bytes at least"), Challenge: p.Addr()}
	e := startEdge(t, o)
	p.setManager(e.Manager)
	wait(t, "it has a certificate", func() bool {
		if s := e.CertificateStates()[0]; s.Failures > 0 {
			t.Fatalf("state = %+v, want no failure", s)
		}
		ok, _ := e.OrderCounts()
		return ok == 1
	})
	e.stop()
	for _, line := range e.log.All() {
		if text := fmt.Sprint(line.Message, line.ContextMap()); strings.Contains(text, "secret") {
			t.Error(text)
		}
	}
}

// TestUnknownNamesCauseNoOrders checks that names in handshakes do not cause orders.
func TestUnknownNamesCauseNoOrders(t *testing.T) {
	m, err := New(Options{Domains: []string{"a.test"}, Directory: "https://ca.test/directory", Folder: t.TempDir(), Log: zap.NewNop(), Challenge: &net.TCPAddr{}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.cache.Stop()
	for name, want := range map[string]bool{"": true, "a.test": false, "b.test": false} {
		pair, err := m.Certificate(&tls.ClientHelloInfo{ServerName: name})
		if (pair != nil) != want || (err == nil) != want {
			t.Errorf("Certificate(%q): %v, want a certificate: %v", name, err, want)
		}
		if pair, err := m.ChallengeCertificate(&tls.ClientHelloInfo{ServerName: name, SupportedProtos: []string{"acme-tls/1"}}); pair != nil || err == nil {
			t.Errorf("Challenge(%q) answers, want an error", name)
		}
	}
}
