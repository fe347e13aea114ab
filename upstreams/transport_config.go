package upstreams

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net"
	"net/url"

	"penstock/config"
	"penstock/upstreams/engine"
	"penstock/upstreams/http1"
)

// transportConfig is what an upstream's transports are made from. By the digest a reload finds out
// whether any of it has changed, the contents of certificate files included. The digest gives no
// secret away.
type transportConfig struct {
	options http1.TransportOptions
	digest  [sha256.Size]byte
}

func newTransportConfig(spec *config.Upstream, base, address string, profile *engine.Profile) (transportConfig, error) {
	u, err := url.Parse(base)
	if err != nil {
		return transportConfig{}, err
	}
	o := http1.TransportOptions{URL: base, IdleTimeout: profile.KeepAlive(), APIKey: spec.APIKey.Value()}
	sum := sha256.New()
	if u.Scheme == "https" {
		files := http1.TLSFiles{CA: spec.TLS.CA, Cert: spec.TLS.Cert, Key: spec.TLS.Key, Insecure: spec.TLS.Insecure}
		if o.TLS, err = http1.LoadTLS(files, u.Hostname(), func(part []byte) {
			h := sha256.Sum256(part)
			sum.Write(h[:])
		}); err != nil {
			return transportConfig{}, err
		}
	}
	if address != "" {
		if !profile.Has(config.QuirkOwnHost) {
			o.Host = u.Host
		}
		u.Host = net.JoinHostPort(address, cmp.Or(u.Port(), http1.DefaultPort(u.Scheme)))
		o.URL = u.String()
	}
	fmt.Fprintf(sum, "%q %q %d %q %t", o.URL, o.Host, o.IdleTimeout, o.APIKey, spec.TLS.Insecure)
	l := transportConfig{options: o}
	sum.Sum(l.digest[:0])
	return l, nil
}

// transport returns a transport for calls.
func (l *transportConfig) transport(hosts *http1.HostWatch) (*http1.Transport, error) {
	o := l.options
	o.Hosts = hosts
	return http1.NewTransport(o)
}

// probeTransport returns a transport for probes.
func (l *transportConfig) probeTransport(hosts *http1.HostWatch) (*http1.Transport, error) {
	o := l.options.ForProbes()
	o.Hosts = hosts
	return http1.NewTransport(o)
}
