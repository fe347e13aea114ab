package e2e

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// TestDrainCode checks that calls ended by a drain receive a special error code, so that clients
// and dashboards can distinguish them from engine failures.
func TestDrainCode(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Untidy: true, Timeouts: "linger: 0s, drain: 200ms"})
	type running struct {
		way  rig.RequestType
		s    *rig.Stream
		want []string
	}
	var streams []running
	for _, w := range []struct {
		way  rig.RequestType
		want []string
	}{
		{rig.ChatStream, []string{`"code":"shutting_down"`, `"type":"api_error"`}},
		{rig.MessagesStream, []string{`"type":"overloaded_error"`}},
		{rig.ResponsesStream, []string{`"code":"server_error"`}},
	} {
		s := p.OpenStream(w.way.Path, w.way.RequestBody("sim", rig.Prompt, `"tokens":100000,"delay_ms":20`))
		s.Next()
		streams = append(streams, running{w.way, s, w.want})
	}
	whole := map[rig.RequestType]chan *rig.Reply{rig.Chat: make(chan *rig.Reply, 1), rig.Messages: make(chan *rig.Reply, 1), rig.Responses: make(chan *rig.Reply, 1)}
	for w, reply := range whole {
		go func() { reply <- p.Post(w.Path, w.RequestBody("sim", rig.Prompt, `"tokens":100000,"delay_ms":20`)) }()
	}
	rig.WaitFor(t, rig.WaitTimeout, "all calls run", func() bool { return p.Engines[0].Stats().Running == 6 })
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
	reply := func(w rig.RequestType) *rig.Reply {
		return rig.Receive(t, rig.WaitTimeout, "the plain answer", whole[w])
	}
	reply(rig.Chat).WantError(503, "api_error", "shutting_down")
	reply(rig.Responses).WantError(503, "api_error", "shutting_down")
	if r := reply(rig.Messages).WantStatus(529); !strings.Contains(r.Body, "shutting down") || r.Header.Get("Retry-After") == "" {
		t.Errorf("messages: %s", r.Body)
	}
	<-ended
	for _, l := range p.AccessLines() {
		if l.Outcome != "drained" || l.Code != "shutting_down" {
			t.Errorf("the log tells of a call that ended as %s, %s", l.Outcome, l.Code)
		}
	}
	if n := len(p.AccessLines()); n != 6 {
		t.Errorf("the log tells of %d calls", n)
	}
}

// allowBalancer changes a configuration so that a load balancer on another machine can route to the
// edge.
func allowBalancer(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	open := strings.Replace(string(text), "\nlisten: 127.0.0.1:0", "\nlisten: 0.0.0.0:0", 1)
	if err := os.WriteFile(path, []byte(open), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSignalAtRest checks that an edge that other machines can reach lingers after SIGTERM, and
// that a second signal ends the lingering. On loopback, the edge must exit immediately, because
// there is no load balancer.
func TestSignalAtRest(t *testing.T) {
	t.Parallel()
	const lingering = `"msg":"lingering: calls are accepted until balancers notice (timeouts.linger)","linger":"1m0s"`
	for _, row := range []struct {
		name          string
		first, second syscall.Signal
	}{
		{"SIGTERM twice", syscall.SIGTERM, syscall.SIGTERM},
		{"SIGTERM, SIGINT", syscall.SIGTERM, syscall.SIGINT},
		{"no terminal", syscall.SIGINT, syscall.SIGTERM},
		{"loopback", syscall.SIGTERM, 0},
		{"loopback by SIGINT", syscall.SIGINT, 0},
	} {
		path, key := writeConfig(t, rig.StartEngine(t, sim.Options{}), "linger: 60s, drain: 60s")
		if row.second != 0 {
			allowBalancer(t, path)
		}
		p := rig.StartProcess(t, "serve", "-c", path)
		port := p.WaitOutput(`serving http://\S+:(\d+)/v1`)[1]
		e := &rig.Edge{T: t, Addr: "127.0.0.1:" + port, Key: key}
		kept := e.Dial() // an idle connection is not a call
		_ = kept.Send(e.RequestBytes(chatPath, rig.ChatBody("sim", "")))
		kept.ReadReply("POST")
		p.Signal(row.first)
		if row.second != 0 {
			rig.WaitFor(t, rig.WaitTimeout, "it lingers", func() bool { return strings.Contains(p.Err.String(), lingering) })
			p.Signal(row.second)
		}
		p.WantExit(rig.WaitTimeout, 0)
		text := p.Err.String()
		for _, wrong := range []string{"calls were running", "second signal", "drain time is over"} {
			if strings.Contains(text, wrong) {
				t.Errorf("%s: the log has %q:\n%s", row.name, wrong, text)
			}
		}
		if row.second == 0 && strings.Contains(text, "lingering") {
			t.Errorf("%s: it lingers:\n%s", row.name, text)
		}
	}
}
