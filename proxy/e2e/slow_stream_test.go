package e2e

import (
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// TestSlowStream checks that a client whose socket buffer fills up in the middle of a stream
// receives the same text as a client that reads immediately.
func TestSlowStream(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Upstream: rig.QuietProbes, Engines: []sim.Options{{MaxModelLen: 1 << 20}}})
	way := rig.Chat
	way.Stream = true
	body := way.RequestBody("sim", rig.Prompt, `"tokens":30000`)
	want, whole := rig.StreamText(t, way, p.Post(way.Path, body).WantStatus(200).Events())
	if !whole || len(want) < 30_000 {
		t.Fatalf("the first stream has %d bytes, whole: %v", len(want), whole)
	}
	c := p.slowReader()
	for range 3 {
		sent := p.Engines[0].Stats().Tokens
		_ = c.Send(p.RequestBytes(way.Path, body))
		rig.WaitFor(t, rig.WaitTimeout, "the stream runs", func() bool { return p.Engines[0].Stats().Tokens > sent+1000 })
		got, whole := rig.StreamText(t, way, c.ReadReply("POST").WantStatus(200).Events())
		if got != want || !whole {
			t.Errorf("%d bytes, whole: %v; want %d bytes", len(got), whole, len(want))
		}
	}
}
