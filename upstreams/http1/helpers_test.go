package http1

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"penstock/config/testkit/rawserver"
)

// transportTo returns a transport to url. The transport is closed when the test ends, and the test
// fails if a goroutine remains.
func transportTo(t *testing.T, url string, change ...func(o *TransportOptions)) *Transport {
	t.Helper()
	o := TransportOptions{Upstream: "gpu-a", URL: url}
	if strings.HasPrefix(url, "https:") {
		o.TLS = rawserver.ClientTLS(t)
	}
	for _, f := range change {
		f(&o)
	}
	tr, err := NewTransport(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	return tr
}

// checkLeaks makes the test fail if goroutines remain when it ends. Call checkLeaks before any
// other cleanup is registered.
func checkLeaks(t *testing.T) {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
}

func post(body string) *Request {
	return &Request{Method: "POST", Path: "/v1/chat/completions", ContentType: "application/json", Body: [][]byte{[]byte(body)}, ConnectTimeout: 2 * time.Second, WriteTimeout: 2 * time.Second}
}

func inThirtySeconds() time.Time { return time.Now().Add(30 * time.Second) }

// readAll reads the body to its end or first failure.
func readAll(x *Exchange) (string, error) {
	var b strings.Builder
	p := make([]byte, 1500)
	for {
		n, err := x.Read(p, inThirtySeconds())
		b.Write(p[:n])
		if err == io.EOF {
			return b.String(), nil
		}
		if err != nil {
			return b.String(), err
		}
	}
}

func roundTrip(tr *Transport, r *Request) (status int, body string, x *Exchange, err error) {
	x = tr.NewExchange()
	defer x.Close()
	if err = x.Send(r); err != nil {
		return 0, "", x, err
	}
	if err = x.Await(inThirtySeconds()); err != nil {
		return 0, "", x, err
	}
	body, err = readAll(x)
	return x.Status(), body, x, err
}

// mustEcho checks that tr works. It sends a request to a server that echoes it.
func mustEcho(t *testing.T, tr *Transport, body string) *Exchange {
	t.Helper()
	status, got, x, err := roundTrip(tr, post(body))
	if err != nil || status != 200 || got != body {
		t.Fatalf("exchange: status %d, body %q, error %v; want 200 and %q", status, got, err, body)
	}
	return x
}

// failureOf returns err as a Failure, and checks the fields that every Failure must set.
func failureOf(t *testing.T, err error) *Failure {
	t.Helper()
	var f *Failure
	if !errors.As(err, &f) {
		t.Fatalf("error %v (%T), want a *Failure", err, err)
	}
	if f.Upstream != "gpu-a" {
		t.Errorf("failure names upstream %q, want gpu-a", f.Upstream)
	}
	if (f.Clock != "") != (f.Kind == KindTimeout) {
		t.Errorf("failure of kind %v has clock %q", f.Kind, f.Clock)
	}
	return f
}

func wantFailure(t *testing.T, err error, kind FailureKind, reason string) *Failure {
	t.Helper()
	f := failureOf(t, err)
	if f.Kind != kind || f.Reason != reason {
		t.Fatalf("failure %v (%s): %v; want %v (%s)", f.Kind, f.Reason, f, kind, reason)
	}
	return f
}

var errTestCause = errors.New("the client has gone")

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 2000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("never: " + what)
}

// canPeek is true if this system supports peeking into a socket.
var canPeek = func() bool {
	var p pollOps
	p.bindFuncs(noSocket{})
	return p.probeFunc != nil
}()
