package proxy

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/telemetry/guard"
	"penstock/upstreams/engine"
)

// TestStatusLookAllocations checks that the allocations of the edge's periodic check do not depend
// on the number of keys. Only open status pages need lists of keys.
func TestStatusLookAllocations(t *testing.T) {
	one, many := allocationsOfLook(t, 1), allocationsOfLook(t, 2000)
	if many > one+50 {
		t.Errorf("a look allocates %v times with one key and %v times with 2,000", one, many)
	}
}

func allocationsOfLook(t *testing.T, keys int) float64 {
	t.Helper()
	var text strings.Builder
	text.WriteString(`
upstreams: [{ name: up, url: "http://127.0.0.1:9", engine: vllm, concurrency: 1 }]
models: [{ id: m, deployments: [{ upstream: up }] }]
keys:
`)
	for i := range keys {
		fmt.Fprintf(&text, "  - { id: key-%d, hash: \"sha256:%064x\", limits: { requests_per_minute: 9, tokens_per_minute: 9000 } }\n", i, i)
	}
	f, problems := config.ParseValid("test.yaml", []byte(text.String()), config.KnownProfiles{Engines: engine.EngineNames(nil)})
	if f == nil {
		t.Fatal(problems)
	}
	var listeners [2]net.Listener
	for i := range listeners {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		listeners[i] = ln
	}
	e, err := New(Options{
		Config: f, Log: zap.NewNop(), MemoryLimit: 1 << 30, Public: listeners[0], Admin: listeners[1], Guard: guard.New(),
	})
	if err != nil {
		t.Fatal(err)
	}
	e.admin.CheckState() // the first call starts the history
	return testing.AllocsPerRun(20, e.admin.CheckState)
}
