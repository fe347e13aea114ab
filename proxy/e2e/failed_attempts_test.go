package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// failedAttempt is a failed attempt in a call's access line and on the status page.
type failedAttempt struct {
	Upstream     string `json:"upstream"`
	Cause        string `json:"cause"`
	EngineStatus int    `json:"engine_status"`
}

// callLine contains the fields of an access line that describe a failure.
type callLine struct {
	RequestID      string          `json:"request_id"`
	Message        string          `json:"msg"`
	Outcome        string          `json:"outcome"`
	Cause          string          `json:"cause"`
	EngineStatus   int             `json:"engine_status"`
	FailedAttempts []failedAttempt `json:"failed_attempts"`
}

func lastCallLine(p *rig.LocalEdge) (last callLine) {
	p.LastAccessLine() // waits until every call has its line
	for line := range strings.Lines(p.Log.String()) {
		var c callLine
		if err := json.Unmarshal([]byte(line), &c); err == nil && c.Message == "call" {
			last = c
		}
	}
	return last
}

// TestFailedAttempts checks that the access line, the call's page, the status and the metrics show
// the same reason for each engine failure.
func TestFailedAttempts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault, cause string
		status       int
		stream       bool
	}{
		{"status=500", "status", 500, false},
		{"status=500", "status", 500, true},
		{"status=504", "status", 504, false},
		{"status=418", "status", 418, false},
		{"status=429;retry-after=4", "refused", 429, false},
		{"status=401", "credential", 401, false},
		{"status=400", "rejected", 400, false},
		{"eof-before", "closed_before_answer", 0, false},
		{"reset-before", "reset", 0, true},
		{"head-cut", "truncated", 0, false},
		{"html-200", "content_type", 200, true},
		{"invalid-json", "bad_answer", 200, false},
		{"no-finish", "unfinished", 200, true},
		{"cut-after=3", "truncated", 200, true},
		{"error-first", "error_event", 200, true},
		{"error-in-stream=2", "error_event", 200, true},
	} {
		t.Run(fmt.Sprintf("%s, stream %v", c.fault, c.stream), func(t *testing.T) {
			t.Parallel()
			p := rig.Start(t, rig.Setup{Upstream: rig.QuietProbes})
			failNewConns(p.Engines[0], c.fault)
			p.Post(chatPath, p.ChatRequest(fmt.Sprintf(`"stream":%v`, c.stream)))
			l := lastCallLine(p)
			want := failedAttempt{"up-0", c.cause, c.status}
			if l.Cause != c.cause || l.EngineStatus != c.status || len(l.FailedAttempts) == 0 || l.FailedAttempts[0] != want {
				t.Fatalf("the access line says %+v, want %+v", l, want)
			}
			var state struct {
				Calls []struct {
					FailedAttempts []failedAttempt `json:"failed_attempts"`
				}
			}
			if err := json.Unmarshal([]byte(p.Fetch("GET", p.Admin+"/status").WantStatus(200).Body), &state); err != nil {
				t.Fatal(err)
			}
			if len(state.Calls) != 1 || len(state.Calls[0].FailedAttempts) == 0 || state.Calls[0].FailedAttempts[0] != want {
				t.Errorf("the status says %+v, want %+v", state.Calls, want)
			}
			shown := "failed: <b>" + c.cause
			const forgotten, told = "req_0123456789abcdefghjkmnpqrs", `"message":"The call is not remembered.`
			for _, r := range []struct{ id, accept, want string }{
				{forgotten, "text/html", "journalctl -u penstock | grep " + forgotten},
				{forgotten, "application/json", told},
				{"req_$(reboot)", "text/html", told}, // a link must not put text into an operator's shell
			} {
				if gone := p.Fetch("GET", p.Admin+"/call/"+r.id, "Accept: "+r.accept).WantStatus(404).Body; !strings.Contains(gone, r.want) {
					t.Errorf("forgotten %s, as %s: %s", r.id, r.accept, gone)
				}
			}
			if page := p.Fetch("GET", p.Admin+"/call/"+l.RequestID, "Accept: text/html").WantStatus(200).Body; !strings.Contains(page, shown) {
				t.Errorf("the call's page lacks %q", shown)
			}
			status := `status="-"`
			if c.status != 0 {
				status = fmt.Sprintf(`status="%d"`, c.status)
			}
			if n := p.Metric("penstock_upstream_failures_total", `upstream="up-0"`, fmt.Sprintf(`cause=%q`, c.cause), status); n < 1 {
				t.Errorf("the metrics count %v of it", n)
			}
		})
	}
}

// TestFailedAttempts_AnsweredElsewhere checks that a call's access line contains the failed attempt
// even if another engine answered the call.
func TestFailedAttempts_AnsweredElsewhere(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes, Model: "policy: round_robin"})
	p.Engines[0].SetFault(sim.Fault{Spec: "status=502"})
	for range 2 { // round robin, so one of the two calls reaches the failing engine
		p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
		if l := lastCallLine(p); len(l.FailedAttempts) > 0 {
			if want := (failedAttempt{"up-0", "status", 502}); l.Outcome != "ok" || l.Cause != "" || l.EngineStatus != 0 || l.FailedAttempts[0] != want {
				t.Errorf("the access line says %+v", l)
			}
			return
		}
	}
	t.Error("no access line has the attempt that failed")
}
