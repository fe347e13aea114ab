package proxy

import (
	"context"
	"net"
	"testing"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/upstreams/engine"
)

// fuzzedEdge returns an edge for fuzz targets with its public listener. The edge has one model, no
// keys and no admin listener, and its engine does not exist. The caller must start serving.
func fuzzedEdge(f testing.TB) (*Edge, net.Listener) {
	public, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	const text = `
auth: none
cors: { origins: ["*"] } # Hosts are refused for their form alone
seal: { keys: ["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="] } # with them there is a path for compaction
admin: { listen: "" }
upstreams: [{ name: up, url: "http://127.0.0.1:1", engine: sim, probe: { interval: 1h } }]
models: [{ id: m, deployments: [{ upstream: up }] }]
`
	c, problems := config.ParseValid("test.yaml", []byte(text), config.KnownProfiles{Engines: engine.EngineNames(nil)})
	if c == nil {
		f.Fatal(problems)
	}
	e, err := New(Options{Config: c, Log: zap.NewNop(), MemoryLimit: 1 << 30, Public: public})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		_ = e.upstreamSet.Close(context.Background())
		_ = e.listener.StopDisconnectWatch()
		_ = public.Close()
	})
	return e, public
}
