package proxy

import (
	"net"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/front/listen"
)

// TestWatchdogBehindProxies checks that a listener that requires a PROXY protocol header responds
// to the watchdog's request.
func TestWatchdogBehindProxies(t *testing.T) {
	ln, err := net.Listen("unix", t.TempDir()+"/edge")
	if err != nil {
		t.Fatal(err)
	}
	l, err := listen.New(ln, listen.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l.SetProxies(nil, true)
	server := &fasthttp.Server{Handler: func(*fasthttp.RequestCtx) {}}
	go server.Serve(l)
	t.Cleanup(func() { _ = server.Shutdown() })
	at := unixAddrListener{ln}
	if !listenerResponds(at, false, time.Minute, l.LocalProxyHeader) {
		t.Error("the edge does not answer itself")
	}
	if listenerResponds(at, false, time.Minute, func(net.Addr) []byte { return nil }) {
		t.Error("a request without the header is answered")
	}
}

// unixAddrListener is a Unix socket listener whose address has the same format as in the
// configuration.
type unixAddrListener struct{ net.Listener }

func (l unixAddrListener) Addr() net.Addr {
	return &net.UnixAddr{Net: "unix", Name: "unix:" + l.Listener.Addr().String()}
}
