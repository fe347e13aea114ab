package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3/acme"
	"go.uber.org/zap"

	"penstock/proxy/front/plaintext"
)

// Options configure a Manager.
type Options struct {
	Domains   []string
	Email     string // contact email address for the account; may be empty
	Directory string
	// Roots contains the CAs trusted for connections to the directory. If nil, the system's CAs are
	// trusted.
	Roots     *x509.CertPool
	Folder    string
	KID       string // key id of the external account binding; empty if there is no binding
	MACKey    []byte
	HTTP      bool     // whether to use HTTP-01 instead of TLS-ALPN-01
	Challenge net.Addr // address of our listener that answers challenges
	Log       *zap.Logger
}

// FleetStore provides the storage and the locks that edges use to obtain certificates together. Its
// methods may be called by multiple goroutines.
type FleetStore interface {
	certmagic.Storage
	// Available reports whether the store can be reached.
	Available() bool
	// LegacyData returns the data stored by versions without certmagic: the account key, and the
	// certificates keyed by domain, in PEM.
	LegacyData(ctx context.Context) (account []byte, certificates map[string][]byte, err error)
}

// Manager obtains and renews the certificates of the edge's domains. Its methods may be called by
// multiple goroutines, but Run must be called only once.
type Manager struct {
	opts   Options
	folder *certmagic.FileStorage
	fleet  FleetStore // nil if this edge obtains its certificates alone
	cache  *certmagic.Cache
	config *certmagic.Config
	issuer *issuer
	wake   chan struct{} // receives a value when a domain is due

	domains                atomic.Pointer[domains]
	placeholder            func() *tls.Certificate
	ordersOK, ordersFailed atomic.Uint64 // numbers of successful and failed orders
}

// issuer is certmagic's issuer with two changes. It never asks for an email address on the
// terminal, and never uses the email address of another issuer.
type issuer struct{ *certmagic.ACMEIssuer }

func (i *issuer) PreCheck(ctx context.Context, names []string, _ bool) error {
	if i.Email == "" {
		return nil
	}
	return i.ACMEIssuer.PreCheck(ctx, names, false)
}

// GetRenewalInfo implements certmagic.RenewalInfoGetter. If the authority returns no renewal
// information, it is not asked again until renewalInfoRetry has passed.
func (i *issuer) GetRenewalInfo(ctx context.Context, c certmagic.Certificate) (acme.RenewalInfo, error) {
	info, err := i.ACMEIssuer.GetRenewalInfo(ctx, c)
	if err != nil && ctx.Err() == nil {
		again := time.Now().Add(renewalInfoRetry)
		return acme.RenewalInfo{RetryAfter: &again}, nil
	}
	return info, err
}

// CertificateState is the state of a domain's certificate as shown to operators.
type CertificateState struct {
	Domain              string
	NotBefore, NotAfter time.Time
	Failures            int
	Trouble             string // why the last attempt failed, or what the order is waiting for
	Waits               bool   // whether the domain's order is waiting for the fleet's store
	Next                time.Time
}

// These are the intervals and pauses. Let's Encrypt allows five failed validations of a name per
// hour.
const (
	minAttemptInterval = 2 * time.Minute // minimum time between two attempts, even across restarts
	maxRetryPause      = 6 * time.Hour
	// In a fleet, minimum time between two attempts that operators request.
	minOperatorAttemptInterval = 15 * time.Minute
	attemptTimeout             = 5 * time.Minute
	checkInterval              = 10 * time.Minute // time between two checks of a valid certificate
	// Time between two checks for certificates obtained by other edges.
	fleetCheckInterval = 10 * time.Second
	storeRetryPause    = 2 * time.Second // pause before the store is queried again
	renewalInfoRetry   = 6 * time.Hour
	neverDelay         = 10 * 365 * 24 * time.Hour
)

// New returns a Manager that uses the certificates in its folder. It creates the folder if
// necessary.
func New(o Options) (*Manager, error) {
	folder, err := openFolder(o.Folder, o.Directory)
	if err != nil {
		return nil, err
	}
	m := &Manager{opts: o, folder: folder, wake: make(chan struct{}, 1), placeholder: sync.OnceValue(selfSignedCertificate)}
	m.configureCertmagic(folder)
	ctx := context.Background()
	if key := readLegacyFile(folder, "account.key"); key != nil {
		if err := migrateAccount(ctx, m, folder, key); err != nil {
			return nil, fmt.Errorf("the account's key of an earlier version: %w", err)
		}
	}
	m.domains.Store(new(domains))
	m.SetDomains(o.Domains)
	for _, d := range m.domains.Load().list { // a start counts as a request by an operator
		d.setOperatorRequested(true)
	}
	return m, nil
}

// configureCertmagic creates certmagic's configuration. The configuration uses none of certmagic's
// global defaults.
func (m *Manager) configureCertmagic(s certmagic.Storage) {
	log := m.opts.Log.Named("certmagic").WithOptions(zap.IncreaseLevel(zap.WarnLevel))
	if m.cache != nil {
		m.cache.Stop()
	}
	// Run replaces certmagic's maintenance, so that orders end when the edge stops. certmagic's
	// maintenance still runs, but it finds no configuration, and the cache is almost always empty.
	// certmagic also uses RenewCheckInterval to decide when a certificate is due.
	m.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return nil, errMaintainedByManager },
		RenewCheckInterval: checkInterval, OCSPCheckInterval: neverDelay, Logger: log,
	})
	m.config = certmagic.New(m.cache, certmagic.Config{
		Storage: s, Logger: log, OnEvent: m.onEvent, Issuers: []certmagic.Issuer{}, RenewalWindowRatio: 1.0 / 3,
		OCSP: certmagic.OCSPConfig{DisableStapling: true}, DisableStorageCheck: true,
		KeySource: certmagic.StandardKeyGenerator{KeyType: certmagic.P256},
	})
	template := certmagic.ACMEIssuer{
		CA: m.opts.Directory, TestCA: m.opts.Directory, Email: m.opts.Email, Agreed: true, TrustedRoots: m.opts.Roots,
		DisableHTTPChallenge: !m.opts.HTTP, DisableTLSALPNChallenge: m.opts.HTTP, Logger: log,
	}
	if m.opts.KID != "" {
		template.ExternalAccount = &acme.EAB{
			KeyID: m.opts.KID, MACKey: base64.RawURLEncoding.EncodeToString(m.opts.MACKey),
		}
	}
	// certmagic finds that our listener uses this address, and therefore opens no listener.
	if at, ok := m.opts.Challenge.(*net.TCPAddr); ok {
		template.ListenHost = at.IP.String()
		template.AltHTTPPort, template.AltTLSALPNPort = at.Port, at.Port
	}
	m.issuer = &issuer{certmagic.NewACMEIssuer(m.config, template)}
	m.config.Issuers = []certmagic.Issuer{m.issuer}
}

var errMaintainedByManager = errors.New("the manager looks at this certificate itself")

// UseFleet makes m obtain certificates together with the other edges of a fleet. It must be called
// before Run.
func UseFleet(m *Manager, f FleetStore) {
	m.fleet = f
	m.configureCertmagic(f)
	for _, d := range m.domains.Load().list {
		d.setOperatorRequested(false)
	}
}

func (m *Manager) storage() certmagic.Storage { return m.config.Storage }

// SetDomains replaces the domains. A domain that remains in the list keeps its certificate. For a
// new domain, SetDomains reads the certificate from the folder. SetDomains is called for each
// reload requested by an operator, and makes failed domains due again.
func (m *Manager) SetDomains(names []string) {
	old, next := m.domains.Load(), &domains{byName: map[string]*managedDomain{}}
	for _, name := range names {
		d := old.byName[name]
		if d == nil {
			d = m.loadDomain(name)
		}
		d.markDueNow()
		d.setOperatorRequested(true)
		next.list, next.byName[name] = append(next.list, d), d
	}
	m.domains.Store(next)
	wakeRunLoop(m)
}

func wakeRunLoop(m *Manager) {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *Manager) loadDomain(name string) *managedDomain {
	d, ctx := &managedDomain{name: name}, context.Background()
	pair, err := m.readCertificate(ctx, m.folder, name)
	if text := readLegacyFile(m.folder, name+".pem"); pair == nil && text != nil {
		if err = migrateCertificate(ctx, m, m.folder, name, text); err == nil {
			pair, err = m.readCertificate(ctx, m.folder, name)
		}
	}
	switch {
	case err != nil:
		m.opts.Log.Warn("a certificate in tls.acme.folder cannot be used: a new one is ordered",
			zap.String("domain", name), zap.Error(err))
		cert, _, _ := m.certificateStorageKeys(name)
		// certmagic would fail because of a file at this path.
		if err := os.RemoveAll(m.folder.Filename(cert)); err != nil {
			m.opts.Log.Warn("it cannot be removed", zap.String("domain", name), zap.Error(err))
		}
	case pair == nil:
		m.opts.Log.Info("there is no certificate yet: clients of this domain are served as soon as it is obtained",
			zap.String("domain", name))
	default:
		d.current.Store(pair)
	}
	return d
}

var errNoCertificate = errors.New("there is no certificate for this domain yet")

// Certificate returns the certificate for a handshake. If the handshake has no name, or its name is
// not one of the domains, Certificate returns the first available certificate. The name never
// causes an order. If the domain has no certificate yet, Certificate returns an error rather than
// the certificate of another domain.
func (m *Manager) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	set := m.domains.Load()
	if d := set.byName[normalizeDomain(hello.ServerName)]; d != nil {
		if pair := d.current.Load(); pair != nil {
			return pair, nil
		}
		return nil, errNoCertificate
	}
	for _, d := range set.list {
		if pair := d.current.Load(); pair != nil {
			return pair, nil
		}
	}
	if hello.ServerName == "" {
		return m.placeholder(), nil
	}
	return nil, errNoCertificate
}

var errNoChallenge = errors.New("no challenge is open for this domain")

func (m *Manager) hasOpenChallenge(ctx context.Context, name string) bool {
	return m.domains.Load().byName[name] != nil && m.storage().Exists(ctx, m.challengeTokenKey(name))
}

// ChallengeCertificate returns the certificate for a TLS-ALPN-01 challenge, even if another edge
// placed the order.
func (m *Manager) ChallengeCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if m.opts.HTTP || !m.hasOpenChallenge(hello.Context(), normalizeDomain(hello.ServerName)) {
		return nil, errNoChallenge
	}
	return m.config.GetCertificate(hello)
}

func normalizeDomain(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// CertificateStates returns the state of each domain.
func (m *Manager) CertificateStates() []CertificateState {
	set := m.domains.Load()
	all := make([]CertificateState, 0, len(set.list))
	for _, d := range set.list {
		d.mu.Lock()
		s := CertificateState{Domain: d.name, Failures: d.failures, Trouble: d.lastProblem, Waits: d.waitsForStore, Next: d.nextCheck}
		d.mu.Unlock()
		if s.Waits {
			s.Trouble = errStoreUnavailable.Error()
		}
		if pair := d.current.Load(); pair != nil {
			s.NotBefore, s.NotAfter = pair.Leaf.NotBefore, pair.Leaf.NotAfter
		}
		all = append(all, s)
	}
	return all
}

// OrderCounts returns the number of successful orders and the number of failed orders.
func (m *Manager) OrderCounts() (ok, failed uint64) { return m.ordersOK.Load(), m.ordersFailed.Load() }

// Run obtains and renews certificates until ctx is done.
func (m *Manager) Run(ctx context.Context) {
	defer m.cache.Stop()
	for ctx.Err() == nil {
		timer := time.NewTimer(time.Until(m.checkDueDomains(ctx)))
		select {
		case <-timer.C:
		case <-m.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// checkDueDomains checks the domains that are due, and returns the time of the next check.
func (m *Manager) checkDueDomains(ctx context.Context) time.Time {
	earliest := time.Now().Add(checkInterval)
	for _, d := range m.domains.Load().list {
		d.mu.Lock()
		next := d.nextCheck
		d.nextReset = false
		d.mu.Unlock()
		if !time.Now().Before(next) && ctx.Err() == nil {
			next = m.renewIfDue(ctx, d)
			d.mu.Lock()
			if !d.nextReset {
				d.nextCheck = next
			}
			d.mu.Unlock()
		}
		if next.Before(earliest) {
			earliest = next
		}
	}
	return earliest
}

// errStoreUnavailable is the problem reported for a domain that is waiting for the fleet's store.
var errStoreUnavailable = errors.New("the fleet's store does not answer, so no certificate is ordered: another edge may be ordering it")

// attemptEvents collects certmagic's events during one call to renewIfDue.
type attemptEvents struct {
	domain          *managedDomain
	failureRecorded bool
	next            time.Time // time of the next attempt after a failure
	obtained        bool
	allowedAt       time.Time // when the next attempt is allowed; zero if this attempt was allowed
}

type attemptContextKey struct{}

type lossContextKey struct{}

// WithLockLossCancel returns a context for an attempt. ReportLockLoss with this context calls lose,
// which cancels the attempt.
func WithLockLossCancel(ctx context.Context, lose context.CancelCauseFunc) context.Context {
	return context.WithValue(ctx, lossContextKey{}, lose)
}

// ReportLockLoss cancels the attempt whose context is ctx, because the attempt's lock was lost.
func ReportLockLoss(ctx context.Context, err error) {
	if lose, ok := ctx.Value(lossContextKey{}).(context.CancelCauseFunc); ok {
		lose(err)
	}
}

// renewIfDue makes certmagic obtain or renew the certificate of a domain if the certificate is due.
// It returns the time at which the next check is due.
func (m *Manager) renewIfDue(ctx context.Context, d *managedDomain) time.Time {
	if m.fleet != nil {
		if !m.fleet.Available() {
			d.setWaitsForStore()
			return time.Now().Add(storeRetryPause)
		}
		if err := m.migrateToFleet(ctx, d.name); err != nil {
			d.setWaitsForStore()
			return time.Now().Add(storeRetryPause)
		}
	}
	at, failures := m.nextAllowedOrder(ctx, d)
	d.adoptFailures(failures)
	if time.Now().Before(at) && d.current.Load() == nil {
		if pair, _ := m.readCertificate(ctx, m.storage(), d.name); pair == nil {
			return m.nextCheckTime(at)
		}
	}
	state := &attemptEvents{domain: d}
	work, lose := context.WithCancelCause(context.WithValue(ctx, attemptContextKey{}, state))
	work = WithLockLossCancel(work, lose)
	work, cancel := context.WithTimeout(work, attemptTimeout)
	err := m.config.ManageSync(work, []string{d.name})
	lost := context.Cause(work)
	cancel()
	lose(nil)
	m.cache.RemoveManaged([]certmagic.SubjectIssuer{{Subject: d.name}})
	m.adoptCertificate(ctx, d)
	now := time.Now()
	switch {
	case ctx.Err() != nil:
		return now.Add(minAttemptInterval)
	case !state.allowedAt.IsZero():
		return m.nextCheckTime(state.allowedAt)
	case err == nil:
		d.recordSuccess()
		if state.obtained {
			m.recordObtained(ctx, d)
		}
		return m.nextCheckTime(now.Add(checkInterval))
	case state.failureRecorded:
		d.setOperatorRequested(false)
		return m.nextCheckTime(state.next)
	case lost != nil || !m.fleetAvailable(): // another edge holds the lock, or the store is unreachable
		m.opts.Log.Warn("certificate not obtained: another edge continues", zap.String("domain", d.name),
			zap.String("problem", describeError(err, m.opts.HTTP)))
		if !m.fleetAvailable() {
			d.setWaitsForStore()
		}
		return now.Add(storeRetryPause)
	}
	return m.recordFailure(ctx, d, err)
}

func (m *Manager) fleetAvailable() bool { return m.fleet == nil || m.fleet.Available() }

// nextCheckTime returns the time at which the next check is due. In a fleet, the check may come
// before due, so that certificates obtained by other edges are found soon.
func (m *Manager) nextCheckTime(due time.Time) time.Time {
	if soon := time.Now().Add(fleetCheckInterval); m.fleet != nil && soon.Before(due) {
		return soon
	}
	return due
}

// migrateToFleet copies two kinds of data to the store if the store lacks them: the data stored by
// versions without certmagic, and the data in the folder.
func (m *Manager) migrateToFleet(ctx context.Context, name string) error {
	registration, _ := m.accountStorageKeys()
	cert, _, _ := m.certificateStorageKeys(name)
	if m.fleet.Exists(ctx, registration) && m.fleet.Exists(ctx, cert) {
		return nil
	}
	account, certificates, err := m.fleet.LegacyData(ctx)
	if err != nil {
		return err
	}
	if account != nil {
		if err := migrateAccount(ctx, m, m.fleet, account); err != nil {
			return err
		}
	}
	if text := certificates[name]; text != nil {
		if err := migrateCertificate(ctx, m, m.fleet, name, text); err != nil {
			m.opts.Log.Warn("a certificate of an earlier version in the fleet's store cannot be used", zap.String("domain", name), zap.Error(err))
		}
	}
	registration, key := m.accountStorageKeys()
	certKey, keyKey, meta := m.certificateStorageKeys(name)
	return errors.Join(m.restoreToStore(ctx, key, registration), m.restoreToStore(ctx, keyKey, meta, certKey))
}

// restoreToStore copies values from the folder to the store if they are missing from the store and
// the folder contains all of them.
func (m *Manager) restoreToStore(ctx context.Context, keys ...string) error {
	if m.fleet.Exists(ctx, keys[len(keys)-1]) {
		return nil
	}
	var values [][]byte
	for _, key := range keys {
		value, err := m.folder.Load(ctx, key)
		if err != nil {
			return nil //nolint:nilerr // there is nothing to put back
		}
		values = append(values, value)
	}
	for i, key := range keys {
		if err := m.fleet.Store(ctx, key, values[i]); err != nil {
			return err
		}
	}
	return nil
}

// adoptCertificate adopts the stored certificate. In a fleet, it also copies the certificate to the
// folder, because the edge uses the folder while the store is unreachable.
func (m *Manager) adoptCertificate(ctx context.Context, d *managedDomain) {
	pair, err := m.readCertificate(ctx, m.storage(), d.name)
	if err != nil || pair == nil {
		return
	}
	own := d.current.Load()
	if own != nil && (own.Leaf.Equal(pair.Leaf) || pair.Leaf.NotBefore.Before(own.Leaf.NotBefore)) {
		return
	}
	if m.fleet != nil {
		m.saveCertificateToFolder(context.WithoutCancel(ctx), d.name)
	}
	d.current.Store(pair)
	d.mu.Lock()
	d.failures, d.lastProblem, d.waitsForStore = 0, "", false
	d.mu.Unlock()
	m.opts.Log.Info("certificate in use", zap.String("domain", d.name), zap.Time("not_after", pair.Leaf.NotAfter))
}

// saveCertificateToFolder copies a domain's certificate and the account from the fleet's store to
// the folder.
func (m *Manager) saveCertificateToFolder(ctx context.Context, name string) {
	registration, key := m.accountStorageKeys()
	certKey, keyKey, meta := m.certificateStorageKeys(name)
	for _, k := range []string{registration, key, keyKey, meta, certKey} {
		value, err := m.fleet.Load(ctx, k)
		if err == nil {
			err = m.folder.Store(ctx, k, value)
		}
		if err != nil {
			m.opts.Log.Warn("the fleet's certificate cannot be saved in tls.acme.folder: a start without the store "+
				"has no certificate", zap.String("domain", name), zap.Error(err))
			return
		}
	}
}

// onEvent handles certmagic's events before and after an order. certmagic holds the domain's lock
// while onEvent runs.
func (m *Manager) onEvent(ctx context.Context, event string, data map[string]any) error {
	state, ok := ctx.Value(attemptContextKey{}).(*attemptEvents)
	if !ok {
		return nil
	}
	d := state.domain
	switch event {
	case "cert_obtaining":
		at, failures := m.nextAllowedOrder(ctx, d)
		now := time.Now()
		if now.Before(at) {
			state.allowedAt = at
			return errTooSoon
		}
		next := now.Add(minAttemptInterval)
		// The attempt is recorded before the order. A process that is killed repeatedly during
		// orders therefore orders at most once in minAttemptInterval.
		return saveAttempt(ctx, m.folder, d.name, orderAttempt{now, next, next, failures})
	case "cert_failed":
		if ctx.Err() == nil {
			err, _ := data["error"].(error)
			state.failureRecorded, state.next = true, m.recordFailure(ctx, d, err)
		}
	case "cert_obtained":
		state.obtained = true
	}
	return nil
}

var errTooSoon = errors.New("the last attempt was too recent")

// recordObtained counts a successful order. It also records a pause. Otherwise, an authority that
// issues certificates that are immediately due for renewal would receive an endless stream of
// orders.
func (m *Manager) recordObtained(ctx context.Context, d *managedDomain) {
	m.ordersOK.Add(1)
	pair := d.current.Load()
	if pair == nil {
		return
	}
	now := time.Now()
	next := now.Add(max(minAttemptInterval, min(2*24*time.Hour, pair.Leaf.NotAfter.Sub(pair.Leaf.NotBefore)/10)))
	_ = saveAttempt(ctx, m.storage(), d.name, orderAttempt{now, next, next, 0})
	m.opts.Log.Info("certificate obtained", zap.String("domain", d.name), zap.Time("not_after", pair.Leaf.NotAfter))
}

// recordFailure counts a failed attempt. It records the time of the next attempt, and returns that
// time.
func (m *Manager) recordFailure(ctx context.Context, d *managedDomain, err error) (next time.Time) {
	m.ordersFailed.Add(1)
	failures := d.recordFailure(describeError(err, m.opts.HTTP))
	now := time.Now()
	pause := min(minAttemptInterval<<min(failures-1, 20), maxRetryPause)
	pause += rand.N(pause / 4)
	allowed := minAttemptInterval
	if m.fleet != nil { // operators reload the edges one by one
		allowed = min(pause, minOperatorAttemptInterval)
	}
	next = now.Add(pause)
	if err := saveAttempt(ctx, m.storage(), d.name, orderAttempt{now, now.Add(allowed), next, failures}); err != nil {
		m.opts.Log.Warn("a failed attempt could not be recorded", zap.String("domain", d.name), zap.Error(err))
	}
	log := m.opts.Log.Warn
	if pair := d.current.Load(); pair == nil || now.After(pair.Leaf.NotAfter) {
		log = m.opts.Log.Error // clients cannot connect to this domain
	}
	log("certificate not obtained", zap.String("domain", d.name), zap.String("problem", describeError(err, m.opts.HTTP)),
		zap.Int("failures", failures), zap.Int("next_try_in_s", int(pause.Round(time.Second).Seconds())))
	return next
}

func describeError(err error, overHTTP bool) string {
	text := plaintext.CleanLine(err.Error()) // the error may quote the authority
	if len(text) > maxProblemLen {
		text = text[:maxProblemLen] + " ..."
	}
	problem, refused := errors.AsType[acme.Problem](err)
	_, challenge := problem.Resource.(acme.Challenge)
	if !refused || !challenge {
		return text
	}
	port := "443"
	if overHTTP {
		port = "80"
	}
	return fmt.Sprintf("%s: check that the domain's DNS points here, and that its port %s can be reached "+
		"from the internet", text, port)
}

const maxProblemLen = 600
