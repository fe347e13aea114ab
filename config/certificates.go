package config

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"penstock/config/strictyaml"
)

// CheckCertificates loads all certificate pairs and CA files of f, and reports those that do not
// load. It also warns about
//
//   - certificates that are expired or not yet valid
//   - private keys that all users of the machine can read
//   - a Kubernetes account without a token, to which the cluster may still add one
//
// Call it before a start or a reload, because Validate does not open files. f must have been read
// from a file.
func (f *File) CheckCertificates() Problems {
	c := f.newChecks().check
	if !f.TLS.Enabled() && f.positions().HasValue("tls.cert") {
		c.warn("tls", "cert and key are empty, so the API is plain HTTP: set both, or remove tls")
	}
	c.checkCertificatePair("tls", f.TLS.Cert, f.TLS.Key)
	c.checkCertificatePair("admin.tls", f.Admin.TLS.Cert, f.Admin.TLS.Key)
	c.checkACMEFolder(&f.TLS.ACME)
	for i := range f.Upstreams {
		c.checkClientTLSFiles(entryPath("upstreams", i)+".tls", &f.Upstreams[i].TLS, "engine")
		c.warnUnusableServiceAccount(entryPath("upstreams", i)+".kubernetes", &f.Upstreams[i].Kubernetes)
	}
	c.checkClientTLSFiles("fleet.store.tls", &f.Fleet.Store.TLS, "store")
	return c.Problems()
}

// CheckLedgerPath calls check with the path of the ledger and reports the error that check returns.
// Call CheckLedgerPath before a start.
func CheckLedgerPath(f *File, check func(path string) error) Problems {
	c := f.newChecks().check
	if f.Ledger.Path != "" {
		if err := check(f.Ledger.Path); err != nil {
			c.fail("ledger", "%s", err)
		}
	}
	return c.Problems()
}

// CheckMadeKeys calls check with the path of the file that contains keys made at run time, and
// reports the error that check returns.
func CheckMadeKeys(f *File, check func(path string) error) Problems {
	c := f.newChecks().check
	if f.Admin.Keys.File != "" {
		if err := check(f.Admin.Keys.File); err != nil {
			c.fail("admin.keys.file", "%s", err)
		}
	}
	return c.Problems()
}

// checkClientTLSFiles checks the TLS files for connections to a server.
func (c *checker) checkClientTLSFiles(path string, t *UpstreamTLS, server string) {
	c.checkCertificatePair(path, t.Cert, t.Key)
	if t.CA == "" {
		return
	}
	pem, err := os.ReadFile(t.CA)
	switch {
	case err != nil:
		c.fail(path+".ca", "%s", strictyaml.FileError(t.CA, err))
	case !x509.NewCertPool().AppendCertsFromPEM(pem):
		c.fail(path+".ca", "%s holds no certificate in PEM form: give the one that signed the %s's", t.CA, server)
	}
}

// warnUnusableServiceAccount warns about a Kubernetes service account that cannot be used here.
// Outside a cluster, the default account is ignored, because it is mounted only in pods.
func (c *checker) warnUnusableServiceAccount(path string, k *Kubernetes) {
	if !k.IsSet() || strings.HasPrefix(k.Server, "http://") {
		return
	}
	if k.Account == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		if k.Server == "" {
			c.warn(path, "the edge does not run in a pod here and cannot find pods: set server and account")
		}
		return
	}
	folder := cmp.Or(k.Account, MountedAccountFolder)
	token := filepath.Join(folder, "token")
	if text, err := os.ReadFile(token); err != nil {
		c.warn(path, "%s, so pods cannot be found: mount a service account into the edge's pod",
			strictyaml.FileError(token, err))
	} else if len(bytes.TrimSpace(text)) == 0 {
		c.warn(path, "%s is empty, so pods cannot be found", token)
	}
	ca := filepath.Join(folder, "ca.crt")
	pem, err := os.ReadFile(ca)
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
		c.warn(path, "%s holds no certificate in PEM form, so the API server is not trusted", ca)
		// if the file is missing, the system's root certificates are used
	} else if err != nil && !os.IsNotExist(err) {
		c.warn(path, "%s, so the API server is not trusted", strictyaml.FileError(ca, err))
	}
}

// checkCertificatePair reports a certificate and a key that do not match, or that should not be
// used.
func (c *checker) checkCertificatePair(path, cert, key string) {
	if cert == "" || key == "" || c.positions.IsOrContainsBroken(path) {
		return
	}
	loaded, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		c.fail(path, "the pair %s and %s cannot be used: %s: give the key of this certificate, both in PEM form", cert, key,
			err)
		return
	}
	leaf, err := x509.ParseCertificate(loaded.Certificate[0])
	if err != nil {
		c.fail(path+".cert", "%s cannot be used: %s", cert, err)
		return
	}
	switch now := time.Now(); {
	case now.After(leaf.NotAfter):
		c.warn(path+".cert", "%s expired on %s: replace it", cert, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		c.warn(path+".cert", "%s is not valid before %s: replace it, or correct the clock", cert,
			leaf.NotBefore.UTC().Format(time.RFC3339))
	case leaf.NotAfter.Sub(now) < ExpiryNotice(leaf.NotBefore, leaf.NotAfter):
		c.warn(path+".cert", "%s ends on %s, %s: replace it in time; no restart is needed", cert,
			leaf.NotAfter.UTC().Format(time.RFC3339), daysText(leaf.NotAfter.Sub(now)))
	}
	if info, err := os.Stat(key); err == nil && strictyaml.ReadableByOthers(info) {
		c.warn(path+".key", "%s has mode %04o: chmod 640 keeps other users out", key, info.Mode().Perm())
	}
}

// expiryWarningTime is the remaining lifetime at which the edge warns the operator that a
// certificate or a key expires. The alert PenstockCertificateExpires uses the same time.
const expiryWarningTime = 7 * 24 * time.Hour

// autoRenewedLifetime is so short that certificates with at most this lifetime are certainly
// renewed by a program. Workload identities are valid for an hour to three days.
const autoRenewedLifetime = 3 * 24 * time.Hour

// ExpiryNotice returns how long in advance the edge reports that a key, or a certificate in a file,
// expires. This is usually a week. If the lifetime is three days or less, the edge reports the
// expiry once the renewal is overdue.
func ExpiryNotice(from, until time.Time) time.Duration {
	if until.Sub(from) <= autoRenewedLifetime {
		overdue, _ := RenewalThresholds(from, until)
		return overdue
	}
	return expiryWarningTime
}

// RenewalThresholds returns the remaining lifetimes at which the renewal of a certificate in a file
// is overdue, and at which it is urgent. Programs renew when a third of the lifetime is left
// (certmagic, step) or earlier (SPIFFE, certbot for short lifetimes). If less than a quarter of the
// lifetime is left, the renewal has therefore been forgotten. For long lifetimes, overdue is
// limited to a week and urgent to a day. The alert PenstockCertificateExpires uses overdue.
func RenewalThresholds(from, until time.Time) (overdue, urgent time.Duration) {
	life := until.Sub(from)
	return min(expiryWarningTime, life/4), min(expiryWarningTime/7, life/10)
}

func daysText(left time.Duration) string {
	if days := int(left / (24 * time.Hour)); days != 1 {
		return fmt.Sprintf("in %d days", days)
	}
	return "in 1 day"
}

// LetsEncrypt is the default ACME directory.
const LetsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

// maxDomains is the maximum number of ACME domains, because each domain is a separate order.
const maxDomains = 100

func (c processChecks) checkACME() {
	a, t := &c.file.TLS.ACME, &c.file.TLS
	const path = "tls.acme"
	if !a.Enabled() {
		if c.positions.HasValue(path) {
			c.check.fail(path, "domains is empty: list the names by which clients reach this edge, "+
				"as domains: [api.example.com]")
		}
		return
	}
	if t.Cert != "" || t.Key != "" {
		c.check.fail(path, "cert and key are set, too: remove either them or acme")
	}
	c.checkDomains(path+".domains", a.Domains)
	if !a.AcceptTerms {
		c.check.fail(path, "the authority requires that you agree to its terms of service: read them, then write accept_terms: true")
	}
	if a.Folder == "" {
		c.check.fail(path, "without a folder each start would order new certificates, and the authority would soon refuse: "+
			"write folder: certificates")
	}
	if a.Email != "" && (strings.Count(a.Email, "@") != 1 || strings.ContainsAny(a.Email, " ,<>?")) {
		c.check.fail(path+".email", "this is not an address: write name@example.com")
	}
	if u, err := parseHTTPURL(a.Directory); err != nil {
		c.check.fail(path+".directory", "%s", err)
	} else if u.Scheme != "https" {
		c.check.fail(path+".directory", "the directory must be an https URL: write https://HOST/PATH, "+
			"with ca for a private one")
	}
	if a.CA != "" && len(a.CAs) > 0 && !x509.NewCertPool().AppendCertsFromPEM(a.CAs) {
		c.check.fail(path+".ca", "%s holds no certificate in PEM form: give the one that signed the directory's", a.CA)
	}
	if key, err := a.EAB.MACKey(); err != nil {
		c.check.fail(path+".eab.key", "it is not base64url: write it as the authority gives it")
	} else if (a.EAB.KID == "") != (len(key) == 0) {
		c.check.fail(path+".eab", "kid and key go together: give both or none")
	}
	c.checkChallenges(path, a)
	c.checkSharedCertificates(path)
}

func (c processChecks) checkDomains(path string, domains []string) {
	if len(domains) > maxDomains {
		c.check.fail(path, "%d domains are more than %d: divide them among several edges", len(domains), maxDomains)
		return
	}
	seen := map[string]bool{}
	for i, name := range domains {
		at := entryPath(path, i)
		_, notIP := netip.ParseAddr(strings.Trim(name, "[]"))
		switch {
		case strings.HasPrefix(name, "*"):
			c.check.fail(at, "a wildcard needs a DNS challenge, which the edge does not support: list the names, "+
				"or use cert and key")
		case notIP == nil:
			c.check.fail(at, "%s is an IP address, and the edge orders certificates for names only, whatever the "+
				"authority offers: write a name that resolves to it, or use cert and key", c.positions.QuoteValue(at, name))
		case name == "localhost" || strings.HasSuffix(name, ".localhost"):
			c.check.fail(at, "%s resolves to the authority's own machine: write the name by which "+
				"clients reach this edge", c.positions.QuoteValue(at, name))
		case !isHostName(name) || strings.ContainsAny(name, "_") || strings.HasSuffix(name, "."):
			c.check.fail(at, "%s is not a domain: write it without scheme, port and path", c.positions.QuoteValue(at, name))
		case seen[name]:
			c.check.fail(at, "%s is listed twice", c.positions.QuoteValue(at, name))
		case isPrivateName(name) && c.file.TLS.ACME.CA == "":
			c.check.warn(at, "%s is not a public name, so a public authority refuses it: "+
				"use a private authority (directory, ca), or cert and key", c.positions.QuoteValue(at, name))
		}
		seen[name] = true
	}
}

// privateSuffixes are suffixes of names for which no public authority issues certificates.
var privateSuffixes = []string{".internal", ".local", ".lan", ".home.arpa"}

// isPrivateName reports whether a domain is meaningful only in a private network.
func isPrivateName(name string) bool {
	return !strings.Contains(name, ".") ||
		slices.ContainsFunc(privateSuffixes, func(end string) bool { return strings.HasSuffix(name, end) })
}

// anyPort lets the system choose a port. Tests use it.
const anyPort = "0"

func (c processChecks) checkChallenges(path string, a *ACME) {
	const behind = "the authority connects to port %s of each domain, not to %s: forward that port to this address"
	if a.HTTP == "" {
		if _, port, err := net.SplitHostPort(c.file.Listen); err == nil && port != "443" && port != anyPort {
			c.check.warn("listen", behind, "443", c.positions.QuoteValue("listen", c.file.Listen))
		}
		return
	}
	at := path + ".http"
	if err := checkListen(a.HTTP); err != nil {
		c.check.fail(at, "%s", err)
		return
	}
	for _, other := range []struct{ setting, address string }{
		{"listen", c.file.Listen}, {"admin.listen", c.file.Admin.Listen},
	} {
		if listensConflict(a.HTTP, other.address) {
			c.check.fail(at, "another listener already has %s: give this one another port", other.setting)
		}
	}
	if _, port, _ := net.SplitHostPort(a.HTTP); port != "80" && port != anyPort {
		c.check.warn(at, behind, "80", c.positions.QuoteValue(at, a.HTTP))
	}
}

// checkSharedCertificates checks how the edges of a fleet share certificates.
func (c processChecks) checkSharedCertificates(path string) {
	f := c.file
	switch {
	case f.Fleet.HasStore() && len(f.Seal.Keys) == 0:
		c.check.fail(path, "the edges of a fleet keep the keys of certificates in fleet.store, sealed: "+
			"give all edges the same seal: { keys: [...] }, made with head -c 32 /dev/urandom | base64")
	case f.Fleet.Edges > 1 && !f.Fleet.HasStore():
		c.check.warn(path, "each edge orders its own certificates, and a balancer may send the challenge to "+
			"another edge, which cannot answer it: set fleet.store and seal.keys, so that one edge obtains them for all, "+
			"give all edges one pair by cert and key, or end TLS at the balancer")
	}
}

func (c *checker) checkACMEFolder(a *ACME) {
	if !a.Enabled() || a.Folder == "" {
		return
	}
	const path = "tls.acme.folder"
	there := a.Folder // the folder or its nearest existing parent, in which the edge will create the folder
	info, err := os.Stat(there)
	for errors.Is(err, fs.ErrNotExist) && there != filepath.Dir(there) {
		there = filepath.Dir(there)
		info, err = os.Stat(there)
	}
	if err == nil && !info.IsDir() {
		c.fail(path, "%s is no folder", there)
		return
	}
	if err == nil {
		var probe *os.File
		if probe, err = os.CreateTemp(there, ".penstock-check-*"); err == nil {
			_ = probe.Close() // the probe file is empty, so an error does not matter
			err = os.Remove(probe.Name())
		}
	}
	if err != nil {
		c.fail(path, "certificates cannot be kept there: %s", strictyaml.FileError(there, err))
		return
	}
	if there == a.Folder {
		c.warnUnsafePermissions(path, there)
	}
}

// warnUnsafePermissions warns if other users of the machine can replace the certificates in a folder or
// read its private keys. Other users may list the file names, because the edge writes the files
// with mode 0600.
func (c *checker) warnUnsafePermissions(path, folder string) {
	// Other users cannot open an entry that is unreadable here.
	_ = filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = d.Info()
		}
		if err != nil {
			return fs.SkipDir
		}
		switch {
		case d.IsDir() && strictyaml.WritableByOthers(info):
			c.warn(path, "%s has mode %04o: other users can put their own certificates and keys there; chmod 700 keeps them out",
				name, info.Mode().Perm())
			return fs.SkipAll
		case info.Mode().IsRegular() && strictyaml.ReadableByOthers(info):
			c.warn(path, "%s holds a key and has mode %04o: chmod 600 keeps other users out", name, info.Mode().Perm())
			return fs.SkipAll
		}
		return nil
	})
}
