package e2e

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
	"penstock/proxy/e2e/rig"
)

const keptConfig = `
timeouts: { linger: 0s, drain: 5s, client_body: 2s, idle: 5s }
stream: { whole_keepalive: 100ms }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "{{up-0}}", engine: sim, concurrency: 8 }]
models:
  - { id: ears, kind: audio-transcription, deployments: [{ upstream: up-0, served: sim }] }
  - { id: voice, kind: audio-speech, deployments: [{ upstream: up-0, served: sim }] }
  - { id: vectors, kind: embedding, deployments: [{ upstream: up-0, served: sim }] }
  - { id: ranks, kind: rerank, deployments: [{ upstream: up-0, served: sim }] }
  - { id: sim, deployments: [{ upstream: up-0 }] }
`

func startKept(t *testing.T) *penstock {
	t.Helper()
	return start(t, rig.Setup{Engines: []sim.Options{{Record: true}}, Config: keptConfig})
}

// keptCases are the endpoints whose unstreamed answers are JSON.
var keptCases = []struct{ path, body string }{
	{"/v1/chat/completions", rig.Chat.RequestBody("sim", "x", "")},
	{"/v1/messages", rig.Messages.RequestBody("sim", "x", "")},
	{"/v1/responses", rig.Responses.RequestBody("sim", "x", "")},
	{"/v1/completions", `{"model":"sim","prompt":"x","max_tokens":4}`},
	{"/v1/embeddings", `{"model":"vectors","input":"x"}`},
	{"/v1/rerank", `{"model":"ranks","query":"x","documents":["a"]}`},
	{"/v1/score", `{"model":"ranks","text_1":"x","text_2":"y"}`},
}

// TestWholeKeepalive checks that white space precedes a slow unstreamed answer, and that the answer
// is otherwise unchanged.
func TestWholeKeepalive(t *testing.T) {
	fastset.SkipIfShort(t, "keep-alives of whole answers")
	t.Parallel()
	p := startKept(t)
	for _, c := range keptCases {
		// A busy machine may take longer.
		rig.WaitFor(t, rig.WaitTimeout, "an answer within 100 ms, without white space", func() bool {
			quick := p.Post(c.path, c.body).WantStatus(200)
			return quick.Body[0] == '{' && quick.Header.Get("Content-Length") != ""
		})
		for _, fault := range []string{"chunked;delay=1s", "stall", "padded=300000;delay=1s"} {
			if fault == "stall" { // the engine stalls in the middle of its reply
				fault = "pause-after=1;for=1s"
			}
			p.Engines[0].SetFault(sim.Fault{Spec: fault})
			r := p.Post(c.path, c.body).WantStatus(200)
			p.Engines[0].SetFault()
			blanks := len(r.Body) - len(strings.TrimLeft(r.Body, " "))
			var got map[string]any
			if err := json.Unmarshal([]byte(r.Body), &got); err != nil || r.Err != nil || blanks < 1 || blanks > 1+int(r.Took/(100*time.Millisecond)) || got["error"] != nil {
				t.Fatalf("%s, %s: %d blanks, %v, %v: %.300s", c.path, fault, blanks, err, r.Err, r.Body)
			}
			if r.Header.Get("Content-Type") != "application/json" || r.Header.Get("X-Request-Id") == "" {
				t.Errorf("%s: head = %v, want JSON and a request id", c.path, r.Header)
			}
			if l := p.LastAccessLine(); l.Status != 200 || l.Outcome != "ok" || l.Stream || l.PromptTokens == 0 {
				t.Errorf("%s, %s: last call = %+v, want ok with 200", c.path, fault, l)
			}
		}
	}
	p.Engines[0].SetFault()
}

// TestWholeKeepalive_Failure checks that an error that follows the white space is sent as JSON in
// the dialect's format.
func TestWholeKeepalive_Failure(t *testing.T) {
	fastset.SkipIfShort(t, "keep-alives of whole answers")
	t.Parallel()
	for _, c := range keptCases {
		for fault, code := range map[string]string{
			"status=400;message=no-such-tool;delay=1s": "rejected_by_engine", "status=500;delay=1s": "upstream_failed",
			"head-cut;delay=1s": "upstream_bad_response", "invalid-json;delay=1s": "upstream_bad_response",
		} {
			p := startKept(t) // a separate edge, because a probe after a failure may receive the next fault
			p.Engines[0].SetFault(sim.Fault{Spec: fault})
			conn := p.Dial()
			_ = conn.Send(p.RequestBytes(c.path, c.body))
			r := conn.ReadReply(http.MethodPost)
			p.Engines[0].SetFault()
			var got struct {
				Type  string
				Error struct{ Message, Type, Code string }
			}
			if err := json.Unmarshal([]byte(r.Body), &got); err != nil || r.Status != 200 || r.Err != nil || r.Body[0] != ' ' || got.Error.Message == "" || got.Error.Code != code {
				t.Errorf("%s, %s: %v, %v; want a blank and the error %s: %.300q", c.path, fault, err, r.Err, code, r.Body)
			}
			if (got.Type == "error") != (c.path == "/v1/messages") {
				t.Errorf("%s: the shape is another dialect's: %s", c.path, r.Body)
			}
			if l := p.LastAccessLine(); l.Status != 200 || l.Outcome == "ok" || l.Outcome == "" || l.Code == "" {
				t.Errorf("%s, %s: last call = %+v, want a failure after 200", c.path, fault, l)
			}
		}
	}
}

// TestWholeKeepalive_Never checks that there is no white space before binary and text answers,
// because it would change them. HTTP/1.0 clients must not receive white space, because HTTP/1.0 has
// no chunks. A failure before the first white space must have an error status.
func TestWholeKeepalive_Never(t *testing.T) {
	t.Parallel()
	p := startKept(t)
	slow := sim.Fault{Spec: "chunked;delay=400ms"}
	p.Engines[0].SetFault(slow)
	if r := p.Post("/v1/audio/speech", `{"model":"voice","input":"x"}`).WantStatus(200); strings.HasPrefix(r.Body, " ") {
		t.Errorf("white space before sound: %.40q", r.Body)
	}
	for format, kept := range map[string]bool{"text": false, "srt": false, "json": true, "verbose_json": true} {
		body := "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nears\r\n--b\r\nContent-Disposition: form-data; name=\"response_format\"\r\n\r\n" + format +
			"\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nxyz\r\n--b--\r\n"
		if kept {
			// Much longer than the interval of the white space, even on a busy machine.
			p.Engines[0].SetFault(sim.Fault{Spec: "chunked;delay=2s"})
		} else {
			p.Engines[0].SetFault(slow)
		}
		r := p.Post("/v1/audio/transcriptions", body, "Content-Type: multipart/form-data; boundary=b").WantStatus(200)
		if strings.HasPrefix(r.Body, " ") != kept {
			t.Errorf("format %s: answer = %.40q, want a blank first: %v", format, r.Body, kept)
		}
	}
	p.Engines[0].SetFault(slow)
	body := keptCases[0].body
	c := p.Dial()
	_ = c.Send("POST /v1/chat/completions HTTP/1.0\r\nHost: x\r\nAuthorization: Bearer " + p.Key + "\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	if r := c.ReadReply(http.MethodPost); r.Status != 200 || r.Body[0] != '{' {
		t.Errorf("answer to HTTP/1.0 = %d %.40q, want 200 without a blank", r.Status, r.Body)
	}
	// The interval of this edge is much longer than the time until the failure, even on a busy
	// machine.
	quick := start(t, rig.Setup{Config: strings.Replace(keptConfig, "whole_keepalive: 100ms", "whole_keepalive: 30s", 1)})
	quick.Engines[0].SetFault(sim.Fault{Spec: "status=500"})
	quick.Post(keptCases[0].path, body).WantError(502, "api_error", "upstream_failed")
	quick.Engines[0].SetFault()
}

// TestWholeKeepalive_Ends checks that the engine stops working if the client disconnects after the
// white space, and that a connected client receives the error of a drain.
func TestWholeKeepalive_Ends(t *testing.T) {
	t.Parallel()
	p := startKept(t)
	p.Engines[0].SetFault(sim.Fault{Spec: "blackhole"})
	c := p.Dial()
	_ = c.Send(p.RequestBytes(keptCases[0].path, keptCases[0].body))
	first := make([]byte, 1)
	if _, err := c.Read(first); err != nil {
		t.Fatal(err)
	}
	c.Reset()
	rig.WaitFor(t, rig.WaitTimeout, "the engine is told", func() bool { return p.Engines[0].Stats().Aborted == 1 })
	rig.WaitFor(t, rig.WaitTimeout, "the call has ended", func() bool { return p.LastAccessLine().Outcome == "client_gone" })
	p.Engines[0].SetFault()
	start := time.Now()
	p.Post(keptCases[0].path, keptCases[0].body).WantStatus(200)
	if d := time.Since(start); d > rig.WaitTimeout {
		t.Errorf("the call took %v, want at most %v", d, rig.WaitTimeout)
	}
}
