package e2e

import (
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// minAnswerBytes is smaller than the answers, and larger than the sockets' buffers.
const minAnswerBytes = 3_000_000

// deliver sends a call with a large unstreamed answer over a connection from which the client does
// not read. It waits until the engine has answered.
func deliver(t *testing.T, s rig.Setup) (*penstock, *rig.RawConn) {
	s.Engines = []sim.Options{{MaxModelLen: 2 << 20}}
	s.Upstream = rig.QuietProbes
	p := start(t, s)
	c := p.slowReader()
	_ = c.Send(p.RequestBytes(rig.Responses.Path, rig.Responses.RequestBody("sim", rig.Prompt, `"tokens":1000000`)))
	rig.WaitFor(t, rig.WaitTimeout, "the answer is delivered", func() bool {
		s := p.Engines[0].Stats()
		return s.Requests == 1 && s.Running == 0 && (p.Status().CountCalls("streaming") == 1 || p.Metric("penstock_client_aborts_total") > 0)
	})
	return p, c
}

// TestCutDelivery checks that an unstreamed answer whose client disconnects or stops reading is
// logged like a broken stream, with the number of bytes written.
func TestCutDelivery(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		timeouts, phase string
		leave           func(*rig.RawConn)
	}{
		"reset":         {"", "streaming", func(c *rig.RawConn) { c.Reset() }},
		"stops reading": {"write: 500ms", "stalled", func(*rig.RawConn) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, c := deliver(t, rig.Setup{Timeouts: row.timeouts})
			row.leave(c)
			rig.WaitFor(t, rig.WaitTimeout, "the abort is counted", func() bool {
				return p.Metric("penstock_client_aborts_total", `phase="`+row.phase+`"`) == 1
			})
			if l := p.LastAccessLine(); l.Outcome != "client_gone" || l.Status != 499 || l.BytesOut == 0 || l.BytesOut >= minAnswerBytes {
				t.Errorf("the log says %+v", l)
			}
			rig.WaitFor(t, rig.WaitTimeout, "memory is given back", func() bool { return p.Metric("penstock_reply_memory_bytes") == 0 })
		})
	}
}

// TestDrainDelivers checks that a drain waits for an unstreamed answer that is still being sent.
func TestDrainDelivers(t *testing.T) {
	t.Parallel()
	p, c := deliver(t, rig.Setup{Untidy: true, Timeouts: "linger: 0s, drain: 60s"})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.End()
	}()
	rig.WaitFor(t, rig.WaitTimeout, "the edge drains", func() bool { return strings.Contains(p.Log.String(), `"draining"`) })
	if !strings.Contains(p.Log.String(), `"msg":"draining","calls":1`) {
		t.Errorf("the log says %s", p.Log.String())
	}
	if r := c.ReadReply("POST").WantStatus(200); r.Err != nil || len(r.Body) < minAnswerBytes {
		t.Errorf("%d bytes, %v; want %d or more", len(r.Body), r.Err, minAnswerBytes)
	}
	<-ended
	if l := p.AccessLines(); len(l) != 1 || l[0].Outcome != "ok" || l[0].BytesOut < minAnswerBytes {
		t.Errorf("the log says %+v", l)
	}
}
