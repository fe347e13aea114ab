package faults

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/config/testkit/raced"
	"penstock/proxy/e2e/rig"
)

// These tests cover row 87 for bytes from engines: memory for them is limited, as it is for bytes
// from clients.

// others contains models whose answers the edge passes on unchanged.
const others = "- { id: vectors, kind: embedding, deployments: [{ upstream: up-0, served: sim }] }"

// memoryLimitEnv sets a memory limit of 4 GiB. 1 % of it is 41 MiB.
var memoryLimitEnv = []string{"env", "GOMEMLIMIT=4GiB"}

var replyMemory = rig.Refusal{Status: 503, Kind: "api_error", Code: "no_reply_memory", After: ""}

// wantPeak checks the peak memory, except under the race detector, which multiplies memory use.
func (e *edge) wantPeak(limit int64) {
	if !raced.Enabled {
		e.WantPeakMemory(limit)
	}
}

// TestFault87_ReplyMemory checks the memory for forty small requests that each make an engine send
// 32 MiB.
func TestFault87_ReplyMemory(t *testing.T) {
	for _, w := range rig.UnstreamedRequestTypes {
		t.Run(w.String(), func(t *testing.T) {
			e := start(t, rig.Setup{Engines: []sim.Options{{Slots: 64}}, Upstream: "concurrency: 64", Limits: "reply_memory: 1%", Under: memoryLimitEnv})
			e.fault("padded=33554432")
			var calls sync.WaitGroup
			for range 40 {
				calls.Go(func() {
					if r := e.SendRequest(w, ""); r.Status != 200 {
						r.WantRefused(w, replyMemory)
						if r.Header.Get("Retry-After") == "" {
							t.Error("a refusal without Retry-After")
						}
					}
				})
			}
			calls.Wait()
			e.wantPeak(120 << 20)
			if n := e.Metric("penstock_errors_total", `code="no_reply_memory"`); n < 35 {
				t.Errorf("%v refusals, want nearly all", n)
			}
			if n := e.Metric("penstock_upstream_attempts_total", `result="bad_response"`) + e.Metric("penstock_upstream_attempts_total", `result="timeout"`); n != 0 {
				t.Errorf("%v attempts count against the engine", n)
			}
			e.fault("padded=1000000") // in total, these answers nearly reach the memory limit
			e.SendRequest(w, "").VisibleText(w)
			e.Engines[0].SetFault()
			e.SendRequest(w, "").VisibleText(w)
			rig.WaitFor(t, rig.WaitTimeout, "memory is given back", func() bool { return e.Metric("penstock_reply_memory_bytes") == 0 })
		})
	}
}

// TestFault87_ReplyAnnounced checks that an announced length reserves no memory. An answer that
// never arrives must use none.
func TestFault87_ReplyAnnounced(t *testing.T) {
	f := startFakeEngine(t, func(c *fakeCall) {
		c.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 33554432\r\n\r\n{\"id\":\"x\",")
		c.waitClosed()
	})
	e := start(t, rig.Setup{Fakes: []string{f.url}, Limits: "reply_memory: 1%", Timeouts: "idle: 1s", Under: memoryLimitEnv, Untidy: true})
	var calls sync.WaitGroup
	for range 40 {
		calls.Go(func() { e.SendRequest(rig.Chat, "").WantStatus(504) })
	}
	calls.Wait()
	e.wantPeak(64 << 20)
}

// TestFault87_StreamEnd checks a Responses stream, which repeats its complete text at the end. If
// there is no memory for the text, the stream must end with a failure that the client can see.
func TestFault87_StreamEnd(t *testing.T) {
	piece := "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"model\":\"sim\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" +
		strings.Repeat("a", 60_000) + "\"},\"finish_reason\":null}]}\n\n"
	f := startFakeEngine(t, func(c *fakeCall) {
		c.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
		for range 200 {
			c.send(piece)
		}
		c.send("data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		c.Close()
	})
	e := start(t, rig.Setup{Fakes: []string{f.url}, Limits: "reply_memory: 1%", Under: memoryLimitEnv, Untidy: true})
	r := e.Post("/v1/responses", `{"model":"sim","input":"a","stream":true}`)
	if !strings.Contains(r.Body, "event: response.failed") && !strings.Contains(r.Body, `"type":"response.failed"`) || !strings.HasSuffix(r.Body, "data: [DONE]\n\n") {
		t.Errorf("the stream ends with %.300q", r.Body[max(0, len(r.Body)-300):])
	}
	if n := e.Metric("penstock_stream_aborts_total", `code="no_reply_memory"`); n != 1 {
		t.Errorf("%v streams count as broken for it", n)
	}
}

// TestFault87_ErrorBodies checks that engines' error bodies are read up to a limit, and that the
// part read is parsed.
func TestFault87_ErrorBodies(t *testing.T) {
	e := start(t, rig.Setup{Engines: []sim.Options{{Slots: 64}}, Upstream: "concurrency: 64", Limits: "reply_memory: 1%", Under: memoryLimitEnv})
	e.fault("status=400;message=no-such-tool+padded=8388608;at=end")
	var calls sync.WaitGroup
	clients := 40
	const errorReadTimeout = 5 * time.Second // after that, the edge answers without the engine's message
	if raced.Enabled {                       // error bodies for more clients would arrive too late
		clients = 6
	}
	for i := range clients {
		calls.Go(func() {
			w := rig.UnstreamedRequestTypes[i%3]
			r := e.SendRequest(w, "")
			if message := r.WantRefused(w, rig.RefusalByEngine).Message; r.Took < errorReadTimeout && !strings.Contains(message, "no-such-tool") {
				t.Errorf("answer = %.300s, want no-such-tool", r.Body)
			}
		})
	}
	calls.Wait()
	e.wantPeak(80 << 20)
}

// TestFault87_RepliesNotRead checks that answers for clients that do not read use no more memory
// than the limit, and that the engines have to wait until the clients read.
func TestFault87_RepliesNotRead(t *testing.T) {
	for path, body := range map[string]string{
		rig.Chat.Path:      rig.Chat.RequestBody("sim", "x", ""),
		rig.Responses.Path: rig.Responses.RequestBody("sim", "x", ""),
		"/v1/embeddings":   `{"model":"vectors","input":"x"}`,
	} {
		t.Run(path, func(t *testing.T) {
			e := start(t, rig.Setup{Engines: []sim.Options{{Slots: 64}}, Upstream: "concurrency: 64", Models: others, Under: []string{"env", "GOMEMLIMIT=400MiB"}})
			e.fault("padded=31457280")
			before := e.Metric("penstock_calls_total")
			clients := make([]*rig.RawConn, 48)
			for i := range clients {
				clients[i] = e.Dial()
				_ = clients[i].Send(e.RequestBytes(path, body))
			}
			rig.WaitFor(t, rig.WaitTimeout, "every call is under way or refused", func() bool {
				return e.Metric("penstock_calls_inflight")+e.Metric("penstock_calls_total")-before >= 48
			})
			time.Sleep(time.Second)
			e.wantPeak(160 << 20)
			for _, c := range clients {
				c.Reset()
			}
			rig.WaitFor(t, rig.WaitTimeout, "memory is given back", func() bool { return e.Metric("penstock_reply_memory_bytes") == 0 })
		})
	}
}

// TestFault87_StreamEvents checks that large stream events and assembled texts count against the
// reply memory. If there is no memory for a call, it must receive an error in the stream or, if no
// bytes have been sent, an error status.
func TestFault87_StreamEvents(t *testing.T) {
	forEachRequestType(t, rig.StreamRequestTypes, rig.Setup{Engines: []sim.Options{{Slots: 64}}, Upstream: "concurrency: 64", Limits: "reply_memory: 1%", Under: []string{"env", "GOMEMLIMIT=400MiB"}}, func(e *edge, w rig.RequestType) {
		e.fault("huge-event=6000000;at=3")
		e.SendRequest(w, "").WantBrokenStream(w, "no_reply_memory")
		e.fault("huge-event=6000000;at=0")
		r := e.SendRequest(w, "")
		if r.Status == 200 { // the head of the stream has been sent
			r.WantBrokenStream(w, "no_reply_memory")
		} else {
			r.WantRefused(w, replyMemory)
		}
		e.fault("huge-event=300000;at=3")
		e.SendRequest(w, "").VisibleText(w)
		if n := e.Metric("penstock_upstream_attempts_total", `result="bad_response"`); n != 0 {
			t.Errorf("%v attempts count against the engine", n)
		}
		e.wantPeak(100 << 20)
	})
}

// TestFault87_PassedOn checks that a large answer that the edge only passes on needs no reply
// memory and is complete.
func TestFault87_PassedOn(t *testing.T) {
	e := start(t, rig.Setup{Limits: "reply_memory: 0.001%", Models: others, Under: memoryLimitEnv})
	for _, fault := range []string{"padded=20000000", "chunked+padded=20000000;at=end", "padded=100000"} {
		e.fault(fault)
		r := e.Post("/v1/embeddings", `{"model":"vectors","input":["a","b"]}`).WantStatus(200)
		var got struct {
			Model   string
			Data    []struct{ Embedding []float64 }
			Padding string
			Usage   struct {
				Prompt int `json:"prompt_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(r.Body), &got); err != nil || r.Err != nil || got.Model != "vectors" || len(got.Data) != 2 || len(got.Padding) < 90_000 {
			t.Errorf("%s: %v, %v, model %q; want two vectors of the model vectors", fault, err, r.Err, got.Model)
		}
		if l := e.LastAccessLine(); l.Status != 200 || l.Outcome != "ok" || l.PromptTokens != got.Usage.Prompt || l.PromptTokens == 0 || l.TokensEstimated {
			t.Errorf("%s: the log says %+v", fault, l)
		}
	}
	e.wantPeak(64 << 20)
	e.fault("short-body=5000+padded=200000")
	r := e.Post("/v1/embeddings", `{"model":"vectors","input":"a"}`)
	if r.Status != 200 || r.Err == nil {
		t.Errorf("an answer that broke off looks whole: %d, %v", r.Status, r.Err)
	}
	if l := e.LastAccessLine(); l.Outcome != "stream_broken" {
		t.Errorf("the log says %+v", l)
	}
	e.Engines[0].SetFault()
	// A client that cannot distinguish a broken answer from a complete answer receives a buffered
	// answer if there is enough memory.
	c := e.Dial()
	body := `{"model":"vectors","input":"a"}`
	old := func() string {
		return "POST /v1/embeddings HTTP/1.0\r\nHost: x\r\nAuthorization: Bearer " + e.Key + "\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	e.fault("padded=200000")
	_ = c.Send(old())
	if r := c.ReadReply(http.MethodPost); r.Status != 503 {
		t.Errorf("HTTP/1.0 without memory: %d", r.Status)
	}
}
