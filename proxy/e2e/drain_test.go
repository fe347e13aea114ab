package e2e

import (
	"strings"
	"syscall"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// TestDrainCode: a call that a drain ends is told so in a code of its own, in the closed set of its dialect's events: an engine that
// has failed is something else, to clients and on dashboards.
func TestDrainCode(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Untidy: true, Timeouts: "linger: 0s, drain: 200ms"})
	type running struct {
		way  rig.Way
		s    *rig.Stream
		want []string
	}
	var streams []running
	for _, w := range []struct {
		way  rig.Way
		want []string
	}{
		{rig.ChatStream, []string{`"code":"shutting_down"`, `"type":"api_error"`}},
		{rig.MessagesStream, []string{`"type":"overloaded_error"`}},
		{rig.ResponsesStream, []string{`"code":"server_error"`}},
	} {
		s := p.OpenStream(w.way.Path, w.way.Body("sim", rig.Prompt, `"tokens":100000,"delay_ms":20`))
		s.Next()
		streams = append(streams, running{w.way, s, w.want})
	}
	whole := map[rig.Way]chan *rig.Reply{rig.Chat: make(chan *rig.Reply, 1), rig.Messages: make(chan *rig.Reply, 1), rig.Responses: make(chan *rig.Reply, 1)}
	for w, reply := range whole {
		go func() { reply <- p.Post(w.Path, w.Body("sim", rig.Prompt, `"tokens":100000,"delay_ms":20`)) }()
	}
	rig.WaitFor(t, rig.Patience, "all calls run", func() bool { return p.Engines[0].Stats().Running == 6 })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.End()
	}()
	for _, r := range streams {
		var all strings.Builder
		for ev, ok := r.s.Next(); ok; ev, ok = r.s.Next() {
			all.WriteString(ev.Data + "\n")
		}
		text := all.String()
		for _, want := range append(r.want, "shutting down") {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %s in the end of %.2000s", r.way, want, text[max(0, len(text)-1000):])
			}
		}
		if strings.Contains(text, "no_healthy_route") {
			t.Errorf("%s: the engines are told to be at fault", r.way)
		}
	}
	(<-whole[rig.Chat]).WantError(503, "api_error", "shutting_down")
	(<-whole[rig.Responses]).WantError(503, "api_error", "shutting_down")
	if r := (<-whole[rig.Messages]).WantStatus(529); !strings.Contains(r.Body, "shutting down") || r.Header.Get("Retry-After") == "" {
		t.Errorf("messages: %s", r.Body)
	}
	<-ended
	for _, l := range p.Calls() {
		if l.Outcome != "drained" || l.Code != "shutting_down" {
			t.Errorf("the log tells of a call that ended as %s, %s", l.Outcome, l.Code)
		}
	}
	if n := len(p.Calls()); n != 6 {
		t.Errorf("the log tells of %d calls", n)
	}
}

// TestSecondSignalAtRest: who is in a hurry and cuts nobody off has had an orderly end, and is not told of calls.
func TestSecondSignalAtRest(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		path, key := writeConfig(t, rig.StartEngine(t, sim.Options{}), "linger: 60s, drain: 60s")
		p := rig.StartProcess(t, "serve", "-c", path)
		e := &rig.Edge{T: t, Addr: p.Says(`serving http://(\S+)/v1`)[1], Key: key}
		kept := e.Dial() // an idle connection is no call
		_ = kept.Send(e.Request(chatPath, rig.ChatBody("sim", "")))
		kept.Reply("POST")
		p.Signal(syscall.SIGTERM)
		rig.WaitFor(t, rig.Patience, "it drains", func() bool { return strings.Contains(p.Err.String(), `"draining"`) })
		p.Signal(sig)
		p.Exits(rig.Patience, 0)
		if text := p.Err.String(); strings.Contains(text, "calls were running") || strings.Contains(text, "second signal") || strings.Contains(text, "drain time is over") {
			t.Errorf("%v: it speaks of calls:\n%s", sig, text)
		}
	}
}
