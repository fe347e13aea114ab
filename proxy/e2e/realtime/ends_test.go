package realtime

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// TestFault98_RealtimeClientVanishes checks that the slot is freed immediately if the client closes
// the connection or vanishes. This must also be the case while the engine still has to send text
// and the client's audio is held back.
func TestFault98_RealtimeClientVanishes(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, vllm(""))
	for name, leave := range map[string]func(c *peer){
		"close": func(c *peer) { _ = c.ws.Close(websocket.StatusNormalClosure, "") },
		"gone":  func(c *peer) { _ = c.ws.CloseNow() },
		"gone in its audio": func(c *peer) {
			c.sendAudio(300)
			_ = c.ws.CloseNow()
		},
		"gone while the engine owes text": func(c *peer) {
			p.Engines[0].SetFault() // clears the fault for the next session
			c.sendAudio(300)
			c.send(`{"type":"input_audio_buffer.commit"}`)
			c.readUntil("input_audio_buffer.committed")
			c.sendAudio(500) // the edge holds this audio back
			_ = c.ws.CloseNow()
		},
	} {
		if strings.Contains(name, "owes") {
			p.Engines[0].SetFault(sim.Fault{Spec: "stall-after=4"})
		}
		c := dial(t, p.Edge, "?model=ears")
		rig.WaitFor(t, rig.WaitTimeout, name+": the session has a slot", func() bool { return p.Engines[0].Stats().Running == 1 })
		leave(c)
		rig.WaitFor(t, rig.WaitTimeout, name+": the slot is free", func() bool { return p.Engines[0].Stats().Running == 0 })
	}
	rig.WaitFor(t, rig.WaitTimeout, "the connections are gone", func() bool { return p.Metric("penstock_websocket_connections") == 0 })
	p.WaitIdle()
	if n := p.Metric("penstock_calls_total", `outcome="client_gone"`); n != 3 {
		t.Errorf("%v calls of clients that vanished, want 3", n)
	}
}

// TestFault99_RealtimeEngineDies checks a session that has sent audio to an engine that then dies,
// falls silent or sends garbage. The session must end with an error event and a close, and must not
// move to another engine.
func TestFault99_RealtimeEngineDies(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]struct{ code, outcome string }{
		"cut-after=2":    {"upstream_bad_response", "stream_broken"},
		"reset-after=2":  {"upstream_bad_response", "stream_broken"},
		"stall-after=2":  {"generation_timeout", "timeout"},
		"invalid-json=2": {"upstream_bad_response", "stream_broken"},
		// the engine sends an invalid event and closes the connection before any audio is sent
		"no-choices": {"", ""},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			s := vllm("timeouts: { linger: 0s, drain: 5s, connect: 10s, idle: 1s }\n", sim.Options{Record: true}, sim.Options{Record: true})
			p := rig.Start(t, s)
			p.Engines[0].SetFault(sim.Fault{Spec: fault})
			c := dial(t, p.Edge, "?model=ears")
			if want.code == "" {
				c.sendAudio(300)
				c.send(`{"type":"input_audio_buffer.commit"}`)
				c.readUntil(completed)
				if n := p.Engines[1].Stats().Requests; n != 1 {
					t.Errorf("the second engine has had %d sessions", n)
				}
				return
			}
			c.sendAudio(300)
			c.send(`{"type":"input_audio_buffer.commit"}`)
			c.wantError(want.code)
			c.wantClosed(websocket.StatusInternalError)
			waitNoSessions(t, p)
			p.WaitIdle()
			if call := p.LastAccessLine(); call.Outcome != want.outcome || call.Attempts != 1 {
				t.Errorf("%+v", call)
			}
			if n := p.Engines[1].Stats().Requests; n != 0 {
				t.Errorf("the second engine has had %d sessions", n)
			}
		})
	}
}

// TestFault99_RealtimeQueue checks a session that has not sent any audio when its engine dies, and
// then waits for a slot at another engine. The client's audio must be held back, and must be
// transcribed once a slot is free. If the client vanishes, the session must leave the queue.
func TestFault99_RealtimeQueue(t *testing.T) {
	t.Parallel()
	for _, stays := range []bool{true, false} {
		t.Run(fmt.Sprintf("stays: %v", stays), func(t *testing.T) {
			t.Parallel()
			s := vllm("", sim.Options{Record: true}, sim.Options{Record: true})
			s.Config = strings.NewReplacer("audio: 2", "audio: 1", "aliases:", "queue: { depth: 4, wait: 5m }, aliases:").Replace(s.Config)
			s.Untidy = true
			p := rig.Start(t, s)
			c, holder := dial(t, p.Edge, "?model=ears"), dial(t, p.Edge, "?model=ears")
			p.Engines[0].Unlisten()
			p.Engines[0].DropConns(1, true)
			queued := func(n float64) func() bool {
				return func() bool { return p.Metric("penstock_model_queue_waiting", `model="ears"`) == n }
			}
			rig.WaitFor(t, rig.WaitTimeout, "the session waits", queued(1))
			c.sendAudio(500)
			if !stays {
				_ = c.ws.CloseNow()
				rig.WaitFor(t, rig.WaitTimeout, "it has left the queue", queued(0))
				rig.WaitFor(t, rig.WaitTimeout, "it has ended", func() bool { return p.Metric("penstock_calls_total", `outcome="client_gone"`) == 1 })
			}
			_ = holder.ws.Close(websocket.StatusNormalClosure, "")
			if stays {
				c.send(`{"type":"input_audio_buffer.commit"}`)
				c.readUntil(completed)
				_ = c.ws.Close(websocket.StatusNormalClosure, "")
			}
			waitNoSessions(t, p)
			p.WaitIdle()
			sessions := map[bool]uint64{true: 2, false: 1}[stays]
			if n := p.Engines[1].Stats().Requests; uint64(n) != sessions {
				t.Errorf("the second engine has had %d sessions, want %d", n, sessions)
			}
		})
	}
}

// TestFault99_RealtimeFailOver checks that another engine takes over if no audio has been sent yet.
// The first engine refuses the session, does not speak the protocol, or dies silently.
func TestFault99_RealtimeFailOver(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"status=503", "status=500", "eof-before", "status-101", "garbage-head", "cut-after=0"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			s := vllm("", sim.Options{Record: true}, sim.Options{Record: true})
			s.Untidy = true
			p := rig.Start(t, s)
			p.Engines[0].SetFault(sim.Fault{Spec: fault, Path: path})
			c := dial(t, p.Edge, "?model=ears")
			c.sendAudio(500)
			c.send(`{"type":"input_audio_buffer.commit"}`)
			c.readUntil(completed)
			_ = c.ws.Close(websocket.StatusNormalClosure, "")
			waitNoSessions(t, p)
			p.WaitIdle()
			if call := p.LastAccessLine(); call.Upstream != "up-1" || call.Attempts != 2 || call.Outcome != "ok" {
				t.Errorf("%+v", call)
			}
		})
	}
	t.Run("dies in silence", func(t *testing.T) {
		t.Parallel()
		s := vllm("", sim.Options{Record: true}, sim.Options{Record: true})
		s.Untidy = true
		p := rig.Start(t, s)
		c := dial(t, p.Edge, "?model=ears")
		p.Engines[0].Unlisten()
		p.Engines[0].DropConns(1, true)
		rig.WaitFor(t, rig.WaitTimeout, "the second engine has the session", func() bool { return p.Engines[1].Stats().Running == 1 })
		c.sendAudio(500)
		c.send(`{"type":"input_audio_buffer.commit"}`)
		c.readUntil(completed)
		_ = c.ws.Close(websocket.StatusNormalClosure, "")
		waitNoSessions(t, p)
	})
}

// TestDrain checks that a drain lets a session continue for the drain time, and then ends the
// session with 1001. A session without a model must end immediately.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := vllm("timeouts: { linger: 0s, drain: 1s, connect: 10s }\n")
	s.Untidy = true
	p := rig.Start(t, s)
	idle, busy := dial(t, p.Edge, ""), dial(t, p.Edge, "?model=ears")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.End()
	}()
	idle.wantClosed(websocket.StatusGoingAway)
	busy.sendAudio(300)
	busy.send(`{"type":"input_audio_buffer.commit"}`)
	busy.readUntil(completed)
	busy.wantError("shutting_down")
	busy.wantClosed(websocket.StatusGoingAway)
	<-ended
	waitNoSessions(t, p)
}

// TestClocks checks that sessions end on time if they are idle or last too long.
func TestClocks(t *testing.T) {
	t.Parallel()
	for clock, reason := range map[string]string{"idle: 1s": "idle", "total: 2s": "duration"} {
		t.Run(clock, func(t *testing.T) {
			t.Parallel()
			p := rig.Start(t, vllm(fmt.Sprintf("timeouts: { linger: 0s, drain: 5s, connect: 10s, %s }\n", clock)))
			c := dial(t, p.Edge, "?model=ears")
			if e := c.wantError("session_expired"); !strings.Contains(e.Error.Message, reason) {
				t.Errorf("%s", e.text)
			}
			c.wantClosed(websocket.StatusNormalClosure)
			waitNoSessions(t, p)
			p.WaitIdle()
			if call := p.LastAccessLine(); call.Outcome != "ok" {
				t.Errorf("%+v", call)
			}
		})
	}
}

// TestTooLarge checks that a message that is too large is rejected before it has been received
// completely.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, vllm("limits: { request_body: 100KB }\n"))
	c := dial(t, p.Edge, "?model=ears")
	c.send(`{"type":"input_audio_buffer.append","audio":"%s"}`, strings.Repeat("A", 200_000))
	c.wantError("request_too_large")
	c.wantClosed(websocket.StatusMessageTooBig)
	waitNoSessions(t, p)
	early := dial(t, p.Edge, "")
	early.send(`{"type":"input_audio_buffer.append","audio":"%s"}`, strings.Repeat("A", 80_000))
	early.wantError("request_too_large")
	early.wantClosed(websocket.StatusMessageTooBig)
}
