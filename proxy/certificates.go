package proxy

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"strconv"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/access/auth/cert"
	"penstock/proxy/fleet"
	"penstock/proxy/fleet/certstore"
	"penstock/proxy/front/acme"
	"penstock/proxy/front/listen"
	"penstock/proxy/operate/status"
	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/observe"
)

// tlsCertificates contains the certificates and their sources. The fields of a listener without TLS
// are nil.
type tlsCertificates struct {
	adminCertificate  *listen.Certificate
	publicCertificate *listen.Certificate
	acmeManager       *acme.Manager         // nil if the certificate is in files
	challengeServer   *acme.ChallengeServer // nil if tls.acme.http is not set
}

// loadCertificates loads the configured certificates, or the certificates that an earlier process
// has obtained.
func loadCertificates(c *config.File, public, challenges net.Listener, log *zap.Logger, g *guard.Guard) (s tlsCertificates, err error) {
	if pair := c.Admin.TLS; pair.Enabled() {
		s.adminCertificate = new(listen.Certificate)
		if err := s.adminCertificate.Load(pair.Cert, pair.Key, nil); err != nil {
			return s, fmt.Errorf("admin: %w", err)
		}
	}
	if !c.TLS.Enabled() {
		return s, nil
	}
	clients, err := cert.ReadAuthority(c.TLS.ClientCAs)
	if err != nil {
		return s, err
	}
	s.publicCertificate = new(listen.Certificate)
	if c.TLS.ACME.Enabled() {
		if s.acmeManager, err = newACMEManager(&c.TLS.ACME, public, challenges, log); err != nil {
			return s, err
		}
		s.publicCertificate = listen.NewManagedCertificate(s.acmeManager)
	}
	if err := s.publicCertificate.Load(c.TLS.Cert, c.TLS.Key, clients.Roots()); err != nil {
		return s, err
	}
	if challenges != nil {
		log.Info("challenges of the authority are answered", zap.String("listen", challenges.Addr().String()))
		s.challengeServer, err = acme.NewServer(s.acmeManager, challenges, c, g)
	}
	return s, err
}

func newACMEManager(a *config.ACME, public, challenges net.Listener, log *zap.Logger) (*acme.Manager, error) {
	mac, err := a.EAB.MACKey()
	if err != nil {
		return nil, err
	}
	o := acme.Options{
		Domains: a.Domains, Email: a.Email, Directory: a.Directory, Folder: a.Folder, HTTP: a.HTTP != "",
		KID: a.EAB.KID, MACKey: mac, Log: log,
	}
	if challenges == nil {
		challenges = public
	}
	o.Challenge = challenges.Addr()
	if len(a.CAs) > 0 {
		o.Roots = x509.NewCertPool()
		o.Roots.AppendCertsFromPEM(a.CAs)
	}
	return acme.New(o)
}

func startCertificateRenewal(e *Edge) (end func()) {
	m, challenges := e.opts.ACME, e.opts.Challenges
	if m == nil {
		return func() {}
	}
	work, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{}, 1)
	go e.guard.Loop(work.Done(), guard.PlaceACME, func() {
		m.Run(work)
		ended <- struct{}{}
	})
	if challenges != nil {
		go e.guard.Loop(work.Done(), guard.PlaceACME, func() {
			if err := challenges.Serve(); err != nil && work.Err() == nil {
				e.log.Error("the listener of tls.acme.http has failed: certificates cannot be renewed", zap.Error(err))
			}
		})
	}
	return func() {
		cancel()
		if challenges != nil {
			_ = challenges.Close() // the process exits anyway
		}
		select {
		case <-ended:
		case <-time.After(leaveTimeout):
		}
	}
}

// shareCertificates lets the edges of a fleet share the certificates that they obtain.
func shareCertificates(e *Edge) {
	if e.fleet == nil || e.opts.ACME == nil {
		return
	}
	link := fleet.NewLink(e.fleet)
	acme.UseFleet(e.opts.ACME, certstore.NewStorage(certstore.New(certstore.Options{
		Link: link, Edge: link.Edge, Directory: e.opts.Config.TLS.ACME.Directory, Log: e.log, Metrics: e.metrics,
		Secrets: func() (all []string) {
			for _, key := range e.reloads.RunningSnapshot().Config.Seal.Keys {
				all = append(all, key.Value())
			}
			return all
		},
	}), e.guard))
}

// certificateState returns the state of the edge's certificates for operators, or nil if the edge
// does not use TLS.
func certificateState(o *Options) *status.Certificate {
	if o.ACME == nil {
		return status.CertificateOf(o.Certificate.ValidityPeriod())
	}
	out := &status.Certificate{}
	for _, s := range o.ACME.CertificateStates() {
		out.Domains = append(out.Domains, status.Domain{
			Name: s.Domain, NotBefore: s.NotBefore, NotAfter: s.NotAfter,
			Failures: s.Failures, Problem: s.Trouble, Next: s.Next,
		})
		if !s.NotAfter.IsZero() && (out.NotAfter.IsZero() || s.NotAfter.Before(out.NotAfter)) {
			out.NotBefore, out.NotAfter = s.NotBefore, s.NotAfter
		}
	}
	return out
}

func appendCertificateMetrics(b *bytes.Buffer, m *acme.Manager) {
	if m == nil {
		return
	}
	waiting := 0
	for _, s := range m.CertificateStates() {
		if s.Waits {
			waiting++
		}
		if !s.NotAfter.IsZero() { // a zero timestamp would fire expiry alerts
			observe.AppendSample(b, "penstock_certificate_expiry_timestamp_seconds",
				strconv.FormatInt(s.NotAfter.Unix(), 10), "domain", s.Domain)
		}
		observe.AppendSample(b, "penstock_acme_failures", strconv.Itoa(s.Failures), "domain", s.Domain)
	}
	observe.AppendSample(b, "penstock_acme_waiting", strconv.Itoa(waiting))
	ok, failed := m.OrderCounts()
	observe.AppendSample(b, "penstock_acme_orders_total", strconv.FormatUint(ok, 10), "result", "ok")
	observe.AppendSample(b, "penstock_acme_orders_total", strconv.FormatUint(failed, 10), "result", "failed")
}
