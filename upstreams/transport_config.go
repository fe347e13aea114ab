package upstreams

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"penstock/config"
)

const (
	probeAgent = "penstock-probe"
	probeIdle  = 4 * time.Second
)

// normalizeURL returns a base URL in one form: scheme and host in lower case, no default port, no
// slash at the end.
func normalizeURL(raw string) (string, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", errors.New("url: it does not parse")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", fmt.Errorf("url: %q must begin with http:// or https:// and name a host", u.Redacted())
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("url: a user, a query or a fragment has no place in a base URL; credentials go into api_key")
	}
	host := strings.ToLower(u.Hostname())
	port := u.Port()
	if port == defaultPort(u.Scheme) {
		port = ""
	}
	switch {
	case port != "":
		host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		host = "[" + host + "]"
	}
	return u.Scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/"), nil
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// transportConfig is what an upstream's transports are made from. By the digest a reload finds out
// whether any of it has changed, the contents of certificate files included. The digest gives no
// secret away.
type transportConfig struct {
	options TransportOptions
	digest  [sha256.Size]byte
}

func newTransportConfig(spec *config.Upstream, base, address string, profile *Profile) (transportConfig, error) {
	u, err := url.Parse(base)
	if err != nil {
		return transportConfig{}, err
	}
	o := TransportOptions{URL: base, IdleTimeout: profile.KeepAlive(), Authorization: bearer(spec.APIKey.Value())}
	sum := sha256.New()
	if u.Scheme == "https" {
		if o.TLS, err = clientTLSOf(&spec.TLS, u.Hostname(), func(part []byte) {
			h := sha256.Sum256(part)
			sum.Write(h[:])
		}); err != nil {
			return transportConfig{}, err
		}
	}
	if address != "" {
		if !profile.OwnHost() {
			o.Host = u.Host
		}
		u.Host = net.JoinHostPort(address, cmp.Or(u.Port(), defaultPort(u.Scheme)))
		o.URL = u.String()
	}
	fmt.Fprintf(sum, "%q %q %d %q %t", o.URL, o.Host, o.IdleTimeout, o.Authorization, spec.TLS.Insecure)
	l := transportConfig{options: o}
	sum.Sum(l.digest[:0])
	return l, nil
}

func (l *transportConfig) transport(id ID, hosts *hostWatch) (*Transport, error) {
	o := l.options
	o.ID = id
	return newTransport(o, hosts)
}

// probeTransport returns a small transport for probes, which must neither wait for the connections
// of calls nor use them.
func (l *transportConfig) probeTransport(id ID, hosts *hostWatch) (*Transport, error) {
	o := l.options
	o.ID, o.IdleTimeout, o.MaxIdle, o.UserAgent = id, probeIdle, 1, probeAgent
	return newTransport(o, hosts)
}

func bearer(key string) string {
	if key == "" {
		return ""
	}
	return "Bearer " + key
}

// clientTLSOf reads the certificate files of an upstream and passes their contents to seen.
func clientTLSOf(t *config.UpstreamTLS, name string, seen func([]byte)) (*tls.Config, error) {
	c := &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.Insecure} //nolint:gosec // spelt out by the operator
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("tls.ca: %w", err)
		}
		seen(pem)
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca: %s holds no certificate in PEM form", t.CA)
		}
	}
	if t.Cert == "" {
		return c, nil
	}
	cert, err := os.ReadFile(t.Cert)
	if err != nil {
		return nil, fmt.Errorf("tls.cert: %w", err)
	}
	key, err := os.ReadFile(t.Key)
	if err != nil {
		return nil, fmt.Errorf("tls.key: %w", err)
	}
	seen(cert)
	seen(key)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("tls.cert and tls.key (%s, %s) do not make a pair: %w", t.Cert, t.Key, err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}
