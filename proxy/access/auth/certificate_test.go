package auth

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"penstock/config"
	"penstock/config/testkit/selfsigned"
	"penstock/proxy/access/auth/cert"
)

func clients(t *testing.T, keys ...config.Key) (*selfsigned.Authority, *KeyRing) {
	t.Helper()
	a := selfsigned.NewAuthority(t, "clients")
	return a, ringTrusting(t, a.PEM, keys...)
}

func ringTrusting(t *testing.T, authorities string, keys ...config.Key) *KeyRing {
	t.Helper()
	r, err := NewKeyRing(keys, &IssuerOptions{ClientCA: []byte(authorities)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func keyWithSAN(id, san string) config.Key {
	return config.Key{ID: id, Certificate: config.CertificateIdentity{SAN: san}}
}

func peer(t *testing.T, a *selfsigned.Authority, set func(*x509.Certificate)) *cert.Peer {
	t.Helper()
	return cert.NewPeer([]*x509.Certificate{a.NewClientCertificate(t, set).Leaf})
}

func hosts(names ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.DNSNames = names }
}

// TestFindPeer checks that a valid certificate identifies the valid key that names it.
func TestFindPeer(t *testing.T) {
	off, now := false, time.Now()
	switchedOff := keyWithSAN("off", "off.test")
	switchedOff.Active = &off
	ended := keyWithSAN("ended", "ended.test")
	ended.Expires = now.Add(-time.Second)
	a, r := clients(t, keyWithSAN("host", "agent.test"), keyWithSAN("uri", "spiffe://house/Agent"), keyWithSAN("mail", "ops@house.test"),
		keyWithSAN("address", "10.1.2.3"), switchedOff, ended, config.Key{ID: "plain", Hash: hashes("plain")})
	uri, _ := url.Parse("SPIFFE://House/Agent")
	other, _ := url.Parse("spiffe://house/agent")
	stranger := selfsigned.NewAuthority(t, "clients") // a different authority with the same name
	for _, c := range []struct {
		name, id string
		err      error
		peer     *cert.Peer
	}{
		{"no certificate", "", nil, nil},
		{"host", "host", nil, peer(t, a, hosts("Agent.Test"))},
		{"one of several names", "host", nil, peer(t, a, hosts("other.test", "agent.test"))},
		{"uri", "uri", nil, peer(t, a, func(c *x509.Certificate) { c.URIs = []*url.URL{uri} })},
		{"uri with another path", "", nil, peer(t, a, func(c *x509.Certificate) { c.URIs = []*url.URL{other} })},
		{"mail", "mail", nil, peer(t, a, func(c *x509.Certificate) { c.EmailAddresses = []string{"ops@house.test"} })},
		{"address", "address", nil, peer(t, a, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(10, 1, 2, 3)} })},
		{"named by no key", "", nil, peer(t, a, hosts("unknown.test"))},
		{"a common name does not count", "", nil, peer(t, a, func(c *x509.Certificate) { c.Subject.CommonName = "agent.test" })},
		{"a wildcard is taken literally", "", nil, peer(t, a, hosts("*.test"))},
		{"names of two keys", "", ErrCredentialConflict, peer(t, a, func(c *x509.Certificate) {
			c.DNSNames, c.EmailAddresses = []string{"agent.test"}, []string{"ops@house.test"}
		})},
		{"another authority", "", errInvalidKey, peer(t, stranger, hosts("agent.test"))},
		{"of a server", "", errInvalidKey, peer(t, a, func(c *x509.Certificate) {
			c.DNSNames, c.ExtKeyUsage = []string{"agent.test"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		})},
		{"past its end", "", errInvalidKey, peer(t, a, func(c *x509.Certificate) {
			c.DNSNames, c.NotAfter = []string{"agent.test"}, now.Add(-time.Minute)
		})},
		{"key switched off", "", errInvalidKey, peer(t, a, hosts("off.test"))},
		{"expired key", "", errInvalidKey, peer(t, a, hosts("ended.test"))},
	} {
		for range 2 { // the second result is cached
			k, err := r.FindCertificateKey(c.peer, now)
			id := ""
			if k != nil {
				id = k.ID
			}
			if id != c.id || err != c.err {
				t.Errorf("%s: %q %v, want %q %v", c.name, id, err, c.id, c.err)
			}
		}
	}
	p := peer(t, a, hosts("agent.test"))
	if k, err := r.FindCertificateKey(p, now); k == nil || err != nil {
		t.Fatal(k, err)
	}
	if k, err := r.FindCertificateKey(p, now.Add(2*time.Hour)); k != nil || err != errInvalidKey {
		t.Errorf("a connection outlives its certificate: %v %v", k, err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = r.FindCertificateKey(p, now) }); n != 0 {
		t.Errorf("%v allocations for a known connection", n)
	}
}

// TestFindPeerByKind checks that the format of a name determines its kind, and that a name of a
// different kind with the same text does not match. The kinds must not be confused, because an
// authority that checks DNS names may sign any mail address or URI.
func TestFindPeerByKind(t *testing.T) {
	names := map[string]string{"dns": "agent", "uri": "urn:agent", "mail": "agent@house", "ip": "10.1.2.3", "ip6": "2001:DB8:0::1"}
	var keys []config.Key
	for id, san := range names {
		keys = append(keys, keyWithSAN(id, san))
	}
	a, r := clients(t, keys...)
	for id, text := range names {
		for kind, set := range map[string]func(*x509.Certificate){
			"dns":  func(c *x509.Certificate) { c.DNSNames = []string{text} },
			"mail": func(c *x509.Certificate) { c.EmailAddresses = []string{text} },
			"uri":  func(c *x509.Certificate) { c.URIs = []*url.URL{{Opaque: text}} },
			"ip":   func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.ParseIP(text)} },
		} {
			if kind == "ip" && net.ParseIP(text) == nil {
				continue
			}
			if scheme, rest, ok := strings.Cut(text, ":"); kind == "uri" && ok && id == "uri" {
				set = func(c *x509.Certificate) { c.URIs = []*url.URL{{Scheme: scheme, Opaque: rest}} }
			}
			found := ""
			leaf := &x509.Certificate{RawSubjectPublicKeyInfo: []byte("x")}
			set(leaf)
			for _, mark := range cert.NewPeer([]*x509.Certificate{leaf}).Identities() {
				if k := r.certificates.keys[mark]; k != nil {
					found = k.ID
				}
			}
			want := ""
			if kind == strings.TrimSuffix(id, "6") {
				want = id
			}
			if found != want {
				t.Errorf("the %s name %s is that of key %q, want %q", kind, text, found, want)
			}
		}
	}
	k, err := r.FindCertificateKey(peer(t, a, func(c *x509.Certificate) { c.EmailAddresses = []string{"agent"} }), time.Now())
	if k != nil || err != nil {
		t.Errorf("a mail address called as a DNS name: %v %v", k, err)
	}
	if k, err = r.FindCertificateKey(peer(t, a, hosts("agent")), time.Now()); k == nil || err != nil {
		t.Error(k, err)
	}
}

// TestFindPeerByKeyPair checks that the hash of a public key equals the hash computed by openssl,
// and that a renewal does not change it.
func TestFindPeerByKeyPair(t *testing.T) {
	a := selfsigned.NewAuthority(t, "clients")
	c := a.NewClientCertificate(t, hosts("agent.test"))
	sum := sha256.Sum256(c.Leaf.RawSubjectPublicKeyInfo)
	spki := "sha256:" + hex.EncodeToString(sum[:])
	r := ringTrusting(t, a.PEM, config.Key{ID: "pinned", Certificate: config.CertificateIdentity{SPKI: spki}}, keyWithSAN("name", "agent.test"))
	if k, err := r.FindCertificateKey(cert.NewPeer([]*x509.Certificate{c.Leaf}), time.Now()); k != nil || err != ErrCredentialConflict {
		t.Errorf("two keys by two marks: %v %v", k, err)
	}
	r = ringTrusting(t, a.PEM, config.Key{ID: "pinned", Certificate: config.CertificateIdentity{SPKI: spki}})
	if k, err := r.FindCertificateKey(cert.NewPeer([]*x509.Certificate{c.Leaf}), time.Now()); k == nil || k.ID != "pinned" {
		t.Errorf("FindCertificateKey with the pinned key pair = %v, %v; want the key pinned", k, err)
	}
	if k, err := r.FindCertificateKey(peer(t, a, hosts("agent.test")), time.Now()); k != nil || err != nil {
		t.Errorf("another key pair with the same names: %v %v", k, err)
	}
}

// TestCertificatesEnd checks which running calls may continue, and which open connections may make
// new calls, after a reload that removes their certificate or key.
func TestCertificatesEnd(t *testing.T) {
	now, off := time.Now(), false
	key := keyWithSAN("agent", "agent.test")
	a, r := clients(t, key)
	p := peer(t, a, hosts("agent.test", "other.test"))
	found, err := r.FindCertificateKey(p, now)
	if err != nil || found == nil {
		t.Fatal(found, err)
	}
	inactive, ended, other := key, key, keyWithSAN("agent", "other.test")
	inactive.Active, ended.Expires = &off, now
	stranger := selfsigned.NewAuthority(t, "clients").PEM
	for _, c := range []struct {
		name  string
		ring  *KeyRing
		goes  bool // whether the running call may continue
		known bool // whether the next call on the connection is admitted
	}{
		{"the same", ringTrusting(t, a.PEM, key), true, true},
		{"one more authority", ringTrusting(t, stranger+a.PEM, key), true, true},
		{"another authority", ringTrusting(t, stranger, key), false, false},
		{"inactive", ringTrusting(t, a.PEM, inactive), false, false},
		{"ended", ringTrusting(t, a.PEM, ended), false, false},
		{"removed", ringTrusting(t, a.PEM, keyWithSAN("another", "another.test")), false, false},
		{"no certificates", ringTrusting(t, "", config.Key{ID: "agent", Hash: hashes("x")}), false, false},
		{"another name of it", ringTrusting(t, a.PEM, other), false, true},
		{"another key's", ringTrusting(t, a.PEM, keyWithSAN("another", "agent.test")), false, true},
	} {
		if goes := c.ring.MayContinue(found, now); goes != c.goes {
			t.Errorf("%s: the call continues %v, want %v", c.name, goes, c.goes)
		}
		if k, _ := c.ring.FindCertificateKey(p, now); (k != nil) != c.known {
			t.Errorf("FindCertificateKey(%s) = %v, want a key: %v", c.name, k, c.known)
		}
	}
	if late := now.Add(2 * time.Hour); !ringTrusting(t, a.PEM, key).MayContinue(found, late) {
		t.Error("a call is cut because its certificate has ended meanwhile")
	}
}

// TestCertificateKeyTiers checks that a key found by its certificate has the tiers that it lists in
// the ring in force.
func TestCertificateKeyTiers(t *testing.T) {
	listing := func(id string, tiers ...int) config.Key {
		k := keyWithSAN(id, "agent.test")
		k.Tiers = tiers
		return k
	}
	a, r := clients(t, listing("agent", 1))
	found, err := r.FindCertificateKey(peer(t, a, hosts("agent.test")), time.Now())
	if err != nil || found == nil {
		t.Fatal(found, err)
	}
	for _, c := range []struct {
		name string
		ring *KeyRing
		want config.TierSet
	}{
		{"the same", r, 0b10},
		{"other tiers", ringTrusting(t, a.PEM, listing("agent", 0, 2)), 0b101},
		{"another key's", ringTrusting(t, a.PEM, listing("another", 2)), 0b10},
		{"no certificates", ringTrusting(t, "", config.Key{ID: "agent", Hash: hashes("x"), Tiers: []int{2}}), 0b10},
	} {
		if got := c.ring.KeyTiers(found); got != c.want {
			t.Errorf("%s: the tiers are %b, want %b", c.name, got, c.want)
		}
	}
}

// TestNewRingCertificates checks that ambiguous or unverifiable certificates are rejected.
func TestNewRingCertificates(t *testing.T) {
	a := selfsigned.NewAuthority(t, "clients")
	for want, o := range map[string]struct {
		ca   string
		keys []config.Key
	}{
		"name the same certificate": {a.PEM, []config.Key{keyWithSAN("a", "x.test"), keyWithSAN("b", "X.test")}},
		"no tls.client_ca":          {"", []config.Key{keyWithSAN("a", "x.test")}},
		"no certificate in PEM":     {"nothing", []config.Key{keyWithSAN("a", "x.test")}},
	} {
		if _, err := NewKeyRing(o.keys, &IssuerOptions{ClientCA: []byte(o.ca)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
