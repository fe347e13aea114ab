package http1

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"penstock/config/testkit/rawserver"
)

// TestDetail checks the details of failed connection attempts, which are shown to operators. They
// contain no part of a request, of the API key or of the URL's path.
func TestDetail(t *testing.T) {
	checkLeaks(t)
	const canary = "canary-7f3a"
	plain := rawserver.Serve(t, func(p *rawserver.Peer) { p.Send("HTTP/1.1 400 Bad Request\r\n\r\n" + canary); p.ReadToEnd() })
	unknown := rawserver.ServeTLS(t, rawserver.EchoRequests)
	silent := rawserver.Serve(t, func(p *rawserver.Peer) { p.ReadToEnd() })
	closed := rawserver.Serve(t, func(p *rawserver.Peer) {})
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = free.Close()
	for name, c := range map[string]struct {
		url    string
		lookup *resolver
		reason string
	}{
		"refused":              {"http://" + free.Addr().String(), nil, ReasonConnect},
		"no such name":         {"http://engine.internal:1", &resolver{err: &net.DNSError{Err: "no such host", Name: "engine.internal", IsNotFound: true}}, ReasonDNS},
		"no TLS":               {"https://" + plain.Listener.Addr().String(), nil, ReasonTLS},
		"unknown authority":    {unknown.URL(), nil, ReasonTLS},
		"another name":         {"https://engine.internal:" + port(t, unknown.Listener), &resolver{ips: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}, ReasonTLS},
		"an endless handshake": {"https://" + silent.Listener.Addr().String(), nil, ReasonTimeout},
		"a closed handshake":   {"https://" + closed.Listener.Addr().String(), nil, ReasonTLS},
	} {
		tr := transportTo(t, c.url+"/"+canary, func(o *TransportOptions) {
			o.APIKey = canary
			if name == "unknown authority" {
				o.TLS = nil
			}
		})
		if c.lookup != nil {
			tr.dns.lookup = c.lookup.lookup
		}
		r := post(canary)
		r.Path, r.RequestID, r.Traceparent = "/v1/"+canary, []byte(canary), []byte(canary)
		if r.ConnectTimeout = 5 * time.Second; c.reason == ReasonTimeout {
			r.ConnectTimeout = 50 * time.Millisecond
		}
		_, _, _, err := roundTrip(tr, r)
		f := failureOf(t, err)
		if f.Reason != c.reason || f.Detail() == "" {
			t.Errorf("%s: reason = %s, detail %q; want %s with a detail", name, f.Reason, f.Detail(), c.reason)
		}
		if strings.Contains(f.Detail(), canary) || strings.Contains(f.Error(), canary) {
			t.Errorf("%s: failure = %v, detail %q; want no canary", name, f, f.Detail())
		}
	}
}

// TestDetail_Bounded checks that the length of Detail is limited, even if a certificate lists a
// hundred names.
func TestDetail_Bounded(t *testing.T) {
	t.Parallel()
	f := Failure{Reason: ReasonTLS, Err: errors.New("a" + strings.Repeat("é", 400))}
	if got := f.Detail(); len(got) > maxDetailLen || !utf8.ValidString(got) {
		t.Errorf("Detail = %d bytes: %q; want valid UTF-8 of at most %d", len(got), got, maxDetailLen)
	}
}

// TestBaseURL_Errors checks that errors about a URL contain no part of the URL that might be a
// credential.
func TestBaseURL_Errors(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"http://canary:canary@host", "http://canary@host", "http://host?key=canary", "http://host#canary",
		"ftp://canary:canary@host/?key=canary", "htp://host?canary", "host/?x=canary#canary", "http://%zz@canary", "http://canary:x y@h",
		"//canary:canary@host", "canary:canary@host",
	} {
		if _, err := NormalizeURL(url); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("NormalizeURL(%s): %v, want an error without a canary", url, err)
		}
	}
}

func port(t *testing.T, l net.Listener) string {
	t.Helper()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
