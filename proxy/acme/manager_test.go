package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/crypto/acme"

	"penstock/config/testkit/acmeca"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const day = 24 * time.Hour

// edge is a manager in a bubble, whose authority reaches it without a network.
type edge struct {
	*Manager
	ca   *acmeca.CA
	log  *observer.ObservedLogs
	stop func()
}

// begin runs a manager, which at then has, until the test ends, or stop is called. It must run in a bubble. beside is done
// before the manager runs.
func begin(t *testing.T, ca *acmeca.CA, at *atomic.Pointer[Manager], o Options, beside ...func(context.Context, *Manager)) *edge {
	t.Helper()
	core, log := observer.New(zap.InfoLevel)
	o.Directory, o.Transport, o.Log = ca.Directory(), ca, zap.New(core)
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	at.Store(m)
	ctx, cancel := context.WithCancel(t.Context())
	for _, do := range beside {
		do(ctx, m)
	}
	ended := make(chan struct{})
	go func() {
		m.Run(ctx)
		close(ended)
	}()
	e := &edge{m, ca, log, func() { cancel(); <-ended }}
	t.Cleanup(e.stop)
	return e
}

// answered is what the authority of a bubble looks with.
func answered(at *atomic.Pointer[Manager]) func(kind, domain, token, answer string) error {
	return func(kind, domain, token, answer string) error {
		if kind == http01 {
			if got, _ := at.Load().httpAnswer(token); got != answer {
				return errors.New("404 at " + domain)
			}
			return nil
		}
		pair, err := at.Load().Challenge(&tls.ClientHelloInfo{ServerName: domain})
		if err != nil {
			return err
		}
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err == nil {
			err = leaf.VerifyHostname(domain)
		}
		return err
	}
}

// orders returns how many orders were begun.
func orders(ca *acmeca.CA) int {
	_, n, _ := ca.Count()
	return n
}

// shown is the certificate that a client is shown which asks for a name.
func (e *edge) shown(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	pair, err := e.Certificate(&tls.ClientHelloInfo{ServerName: name})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if pair.Leaf == nil {
		t.Fatalf("%s gets the placeholder", name)
	}
	return pair.Leaf
}

// TestObtain: certificates are obtained by both challenges, kept for nobody else to read, and used again after a restart.
func TestObtain(t *testing.T) {
	for _, overHTTP := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var at atomic.Pointer[Manager]
			ca := acmeca.New(t, acmeca.Options{Validate: answered(&at)})
			dir := filepath.Join(t.TempDir(), "certificates")
			o := Options{Domains: []string{"a.test", "b.test"}, Email: "who@a.test", Folder: dir, HTTP: overHTTP}
			e := begin(t, ca, &at, o)
			time.Sleep(time.Minute)
			for _, name := range o.Domains {
				leaf := e.shown(t, strings.ToUpper(name)+".")
				if err := leaf.VerifyHostname(name); err != nil {
					t.Error(err)
				}
				if _, err := leaf.Verify(x509.VerifyOptions{Roots: ca.Pool()}); err != nil {
					t.Error(err)
				}
			}
			if err := e.shown(t, "").VerifyHostname("a.test"); err != nil { // who names no domain, or no other
				t.Error(err)
			}
			if err := e.shown(t, "other.test").VerifyHostname("a.test"); err != nil {
				t.Error(err)
			}
			if accounts, orders, issued := ca.Count(); accounts != 1 || orders != 2 || issued != 2 {
				t.Errorf("the authority has %s", ca)
			}
			e.Manager.answers.mu.Lock()
			if n := len(e.answers.http) + len(e.answers.tls); n > 0 {
				t.Errorf("%d answers are left", n)
			}
			e.Manager.answers.mu.Unlock()
			kept(t, dir)
			before := e.shown(t, "b.test")
			e.stop()
			e = begin(t, ca, &at, o)
			if !e.shown(t, "b.test").Equal(before) {
				t.Error("another certificate is used after the restart")
			}
			time.Sleep(day)
			if n := orders(ca); n != 2 {
				t.Errorf("%d orders after the restart", n)
			}
		})
	}
}

// kept checks who may read what is in a folder.
func kept(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		if strings.HasSuffix(path, ".pem") || strings.HasSuffix(path, ".key") {
			files++
		}
		return nil
	})
	if err != nil || files != 3 {
		t.Errorf("%d files are kept, %v", files, err)
	}
}

// TestRenewal: a certificate is renewed before a third of its life is left, and not much earlier. While the authority is away
// the old one serves, and the authority is not asked without end.
func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at atomic.Pointer[Manager]
		ca := acmeca.New(t, acmeca.Options{Validate: answered(&at)})
		e := begin(t, ca, &at, Options{Domains: []string{"a.test"}, Folder: t.TempDir()})
		time.Sleep(56 * day)
		first := e.shown(t, "a.test")
		if n := orders(ca); n != 1 {
			t.Fatalf("%d orders in 56 days", n)
		}
		time.Sleep(4*day + time.Hour)
		second := e.shown(t, "a.test")
		if n := orders(ca); n != 2 || second.Equal(first) {
			t.Fatalf("%d orders when a third is left", n)
		}
		ca.Mishap(func(m *acmeca.Mishaps) { m.Down = true })
		requests := ca.Requests("/")
		time.Sleep(85 * day)
		if !e.shown(t, "a.test").Equal(second) {
			t.Error("the certificate that is good is not shown")
		}
		if s := e.States()[0]; s.Failures < 10 || !strings.Contains(s.Trouble, "closed for repairs") || s.Next.Before(time.Now()) {
			t.Errorf("the state is %+v", s)
		}
		if n := ca.Requests("/") - requests; n < 50 || n > 900 { // 27 days, an attempt of some requests about each seven hours; advice each six
			t.Errorf("%d requests while the authority was away", n)
		}
		ca.Mishap(func(m *acmeca.Mishaps) { m.Down = false })
		time.Sleep(8 * time.Hour)
		if s := e.States()[0]; s.Failures != 0 || s.Trouble != "" || e.shown(t, "a.test").Equal(second) {
			t.Errorf("the state is %+v when the authority is back", s)
		}
		if ok, failed := e.Orders(); ok != 3 || failed < 10 {
			t.Errorf("%d orders went well and %d did not", ok, failed)
		}
	})
}

// TestLife: certificates of any life are renewed in time, one of minutes, too.
func TestLife(t *testing.T) {
	for _, life := range []time.Duration{10 * time.Minute, day, 6 * day, 400 * day} {
		synctest.Test(t, func(t *testing.T) {
			var at atomic.Pointer[Manager]
			ca := acmeca.New(t, acmeca.Options{Life: life, Validate: answered(&at)})
			e := begin(t, ca, &at, Options{Domains: []string{"a.test"}, Folder: t.TempDir()})
			time.Sleep(time.Second)
			for range 200 {
				if left := time.Until(e.shown(t, "a.test").NotAfter); left < life/4 {
					t.Fatalf("%s are left of %s", left, life)
				}
				time.Sleep(life / 20)
			}
			if n := orders(ca); n < 12 || n > 18 {
				t.Errorf("%d certificates in 10 lives", n)
			}
		})
	}
}

// TestMishaps: what an authority does on a bad day is waited out, by its own clock where it names one.
func TestMishaps(t *testing.T) {
	for name, c := range map[string]struct {
		mishap acmeca.Mishaps
		within time.Duration
		failed uint64
	}{
		"used nonces":         {acmeca.Mishaps{BadNonces: 3}, time.Minute, 0},
		"slow":                {acmeca.Mishaps{Pending: 20}, 2 * time.Minute, 0},
		"a limit":             {acmeca.Mishaps{RateLimited: 1}, 4 * time.Minute, 1},
		"a limit with a time": {acmeca.Mishaps{RateLimited: 1, RetryAfter: 10 * time.Hour}, 13 * time.Hour, 1},
		"silence":             {acmeca.Mishaps{Wait: make(chan struct{})}, 6 * time.Minute, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var at atomic.Pointer[Manager]
				mishap := c.mishap
				if mishap.Wait != nil {
					mishap.Wait = make(chan struct{}) // of this bubble
				}
				ca := acmeca.New(t, acmeca.Options{Validate: answered(&at)})
				ca.Mishap(func(m *acmeca.Mishaps) { *m = mishap })
				e := begin(t, ca, &at, Options{Domains: []string{"a.test"}, Folder: t.TempDir(), HTTP: true})
				if c.mishap.RetryAfter > 0 {
					time.Sleep(c.mishap.RetryAfter - time.Second)
					if n := ca.Requests("/new-order"); n != 1 {
						t.Errorf("%d orders before the time that the authority has named", n)
					}
					e.SetDomains([]string{"a.test"}) // a reload does not hurry it either
				}
				if mishap.Wait != nil {
					time.Sleep(time.Minute)
					close(mishap.Wait)
					ca.Mishap(func(m *acmeca.Mishaps) { m.Wait = nil })
				}
				time.Sleep(c.within)
				e.shown(t, "a.test")
				if _, failed := e.Orders(); failed != c.failed {
					t.Errorf("%d attempts failed", failed)
				}
			})
		})
	}
}

// TestRefused: a domain that does not lead here is tried ever less often, the others are not held up, the trouble is told, and
// a handshake gets no other domain's certificate.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at atomic.Pointer[Manager]
		ok := answered(&at)
		ca := acmeca.New(t, acmeca.Options{Validate: func(kind, domain, token, answer string) error {
			if domain == "lost.test" {
				return errors.New("203.0.113.9: connection refused")
			}
			return ok(kind, domain, token, answer)
		}})
		dir := t.TempDir()
		e := begin(t, ca, &at, Options{Domains: []string{"lost.test", "a.test"}, Folder: dir, HTTP: true})
		if pair, err := e.Certificate(&tls.ClientHelloInfo{}); err != nil || pair.Leaf != nil {
			t.Errorf("without a name and a certificate: %v", err)
		}
		time.Sleep(time.Hour)
		e.shown(t, "a.test")
		if _, err := e.Certificate(&tls.ClientHelloInfo{ServerName: "lost.test"}); err == nil {
			t.Error("a domain without a certificate gets another's")
		}
		s := e.States()[0]
		if !strings.Contains(s.Trouble, "203.0.113.9: connection refused") || !strings.Contains(s.Trouble, "port 80") || s.Failures < 3 {
			t.Errorf("the state is %+v", s)
		}
		if n := orders(ca); n > 6 { // one is a.test's; five validations in an hour are allowed
			t.Errorf("%d orders in an hour", n)
		}
		if n := e.log.FilterMessage("certificate not obtained").Len(); n != s.Failures {
			t.Errorf("%d lines of the log for %d failures", n, s.Failures)
		}
		before := ca.Requests("/new-order")
		for range 50 { // a process that ends and starts again
			e.stop()
			e = begin(t, ca, &at, Options{Domains: []string{"lost.test", "a.test"}, Folder: dir, HTTP: true})
			time.Sleep(2 * time.Second)
		}
		if n := ca.Requests("/new-order") - before; n > 1 {
			t.Errorf("%d orders in 50 starts", n)
		}
	})
}

// TestNames: nothing is ordered for what clients name.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at atomic.Pointer[Manager]
		ca := acmeca.New(t, acmeca.Options{Validate: answered(&at)})
		e := begin(t, ca, &at, Options{Domains: []string{"a.test"}, Folder: t.TempDir()})
		time.Sleep(time.Minute)
		for _, name := range []string{"x.test", "", "a.test.x.test", "127.0.0.1", strings.Repeat("x.", 100) + "test"} {
			_, _ = e.Certificate(&tls.ClientHelloInfo{ServerName: name})
			if _, err := e.Challenge(&tls.ClientHelloInfo{ServerName: name}); err == nil {
				t.Errorf("a challenge of %q is answered", name)
			}
		}
		time.Sleep(day)
		if n := orders(ca); n != 1 {
			t.Errorf("%d orders", n)
		}
	})
}

// TestDomainsChange: a reload adds and takes away domains; those that stay serve on with what they have.
func TestDomainsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at atomic.Pointer[Manager]
		ca := acmeca.New(t, acmeca.Options{Validate: answered(&at)})
		e := begin(t, ca, &at, Options{Domains: []string{"a.test", "b.test"}, Folder: t.TempDir()})
		time.Sleep(time.Minute)
		stays, back := e.shown(t, "b.test"), e.shown(t, "a.test")
		e.SetDomains([]string{"b.test", "c.test"})
		if !e.shown(t, "b.test").Equal(stays) || !e.shown(t, "a.test").Equal(stays) {
			t.Error("b.test does not serve alone")
		}
		time.Sleep(time.Minute)
		if err := e.shown(t, "c.test").VerifyHostname("c.test"); err != nil || orders(ca) != 3 {
			t.Errorf("%v, %s", err, ca)
		}
		e.SetDomains([]string{"a.test"}) // the folder still has it
		if !e.shown(t, "a.test").Equal(back) {
			t.Error("a.test has another certificate")
		}
		time.Sleep(day)
		if n := orders(ca); n != 3 {
			t.Errorf("%d orders", n)
		}
	})
}

// TestAdvice: an authority that advises an early renewal (RFC 9773) is followed within a day, and not without end.
func TestAdvice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at atomic.Pointer[Manager]
		ca := acmeca.New(t, acmeca.Options{Validate: answered(&at)})
		e := begin(t, ca, &at, Options{Domains: []string{"a.test"}, Folder: t.TempDir()})
		time.Sleep(5 * day)
		if n := ca.Requests("/renewal-info/"); n < 15 || n > 25 {
			t.Errorf("advice was asked for %d times in 5 days", n)
		}
		first := e.shown(t, "a.test")
		ca.Mishap(func(m *acmeca.Mishaps) {
			m.WindowStart, m.WindowEnd = time.Now().Add(2*day), time.Now().Add(3*day)
		})
		time.Sleep(2 * day)
		if !e.shown(t, "a.test").Equal(first) {
			t.Error("renewed before the time")
		}
		time.Sleep(day + 6*time.Hour)
		if e.shown(t, "a.test").Equal(first) {
			t.Error("not renewed in the time")
		}
		time.Sleep(day) // the authority still says that it should have been
		if n := orders(ca); n > 4 {
			t.Errorf("%d orders in two days", n)
		}
	})
}

// TestBinding: an account is bound to one that the authority knows.
func TestBinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := []byte(strings.Repeat("k", 32))
		var at atomic.Pointer[Manager]
		ca := acmeca.New(t, acmeca.Options{Binding: secret, Validate: answered(&at)})
		dir := t.TempDir()
		e := begin(t, ca, &at, Options{Domains: []string{"a.test"}, Folder: dir})
		time.Sleep(time.Minute)
		if s := e.States()[0]; !strings.Contains(s.Trouble, "an external account must be bound") {
			t.Errorf("the state is %+v", s)
		}
		e.stop()
		time.Sleep(leastPause)
		key, err := base64.RawURLEncoding.DecodeString(base64.RawURLEncoding.EncodeToString(secret))
		if err != nil {
			t.Fatal(err)
		}
		e = begin(t, ca, &at, Options{Domains: []string{"a.test"}, Folder: dir, KID: "kid-1", MACKey: key})
		time.Sleep(time.Minute)
		e.shown(t, "a.test")
	})
}

// TestFolder: what a folder holds that is no certificate of the domain is left alone until another is obtained, and one
// directory's certificates are not taken for another's.
func TestFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at atomic.Pointer[Manager]
		ca := acmeca.New(t, acmeca.Options{Validate: answered(&at)})
		dir := t.TempDir()
		e := begin(t, ca, &at, Options{Domains: []string{"a.test", "b.test"}, Folder: dir})
		time.Sleep(time.Minute)
		e.stop()
		b, err := os.ReadFile(filepath.Join(e.folder.path, "b.test.pem"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(e.folder.path, "a.test.pem"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		if other, err := openFolder(dir, "https://staging.test/directory"); err != nil || other.path == e.folder.path {
			t.Errorf("two directories share %s, %v", other.path, err)
		}
		e = begin(t, ca, &at, Options{Domains: []string{"a.test", "b.test"}, Folder: dir})
		if _, err := e.Certificate(&tls.ClientHelloInfo{ServerName: "a.test"}); err == nil {
			t.Error("b.test's certificate is shown for a.test")
		}
		time.Sleep(leastPause + time.Minute)
		if err := e.shown(t, "a.test").VerifyHostname("a.test"); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Options{Folder: filepath.Join(dir, "file"), Log: zap.NewNop()}); err == nil {
			t.Error("a file is taken for the folder")
		}
	})
}

// TestRetryAfterOverRestarts: an authority that has named a time is not asked before it by a new process either.
func TestRetryAfterOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at atomic.Pointer[Manager]
		ca := acmeca.New(t, acmeca.Options{Validate: answered(&at)})
		const wait = 10 * time.Hour
		ca.Mishap(func(m *acmeca.Mishaps) { m.RateLimited, m.RetryAfter = 1, wait })
		o := Options{Domains: []string{"a.test"}, Folder: t.TempDir(), HTTP: true}
		for range 5 {
			e := begin(t, ca, &at, o)
			time.Sleep(wait/5 - time.Minute)
			e.stop()
			if n := ca.Requests("/new-order"); n != 1 {
				t.Fatalf("%d orders before the time that the authority has named", n)
			}
		}
		e := begin(t, ca, &at, o)
		time.Sleep(10 * time.Minute)
		e.shown(t, "a.test")
		if n := ca.Requests("/new-order"); n != 2 {
			t.Errorf("%d orders", n)
		}
	})
}

// TestWordsOfTheAccount: that there is no account is said where the authority gives none, and of no other trouble.
func TestWordsOfTheAccount(t *testing.T) {
	for name, c := range map[string]struct {
		options acmeca.Options
		mishap  acmeca.Mishaps
		want    string
	}{
		"binding asked for": {acmeca.Options{Binding: []byte("a key of the authority's")}, acmeca.Mishaps{}, "there is no account at the directory: "},
		"down":              {acmeca.Options{}, acmeca.Mishaps{Down: true}, "the directory cannot be read: "},
		"a limit":           {acmeca.Options{}, acmeca.Mishaps{RateLimited: 1}, "the order was refused: "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var at atomic.Pointer[Manager]
				c.options.Validate = answered(&at)
				ca := acmeca.New(t, c.options)
				ca.Mishap(func(m *acmeca.Mishaps) { *m = c.mishap })
				e := begin(t, ca, &at, Options{Domains: []string{"a.test"}, Folder: t.TempDir(), HTTP: true})
				time.Sleep(2*time.Minute - time.Second)
				if got := e.States()[0].Trouble; !strings.HasPrefix(got, c.want) {
					t.Errorf("%q, want %q", got, c.want)
				}
				lines := e.log.FilterMessage("certificate not obtained").All()
				if len(lines) != 1 {
					t.Fatalf("%d lines", len(lines))
				}
				if s, ok := lines[0].ContextMap()["next_try_in_s"].(int64); !ok || s < 120 || s > 150 {
					t.Errorf("%v", lines[0].ContextMap())
				}
			})
		})
	}
}

// TestIsRefusal: a limit, a server in trouble and a network that fails are no refusals.
func TestIsRefusal(t *testing.T) {
	for status, want := range map[int]bool{400: true, 403: true, 429: false, 500: false, 503: false} {
		if isRefusal(fmt.Errorf("x: %w", &acme.Error{StatusCode: status})) != want {
			t.Errorf("%d: %t", status, !want)
		}
	}
	if isRefusal(context.DeadlineExceeded) {
		t.Error("silence is taken for a refusal")
	}
}
