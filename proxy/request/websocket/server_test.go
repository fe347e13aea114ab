package websocket

import (
	"testing"

	"penstock/config"
	"penstock/proxy/access/auth"
	"penstock/proxy/request/call"
	"penstock/proxy/running/snapshot"
)

// Handshakes that run at the same time all pass keyMayConnect, so add has to check the share again.
func TestAddRejectsSessionsAboveKeyShare(t *testing.T) {
	f := &config.File{}
	f.Limits.Connections = 2 * keyShareDivisor
	c := New(&call.Services{Current: func() *snapshot.Snapshot { return &snapshot.Snapshot{Config: f} }}, nil)
	session := func(id string) *clientSession { return &clientSession{key: &auth.Key{ID: id}} }
	first := session("a")
	for i, one := range []struct {
		session *clientSession
		want    bool
	}{{first, true}, {session("a"), true}, {session("a"), false}, {session("b"), true}, {&clientSession{}, true}} {
		if got := c.add(one.session); got != one.want {
			t.Errorf("session %d: add returned %v, want %v", i, got, one.want)
		}
	}
	c.remove(first)
	if got := c.add(session("a")); !got {
		t.Errorf("after a session ended: add returned %v, want true", got)
	}
	if open, opened := c.ConnectionCounts(); open != 4 || opened != 5 {
		t.Errorf("got %d open, %d opened; want 4, 5", open, opened)
	}
}
