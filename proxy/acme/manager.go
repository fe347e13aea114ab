package acme

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/crypto/acme"

	"penstock/proxy/plaintext"
)

// Options say for which domains certificates are obtained, where and how.
type Options struct {
	Domains   []string
	Email     string         // of the account; may be empty
	Directory string         // URL of the authority's directory
	Roots     *x509.CertPool // that sign the directory's certificate; nil: the system's
	Folder    string         // what is obtained is kept there
	KID       string         // of the external account binding; empty: there is none
	MACKey    []byte         // likewise
	HTTP      bool           // answer HTTP-01 challenges, not TLS-ALPN-01
	Log       *zap.Logger

	Transport http.RoundTripper // asks the directory, for tests; nil: over the network
}

// Manager holds the certificates of the edge's domains, and obtains and renews them. Its methods
// may be called from any goroutine, Run once.
type Manager struct {
	opts   Options
	client *http.Client
	folder folder
	wake   chan struct{} // the domains have changed, or are to be tried at once

	set         atomic.Pointer[domains]
	answers     answers
	placeholder func() *tls.Certificate
	ari         renewalInfo // Run alone has it
	fleet       partner     // nil: this edge obtains them alone

	ok, failed atomic.Uint64 // orders
}

// partner is an edge's part in a fleet that obtains certificates together.
type partner interface {
	follow(ctx context.Context)
	readAgain()
	// order obtains the certificate of a domain that is due, if no other edge does, and returns when
	// to look again.
	order(ctx context.Context, d *domain) time.Time
	accountKey(ctx context.Context) (crypto.Signer, error)
	resume(ctx context.Context, client *acme.Client, name string) (*acme.Order, crypto.Signer)
	began(ctx context.Context, name string, order *acme.Order, key crypto.Signer) error
	show(ctx context.Context, domain string, a *answer) error
	end(ctx context.Context, kind EntryKind, domain string)
	publish(ctx context.Context, d *domain, pair *tls.Certificate, text []byte)
}

// State is what an operator is shown of a domain.
type State struct {
	Domain              string
	NotBefore, NotAfter time.Time // zero: there is no certificate yet
	Failures            int       // in a row
	Trouble             string    // why the last attempt failed, or what an order waits for
	Waits               bool      // an order waits for the fleet's store
	Next                time.Time // when it is looked at next
}

// New returns a manager with the certificates of its folder, which is made if it is not there.
func New(o Options) (*Manager, error) {
	folder, err := openFolder(o.Folder, o.Directory)
	if err != nil {
		return nil, err
	}
	transport := o.Transport
	if transport == nil {
		transport = directoryTransport(o.Roots)
	}
	m := &Manager{
		opts: o, folder: folder, wake: make(chan struct{}, 1),
		client:      newClient(transport),
		placeholder: sync.OnceValue(selfSigned),
	}
	m.ari.client, m.ari.directory = m.client, o.Directory
	m.set.Store(new(domains))
	m.SetDomains(o.Domains)
	return m, nil
}

// SetDomains changes the domains. Those that stay keep their certificates; of new ones the folder
// is read. It is also what an operator's reload does, so what has failed is tried again.
func (m *Manager) SetDomains(names []string) {
	old, next := m.set.Load(), &domains{byName: map[string]*domain{}}
	for _, name := range names {
		d := old.byName[name]
		if d == nil {
			d = m.load(name)
		}
		d.again()
		if m.fleet != nil {
			d.hurry(true)
		}
		next.order, next.byName[name] = append(next.order, d), d
	}
	m.set.Store(next)
	if m.fleet != nil {
		m.fleet.readAgain()
	}
	wake(m)
}

// wake has Run look at the domains now.
func wake(m *Manager) {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// load returns a domain with what the folder has of it.
func (m *Manager) load(name string) *domain {
	d := &domain{name: name, allowed: m.folder.allowedAt(name)}
	pair, err := m.folder.read(name)
	switch {
	case err != nil:
		m.opts.Log.Warn("a certificate in tls.acme.folder cannot be used: another is obtained",
			zap.String("domain", name), zap.Error(err))
	case pair == nil:
		m.opts.Log.Info("there is no certificate yet: clients of this domain are served as soon as it is obtained",
			zap.String("domain", name))
	default:
		d.current.Store(pair)
	}
	return d
}

// errNoCertificate ends a handshake.
var errNoCertificate = errors.New("there is no certificate for this domain yet")

// Certificate returns the certificate for a handshake. A name that is none of the domains, or no
// name, gets that of the first domain which has one: nothing is ever ordered for what a client
// names. A domain without a certificate gets none of another.
func (m *Manager) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	set := m.set.Load()
	if d := set.byName[plainName(hello.ServerName)]; d != nil {
		if pair := d.current.Load(); pair != nil {
			return pair, nil
		}
		return nil, errNoCertificate
	}
	for _, d := range set.order {
		if pair := d.current.Load(); pair != nil {
			return pair, nil
		}
	}
	if hello.ServerName == "" {
		return m.placeholder(), nil
	}
	return nil, errNoCertificate
}

// plainName is a name as domains are written.
func plainName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// States returns what is known of each domain.
func (m *Manager) States() []State {
	set := m.set.Load()
	all := make([]State, 0, len(set.order))
	for _, d := range set.order {
		d.mu.Lock()
		s := State{Domain: d.name, Failures: d.failures, Trouble: d.trouble, Waits: d.waits, Next: d.next}
		d.mu.Unlock()
		if s.Waits {
			s.Trouble = errStoreLost.Error()
		}
		if pair := d.current.Load(); pair != nil {
			s.NotBefore, s.NotAfter = pair.Leaf.NotBefore, pair.Leaf.NotAfter
		}
		all = append(all, s)
	}
	return all
}

// Orders returns how many certificates were obtained, and how often that has failed.
func (m *Manager) Orders() (ok, failed uint64) { return m.ok.Load(), m.failed.Load() }

// Run obtains and renews certificates until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	for ctx.Err() == nil {
		timer := time.NewTimer(time.Until(m.round(ctx)))
		select {
		case <-timer.C:
		case <-m.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// idleRound is when Run looks again at the latest: the system's clock may have been set, or the
// machine have slept.
const idleRound = time.Hour

// round looks at each domain that is due, and returns when the next one is.
func (m *Manager) round(ctx context.Context) time.Time {
	earliest := time.Now().Add(idleRound)
	for _, d := range m.set.Load().order {
		d.mu.Lock()
		next := d.next
		d.nudged = false
		d.mu.Unlock()
		if !time.Now().Before(next) && ctx.Err() == nil {
			next = m.look(ctx, d)
			d.mu.Lock()
			if !d.nudged {
				d.next = next
			}
			d.mu.Unlock()
		}
		if next.Before(earliest) {
			earliest = next
		}
	}
	return earliest
}

// look renews the certificate of a domain if it is time, and returns when to look again.
func (m *Manager) look(ctx context.Context, d *domain) time.Time {
	if due := m.due(ctx, d); time.Now().Before(due) {
		d.settled()
		return due
	}
	if time.Now().Before(d.allowed) {
		return d.allowed
	}
	if m.fleet != nil {
		return m.fleet.order(ctx, d)
	}
	err := m.renew(ctx, d)
	switch {
	case ctx.Err() != nil: // the edge ends
		return time.Now().Add(leastPause)
	case err != nil:
		return m.note(d, err).next
	}
	if due := m.due(ctx, d); time.Now().Before(due) {
		return due
	}
	return d.allowed
}

// due is when the certificate of a domain is to be renewed, or to be thought of again.
func (m *Manager) due(ctx context.Context, d *domain) time.Time {
	pair := d.current.Load()
	if pair == nil {
		return time.Time{}
	}
	due := dueAt(pair.Leaf)
	if now := time.Now(); now.Before(due) {
		due = m.ari.advance(ctx, pair.Leaf, due, now)
	}
	return due
}

// dueAt is when a certificate is to be renewed without the authority's advice: before a third of
// its life is left, certificates of one age not all at once.
func dueAt(leaf *x509.Certificate) time.Time {
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	early := time.Duration(leaf.SerialNumber.Uint64() % 1000) // the same at each look
	return leaf.NotAfter.Add(-life/3 - life/30*early/1000)
}

// renew obtains a certificate and puts it into use.
func (m *Manager) renew(ctx context.Context, d *domain) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	m.folder.noteTry(d.name)
	pair, text, err := m.obtain(ctx, d.name)
	if err != nil {
		return err
	}
	if m.fleet != nil {
		m.fleet.publish(ctx, d, pair, text)
	} else {
		m.use(d, pair)
	}
	// an authority that gives out what is due at once is not asked all the time
	d.allowed = time.Now().Add(max(leastPause, min(2*24*time.Hour, pair.Leaf.NotAfter.Sub(pair.Leaf.NotBefore)/10)))
	m.ok.Add(1)
	m.opts.Log.Info("certificate obtained", zap.String("domain", d.name), zap.Time("not_after", pair.Leaf.NotAfter))
	keepPair(m, d.name, text)
	return nil
}

// keepPair writes a certificate into the folder.
func keepPair(m *Manager, name string, text []byte) {
	if err := m.folder.write(certificateFile(name), text); err != nil {
		m.opts.Log.Error("the certificate is in use and could not be kept: a restart needs another",
			zap.String("domain", name), zap.Error(err))
	}
}

// use puts a certificate into use.
func (m *Manager) use(d *domain, pair *tls.Certificate) {
	d.current.Store(pair)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures, d.trouble, d.waits = 0, "", false
}

// The clocks of attempts. Let's Encrypt allows five failed validations of a name in an hour.
const (
	mostPause   = 6 * time.Hour
	attemptTime = 5 * time.Minute
)

// retry says when a domain is tried again after a failure.
type retry struct {
	next     time.Time
	asked    time.Duration // that the authority wants to be left alone
	pause    time.Duration
	failures int
}

// note counts a failed attempt and returns when the next one is.
func (m *Manager) note(d *domain, err error) retry {
	m.failed.Add(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures++
	d.trouble = describe(err, m.opts.HTTP)
	now := time.Now()
	asked := max(leastPause, retryAfter(err, now))
	d.allowed = now.Add(asked)
	m.folder.noteWait(d.name, d.allowed)
	pause := max(asked, min(leastPause<<min(d.failures-1, 20), mostPause))
	pause += rand.N(pause / 4)
	log := m.opts.Log.Warn
	if pair := d.current.Load(); pair == nil || now.After(pair.Leaf.NotAfter) {
		log = m.opts.Log.Error // clients are not served
	}
	log("certificate not obtained", zap.String("domain", d.name), zap.String("problem", d.trouble),
		zap.Int("failures", d.failures), zap.Int("next_try_in_s", int(pause.Round(time.Second).Seconds())))
	return retry{next: now.Add(pause), asked: asked, pause: pause, failures: d.failures}
}

// describe says in words why an attempt failed.
func describe(err error, overHTTP bool) string {
	text := plaintext.Line(err.Error()) // an authority's words are shown
	if len(text) > mostTrouble {
		text = text[:mostTrouble] + " ..."
	}
	if !isRefusedChallenge(err) {
		return text
	}
	port := "443"
	if overHTTP {
		port = "80"
	}
	return fmt.Sprintf("%s: see that the domain's DNS leads here, and that port %s of it can be reached "+
		"from the internet", text, port)
}

// mostTrouble is how much of an authority's explanation is shown.
const mostTrouble = 600
