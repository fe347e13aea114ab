package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests check uploads that are buffered, streamed, retried, refused early, or abandoned.

// TestTranscriptions_LeaseAfterWindow checks that a call acquires a lease only once the upload has
// filled the window or the body has ended.
func TestTranscriptions_LeaseAfterWindow(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	c := p.Dial()
	body, contentType := form(text("model", "ears"), wav(strings.Repeat("x", 400<<10)))
	_ = c.Send(p.RequestHead("POST", transcriptions, contentType, fmt.Sprintf("Content-Length: %d", len(body))))
	inflight := func() float64 { return p.Metric("penstock_upstream_inflight", `pool="audio"`) }
	_ = c.Send(body[:200<<10])
	rig.WaitFor(t, rig.WaitTimeout, "the call is there", func() bool { return p.Metric("penstock_calls_inflight") == 1 })
	time.Sleep(20 * time.Millisecond)
	if n := inflight(); n != 0 {
		t.Fatalf("%v slots are held for a client that has sent little", n)
	}
	_ = c.Send(body[200<<10 : 300<<10])
	rig.WaitFor(t, rig.WaitTimeout, "the slot is taken", func() bool { return inflight() == 1 })
	_ = c.Send(body[300<<10:])
	c.ReadReply("POST").WantStatus(200)
}

func TestTranscriptions_Memory(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Config: strings.Replace(audioConfig, "timeouts:", "limits: { body_memory: 0.1%, upload_body: 4MiB }\ntimeouts:", 1)})
	file := strings.Repeat("x", 3<<20)
	p.upload(transcriptions, text("model", "ears"), wav(file)).WantStatus(200)
	p.upload(transcriptions, wav(file), text("model", "ears")).WantError(503, "api_error", "no_body_memory")
	p.upload(transcriptions, wav(file[:500<<10]), text("model", "ears")).WantStatus(200)
	p.upload(transcriptions, text("model", "ears"), wav(file+file)).WantError(413, "request_too_large", "request_too_large")

	body, contentType := form(text("model", "ears"), wav(file+file))
	c := p.Dial()
	_ = c.Send(p.RequestHead("POST", transcriptions, contentType, "Transfer-Encoding: chunked"))
	for i := 0; i < len(body); i += 1 << 20 {
		piece := body[i:min(len(body), i+1<<20)]
		_ = c.Sendf("%x\r\n%s\r\n", len(piece), piece)
	}
	c.ReadReply("POST").WantError(413, "request_too_large", "request_too_large")
}

func TestTranscriptions_SlowClient(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Config: strings.Replace(audioConfig, "client_body: 20s", "client_body: 1s", 1)})
	// the engine fails while the edge still buffers the upload, or while the edge streams it
	for _, sent := range []int{100, 300 << 10} {
		c := p.Dial()
		body, contentType := form(text("model", "ears"), wav(strings.Repeat("x", 400<<10)))
		_ = c.Send(p.RequestHead("POST", transcriptions, contentType, fmt.Sprintf("Content-Length: %d", len(body))) + body[:sent])
		c.ReadReply("POST").WantError(408, "invalid_request_error", "request_timeout")
		if _, ok := c.WaitClosed(rig.WaitTimeout); !ok {
			t.Error("the connection stays open")
		}
	}
}

// TestTranscriptions_Retry checks that a call moves to another engine only if the first engine
// fails while the edge still has all bytes of the upload.
func TestTranscriptions_Retry(t *testing.T) {
	t.Parallel()
	small, large := wav("x"), wav(strings.Repeat("x", 2<<20))
	for _, c := range []struct {
		fault  string
		file   formPart
		status int
	}{
		{"status=503", small, 200},
		{"reset-before", small, 200},
		{"status=500", small, 200},
		{"status=503", large, 503},
		{"reset-before", large, 502},
	} {
		p := twoEngines(t, "")
		p.Engines[0].SetFault(sim.Fault{Spec: c.fault})
		r := p.upload(transcriptions, text("model", "ears"), c.file).WantStatus(c.status)
		if c.status == 200 {
			if got := receivedForm(t, p.Engines[1].Stats().LastRequest); fmt.Sprint(got["model"], got["file"]) != "[sim] [x]" {
				t.Errorf("%s: the second engine got %v", c.fault, got)
			}
		}
		if l := p.LastAccessLine(); c.status == 200 && l.Attempts != 2 || c.status != 200 && l.Attempts != 1 {
			t.Errorf("%s: %d attempts for status %d, want 2 if it is 200, else 1: %s", c.fault, l.Attempts, c.status, r.Body)
		}
	}
}

// TestTranscriptions_RetryOfLarge checks that a failed connection attempt does not consume bytes of
// the upload.
func TestTranscriptions_RetryOfLarge(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: []sim.Options{{}, {}}, Config: `
timeouts: { linger: 0s, drain: 5s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams:
  - { name: up-0, url: "{{up-0}}", engine: sim, weight: 1000, concurrency: 100, probe: { interval: 1h } }
  - { name: up-1, url: "{{up-1}}", engine: sim }
models: [{ id: ears, kind: audio-transcription, deployments: [{ upstream: up-0, served: sim }, { upstream: up-1, served: sim }] }]
`})
	p.Engines[0].Unlisten()
	p.upload(transcriptions, text("model", "ears"), wav(strings.Repeat("x", 2<<20))).WantStatus(200)
	if p.Metric("penstock_upstream_attempts_total", `upstream="up-0"`, `result="unreachable"`) != 1 {
		t.Error("the first engine was not tried")
	}
}

// TestTranscriptions_EarlyAnswer checks that the engine can reject an upload before it has received
// all of it, and that the engine's error is passed on.
func TestTranscriptions_EarlyAnswer(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	p.Engines[0].SetFault(sim.Fault{Spec: "early-413;linger=1"})
	p.upload(transcriptions, text("model", "ears"), wav(strings.Repeat("x", 8<<20))).WantError(413, "request_too_large", "request_too_large")
}

func TestTranscriptions_ClientLeaves(t *testing.T) {
	t.Parallel()
	for _, how := range disconnects {
		for _, phase := range []string{"uploading", "waiting"} {
			t.Run(how.name+" "+phase, func(t *testing.T) {
				t.Parallel()
				p := startAudio(t, sim.Options{Latency: time.Minute})
				c := p.Dial()
				body, contentType := form(text("model", "ears"), wav(strings.Repeat("x", 600<<10)))
				sent := len(body)
				if phase == "uploading" {
					sent = 400 << 10
				}
				_ = c.Send(p.RequestHead("POST", transcriptions, contentType, fmt.Sprintf("Content-Length: %d", len(body))) + body[:sent])
				rig.WaitFor(t, rig.WaitTimeout, "the slot is taken", func() bool {
					return p.Metric("penstock_upstream_inflight", `pool="audio"`) == 1 && (phase == "uploading" || p.Engines[0].Stats().Running == 1)
				})
				how.do(c)
				rig.WaitFor(t, freedWithin, "the slot is free", func() bool {
					return p.Metric("penstock_upstream_inflight") == 0 && p.Engines[0].Stats().Running == 0
				})
				if l := p.LastAccessLine(); l.Outcome != "client_gone" {
					t.Errorf("last call = %+v, want client_gone", l)
				}
			})
		}
	}
}
