package websocket

import (
	"io"
	"testing"
	"testing/synctest"

	"penstock/config/testkit/raced"
)

// TestEventAllocations checks that sending a stream event as a message does not allocate, even on a
// named lane.
func TestEventAllocations(t *testing.T) {
	if raced.Enabled {
		t.Skip("the race detector allocates")
	}
	synctest.Test(t, func(t *testing.T) {
		client, c := open(t)
		go func() { _, _ = io.Copy(io.Discard, client) }()
		synctest.Wait()
		c.mu.Lock()
		var p *messageWriter
		for s := range c.sessions {
			p = s.peer
		}
		c.mu.Unlock()
		for _, lane := range []string{"", "main"} {
			w := &eventWriter{peer: p, turn: &responseTurn{laneName: lane}, messagePrefix: laneMessagePrefix(lane)}
			event := []byte("event: response.function_call_arguments.delta\ndata: {\"type\":\"response.function_call_arguments.delta\",\"delta\":\"x\"}\n\n: keep-alive\n\n")
			if n := testing.AllocsPerRun(100, func() {
				if _, err := w.Write(event); err != nil {
					t.Error(err)
				}
			}); n > 0 {
				t.Errorf("lane %q: %v allocations an event", lane, n)
			}
		}
		client.Close()
	})
}
