package faults

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"penstock/proxy/e2e/rig"
)

type edge struct{ *rig.ProgramEdge }

func start(t testing.TB, s rig.Setup) *edge {
	t.Helper()
	return &edge{rig.StartProgram(t, s)}
}

// startSecure is like start, but uses TLS if secure is true. The returned function connects to the
// edge.
func startSecure(t *testing.T, secure bool, s rig.Setup) (*edge, func(testing.TB) *rig.RawConn) {
	t.Helper()
	if secure {
		cert, key := pemPair(t, "edge", time.Now().Add(time.Hour))
		s.Top, s.Files = s.Top+"\ntls: { cert: edge.pem, key: edge.key }", map[string]string{"edge.pem": cert, "edge.key": key}
	}
	e := start(t, s)
	return e, func(t testing.TB) *rig.RawConn {
		t.Helper()
		conn, err := net.Dial("tcp", e.Addr)
		noError(t, err)
		if secure {
			conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
		}
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(3 * rig.WaitTimeout))
		return rig.NewRawConn(t, conn)
	}
}

// forEachRequestType runs f for each type of request in parallel. Each type uses a separate program
// and separate engines.
func forEachRequestType(t *testing.T, ways []rig.RequestType, s rig.Setup, f func(e *edge, w rig.RequestType)) {
	t.Helper()
	for _, w := range ways {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			own := s
			if k := w.ModelKind(); k != "" {
				own.Model = strings.TrimPrefix(own.Model+", "+k, ", ")
			}
			f(start(t, own), w)
		})
	}
}

// TestHarness checks that the built program answers every type of request.
func TestHarness(t *testing.T) {
	t.Parallel()
	forEachRequestType(t, rig.TextRequestTypes, rig.Setup{}, func(e *edge, w rig.RequestType) {
		if text := e.SendRequest(w, `"text":"Good."`).VisibleText(w); text != "Good." {
			e.T.Errorf("the answer is %q", text)
		}
		if l := e.LastAccessLine(); l.Status != 200 || l.Outcome != "ok" || l.Attempts != 1 || l.Dialect != w.Dialect {
			e.T.Errorf("the log says %+v", l)
		}
	})
}

// TestHarnessFake checks that a fake engine with the simplest script works like a real engine.
func TestHarnessFake(t *testing.T) {
	t.Parallel()
	for _, w := range rig.TextRequestTypes {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			f := startFakeEngine(t, func(c *fakeCall) { c.answer() })
			e := start(t, rig.Setup{Fakes: []string{f.url}})
			for range 2 {
				if text := e.SendRequest(w, "").VisibleText(w); text != "Good." {
					t.Errorf("the answer is %q", text)
				}
			}
			if n, _ := f.callCounts(); n != 2 {
				t.Errorf("the engine saw %d calls", n)
			}
		})
	}
}
