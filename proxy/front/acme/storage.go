package acme

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"
)

func openFolder(base, directory string) (*certmagic.FileStorage, error) {
	at := filepath.Join(base, directoryName(directory))
	if err := os.MkdirAll(at, 0o700); err != nil {
		return nil, fmt.Errorf("certificates cannot be kept: %w", err)
	}
	return &certmagic.FileStorage{Path: at}, nil
}

func directoryName(directory string) string {
	name := directory
	if u, err := url.Parse(directory); err == nil {
		name = u.Host + u.Path
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(strings.TrimLeft(name, ".")))
}

// The functions below return keys in certmagic's storage.

func (m *Manager) certificateStorageKeys(name string) (cert, key, meta string) {
	issuer := m.issuer.IssuerKey()
	return certmagic.StorageKeys.SiteCert(issuer, name), certmagic.StorageKeys.SitePrivateKey(issuer, name),
		certmagic.StorageKeys.SiteMeta(issuer, name)
}

func (m *Manager) challengeTokenKey(name string) string {
	return "acme/" + certmagic.StorageKeys.Safe(m.issuer.IssuerKey()) + "/challenge_tokens/" +
		certmagic.StorageKeys.Safe(name) + ".json"
}

// accountStorageKeys returns the keys under which the account's registration and private key are
// stored. certmagic derives these keys from the email address.
func (m *Manager) accountStorageKeys() (registration, key string) {
	user, file, keyFile := "default", "default", "default"
	if email := strings.ToLower(m.opts.Email); email != "" {
		user = email
		file, _, _ = strings.Cut(email, "@")
		keyFile = file
	}
	safe := certmagic.StorageKeys.Safe
	at := "acme/" + safe(m.issuer.IssuerKey()) + "/users/" + safe(user) + "/"
	return at + safe(file) + ".json", at + safe(keyFile) + ".key"
}

func attemptStorageKey(name string) string {
	return "attempts/" + certmagic.StorageKeys.Safe(name) + ".json"
}

// orderAttempt records the last attempt to order a certificate. The record is stored with the
// certificates, so it survives a restart and applies to all edges of a fleet.
type orderAttempt struct {
	Tried time.Time `json:"tried"`
	// When the next attempt is allowed if an operator requests it.
	Allowed  time.Time `json:"allowed"`
	Next     time.Time `json:"next"`
	Failures int       `json:"failures"`
}

// nextAllowedTime returns the time from which the next attempt is allowed after the recorded
// attempt. If the recorded attempt is in the future, the clock was set back, and nextAllowedTime
// ignores the record.
func (a orderAttempt) nextAllowedTime(hurried bool, now time.Time) time.Time {
	switch {
	case a.Tried.After(now):
		return time.Time{}
	case hurried:
		return a.Allowed
	}
	return a.Next
}

func loadAttempt(ctx context.Context, s certmagic.Storage, name string) (a orderAttempt) {
	text, err := s.Load(ctx, attemptStorageKey(name))
	if err == nil {
		_ = json.Unmarshal(text, &a) // a malformed record is ignored
	}
	return a
}

func saveAttempt(ctx context.Context, s certmagic.Storage, name string, a orderAttempt) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return s.Store(context.WithoutCancel(ctx), attemptStorageKey(name), text)
}

// nextAllowedOrder returns the time at which an order for a domain is allowed, and the number of
// consecutive failures so far. The folder contains the attempts of this edge. The fleet's store
// contains only the finished attempts of all edges, so an edge that dies during an attempt does not
// delay the other edges.
func (m *Manager) nextAllowedOrder(ctx context.Context, d *managedDomain) (at time.Time, failures int) {
	hurried, now := d.isOperatorRequested(), time.Now()
	own := loadAttempt(ctx, m.folder, d.name)
	at, failures = own.nextAllowedTime(hurried, now), own.Failures
	if m.fleet != nil {
		all := loadAttempt(ctx, m.fleet, d.name)
		failures = all.Failures
		if of := all.nextAllowedTime(hurried, now); of.After(at) {
			at = of
		}
	}
	return at, failures
}

func (m *Manager) readCertificate(ctx context.Context, s certmagic.Storage, name string) (*tls.Certificate, error) {
	certKey, keyKey, _ := m.certificateStorageKeys(name)
	cert, err := s.Load(ctx, certKey)
	if err == nil {
		var key []byte
		if key, err = s.Load(ctx, keyKey); err == nil {
			return parsePair(name, cert, key)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return nil, err
}

func parsePair(name string, cert, key []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, err
		}
	}
	return &pair, pair.Leaf.VerifyHostname(name)
}

// migrateCertificate converts a domain's certificate to certmagic's format. Versions without
// certmagic stored the certificate and its key in DOMAIN.pem. migrateCertificate does not change
// that file. It does not overwrite existing values.
func migrateCertificate(ctx context.Context, m *Manager, s certmagic.Storage, name string, pemText []byte) error {
	certKey, keyKey, metaKey := m.certificateStorageKeys(name)
	if s.Exists(ctx, certKey) && s.Exists(ctx, keyKey) && s.Exists(ctx, metaKey) {
		return nil
	}
	if _, err := parsePair(name, pemText, pemText); err != nil {
		return err
	}
	var cert, key []byte
	for block, rest := pem.Decode(pemText); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			cert = append(cert, pem.EncodeToMemory(block)...)
		} else {
			key = append(key, pem.EncodeToMemory(block)...)
		}
	}
	meta, err := json.Marshal(certmagic.CertificateResource{SANs: []string{name}, IssuerData: json.RawMessage("{}")})
	if err != nil {
		return err
	}
	return errors.Join(s.Store(ctx, keyKey, key), s.Store(ctx, certKey, cert), s.Store(ctx, metaKey, meta))
}

// migrateAccount makes the next order use the account that belongs to the key. It stores the
// account without a status, so certmagic looks up the account at the authority. The authority does
// not create a second account for the same key.
func migrateAccount(ctx context.Context, m *Manager, s certmagic.Storage, key []byte) error {
	registration, keyKey := m.accountStorageKeys()
	if s.Exists(ctx, registration) && s.Exists(ctx, keyKey) {
		return nil
	}
	account := map[string]any{"status": ""}
	if m.opts.Email != "" {
		account["contact"] = []string{"mailto:" + strings.ToLower(m.opts.Email)}
	}
	text, err := json.Marshal(account)
	if err != nil {
		return err
	}
	return errors.Join(s.Store(ctx, keyKey, key), s.Store(ctx, registration, text))
}

// readLegacyFile reads a file that a version before certmagic wrote. It returns nil if the file
// does not exist.
func readLegacyFile(f *certmagic.FileStorage, name string) []byte {
	text, err := os.ReadFile(filepath.Join(f.Path, name))
	if err != nil {
		return nil
	}
	return text
}

// selfSignedCertificate returns a certificate that no client trusts. Until another certificate is
// available, the edge presents it to clients that send no name and do not verify certificates, such
// as health checks and the service manager's watchdog.
func selfSignedCertificate() *tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "penstock awaits its certificate"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
