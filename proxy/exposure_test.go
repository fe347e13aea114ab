package proxy

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/running/reload"
	"penstock/upstreams/engine"
)

// nonLoopbackListener is a loopback listener that reports an address reachable from other machines.
type nonLoopbackListener struct {
	net.Listener
	fakeAddr net.Addr
}

func (l nonLoopbackListener) Addr() net.Addr { return l.fakeAddr }

func listener(t *testing.T, open bool) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	if open {
		return nonLoopbackListener{ln, &net.TCPAddr{IP: net.IPv6unspecified, Port: 4000}}
	}
	return ln
}

// TestOpenPortsStayGuarded checks ports that other machines can reach. They must never serve the
// API without keys, or the admin pages without a token. The test starts the edge on ports opened by
// another process, and reloads it.
func TestOpenPortsStayGuarded(t *testing.T) {
	const (
		rest    = "upstreams: [{ name: up, url: \"http://127.0.0.1:1\", engine: sim, probe: { interval: 1h } }]\nmodels: [{ id: m, deployments: [{ upstream: up }] }]\n"
		keys    = "keys: [{ id: a, hash: \"sha256:8675781084c10eecf43a30268bb4cbe7b56fff58d0842f0b848522de00bdb712\" }]\n"
		token   = "admin: { listen: 127.0.0.1:9090, token: ffffffffffffffff }\n"
		keyless = "auth: none\n" + token + rest
		bare    = keys + "admin: { listen: 127.0.0.1:9090 }\n" + rest
	)
	read := func(text string) *config.File {
		f, problems := config.ParseValid("test.yaml", []byte(text), config.KnownProfiles{Engines: engine.EngineNames(nil)})
		if f == nil {
			t.Fatal(problems)
		}
		return f
	}
	for _, row := range []struct {
		name, file          string
		openPublic, openAdm bool
		says                string
	}{
		{"keyless", keyless, true, false, "test.yaml:1:7: none is allowed on loopback only"},
		{"keyless admin", keyless, false, true, "test.yaml:1:7: none is allowed on loopback only"},
		{"no token", bare, false, true, "test.yaml:2:8: it is needed"},
		{"keyless on loopback", keyless, false, false, ""},
		{"no token on loopback", bare, true, false, ""},
	} {
		o := Options{Log: zap.NewNop(), MemoryLimit: 1 << 30, Public: listener(t, row.openPublic), Admin: listener(t, row.openAdm)}
		o.Config = read(row.file)
		if row.says != "" {
			if e, err := New(o); err == nil || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%s: it starts: %v", row.name, err)
				_ = e
			}
		}
		next := row.file
		o.Config = read(keys + token + rest)
		o.Load = func() (*config.File, config.Problems, []string) { return read(next), nil, nil }
		e, err := New(o)
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		for _, dry := range []bool{true, false} {
			r := e.reloads.Reload(reload.Request{Source: "test", Force: true, DryRun: dry})
			switch said := strings.Join(r.Problems, "\n"); {
			case row.says == "" && !r.OK, row.says != "" && (r.OK || !strings.Contains(said, row.says)):
				t.Errorf("%s: ok %t, dry %t: %s", row.name, r.OK, dry, said)
			case row.says != "" && r.Version != 1:
				t.Errorf("%s: it was applied", row.name)
			}
		}
		_ = e.upstreamSet.Close(context.Background())
		_ = errors.Join(e.listener.StopDisconnectWatch(), e.admin.CloseConns())
	}
}
