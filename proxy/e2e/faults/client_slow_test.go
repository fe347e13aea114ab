package faults

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Rows 38 to 40: clients that do not send, or hardly.

// tooLate is the refusal of a client that sends too slowly.
var tooLate = refusal{408, "invalid_request_error", "request_timeout", ""}

// endpoints are all generation endpoints with the way in which their errors are told.
var endpoints = []way{
	chat,
	messages,
	responses,
	{"messages", "/v1/messages/count_tokens", false},
	{"chat", "/v1/audio/speech", false},
	{"chat", "/v1/embeddings", false},
	{"chat", "/v1/rerank", false},
	{"chat", "/v1/images/generations", false},
	{"chat", "/v1/completions", false},
}

// drip sends a byte at a time until the other side has hung up.
func (c *raw) drip(text string, gap time.Duration) {
	for i := range text {
		if c.send(text[i:i+1]) != nil {
			return
		}
		time.Sleep(gap) // the pace is the subject
	}
}

// wantShut waits until the edge closes the connection, with a 408 or without a word.
func (c *raw) wantShut(limit time.Duration) {
	c.t.Helper()
	rest, ok := c.closed(limit)
	if !ok {
		c.t.Errorf("still open after %v", limit)
	}
	if rest != "" && !strings.HasPrefix(rest, "HTTP/1.1 408 ") {
		c.t.Errorf("the answer is %.100q", rest)
	}
}

func TestFault38_Slowloris(t *testing.T) {
	t.Parallel()
	e := start(t, setup{timeouts: "client_header: 500ms, client_idle: 700ms"})
	whole := e.request(chat.path, chat.body("sim", prompt, ""))
	for name, send := range map[string]func(c *raw){
		"nothing":     func(*raw) {},
		"half a head": func(c *raw) { _ = c.send(whole[:40]) },
		"head drips":  func(c *raw) { c.drip(whole, 30*time.Millisecond) },
		"header lines for ever": func(c *raw) {
			_ = c.send("GET /health HTTP/1.1\r\nHost: edge\r\n")
			for c.send("X-A: b\r\n") == nil {
				time.Sleep(20 * time.Millisecond)
			}
		},
		"empty lines for ever": func(c *raw) {
			for c.send("\r\n") == nil {
				time.Sleep(20 * time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := e.dial()
			c.t = t
			var sending sync.WaitGroup
			sending.Go(func() { send(c) })
			c.wantShut(patience)
			c.Close()
			sending.Wait()
		})
	}
	for name, more := range map[string]string{"idle after an answer": "", "half a second head": whole[:30]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := e.dial()
			_ = c.send(whole + more)
			c.reply("POST").wantStatus(200)
			c.t = t
			c.wantShut(patience)
		})
	}
	t.Cleanup(func() {
		waitFor(t, patience, "no connection is left", func() bool { return e.metric("penstock_client_connections") <= 1 })
		if e.metric("penstock_errors_total", `code="request_timeout"`) == 0 {
			t.Error("slow heads are not counted")
		}
	})
}

// TestFault39_BodyStalls: whoever falls silent in the body is told so in the endpoint's own shape, and has held no slot.
func TestFault39_BodyStalls(t *testing.T) {
	t.Parallel()
	e := start(t, setup{timeouts: "client_body: 500ms", upstream: "concurrency: 1"})
	for _, w := range endpoints {
		for name, framing := range map[string]string{
			"before the body":            "Content-Length: 100\r\n\r\n",
			"in the body":                "Content-Length: 100\r\n\r\n{\"model\"",
			"before the first chunk":     "Transfer-Encoding: chunked\r\n\r\n",
			"in a chunk":                 "Transfer-Encoding: chunked\r\n\r\n20\r\n{\"model\"",
			"before the next chunk":      "Transfer-Encoding: chunked\r\n\r\n8\r\n{\"model\"\r\n",
			"before the end of trailers": "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: y\r\n",
		} {
			t.Run(w.path+"/"+name, func(t *testing.T) {
				t.Parallel()
				c := e.dial()
				c.t = t
				_ = c.send(strings.TrimSuffix(e.head("POST", w.path, "Content-Type: application/json"), "\r\n") + framing)
				c.reply("POST").wantRefused(w, tooLate)
				if rest, ok := c.closed(patience); !ok || rest != "" {
					t.Errorf("not closed, or more came: %q", rest)
				}
			})
		}
	}
	t.Cleanup(func() {
		if n := e.engines[0].Stats().Requests; n != 0 {
			t.Errorf("%d requests upstream", n)
		}
	})
}

// TestFault39_BodyEndsEarly: half a body is refused in the endpoint's own shape as soon as it is known to be no more.
func TestFault39_BodyEndsEarly(t *testing.T) {
	t.Parallel()
	e := start(t, setup{})
	for _, w := range endpoints {
		for _, sent := range []string{"", `{"model"`} {
			c := e.dial()
			_ = c.send(e.head("POST", w.path, "Content-Type: application/json", "Content-Length: 100") + sent)
			_ = c.Conn.(interface{ CloseWrite() error }).CloseWrite()
			c.reply("POST").wantRefused(w, refusal{400, "invalid_request_error", "bad_request", ""})
		}
	}
	if n := e.engines[0].Stats().Requests; n != 0 {
		t.Errorf("%d requests upstream", n)
	}
}

// TestFault39_BodyDrips: a body that never falls silent must still come at a rate.
func TestFault39_BodyDrips(t *testing.T) {
	t.Parallel()
	e := start(t, setup{
		timeouts: "client_body: 5s", limits: "upload_rate: 64KiB",
		models: "- { id: ears, kind: audio-transcription, deployments: [{ upstream: up-0, served: sim }] }",
	})
	form := formStart("ears") + strings.Repeat("x", 20_000)
	for name, text := range map[string]string{
		"json": e.request(messages.path, messages.body("sim", strings.Repeat("x", 20_000), "")),
		"form": e.head("POST", transcriptions, "Content-Type: multipart/form-data; boundary=B", "Content-Length: 1000000") + form,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := e.dial()
			_ = c.SetDeadline(time.Now().Add(4 * patience))
			_ = c.send(text[:len(text)-19_000])
			var sending sync.WaitGroup
			sending.Go(func() { c.drip(text[len(text)-19_000:], 50*time.Millisecond) })
			c.reply("POST").wantStatus(408)
			c.Close()
			sending.Wait()
		})
	}
}

// TestFault40_ManySlowClients: two hundred that stall in every way are not noticed by others.
func TestFault40_ManySlowClients(t *testing.T) {
	t.Parallel()
	e := start(t, setup{timeouts: "client_header: 2s, client_body: 2s, client_idle: 2s"})
	whole := e.request(chat.path, chat.body("sim", prompt, ""))
	stops := []int{0, 30, strings.Index(whole, "\r\n\r\n") + 4, len(whole) - 3}
	for i := range 200 {
		_ = e.dial().send(whole[:stops[i%len(stops)]])
	}
	for _, w := range allWays {
		for range 5 {
			if r := e.ask(w, "").wantStatus(200); r.took > 2*time.Second {
				t.Errorf("a good client waited %v", r.took)
			}
		}
	}
	waitFor(t, patience, "the slow ones are gone", func() bool { return e.metric("penstock_client_connections") <= 8 })
}

const transcriptions = "/v1/audio/transcriptions"

// formStart is a form up to the first byte of its file.
func formStart(model string) string {
	return "--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + model + "\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\n"
}

// postForm sends a form with the boundary B.
func (e *edge) postForm(path, form string) *reply {
	e.t.Helper()
	c := e.dial()
	_ = c.SetDeadline(time.Now().Add(4 * patience))
	_ = c.send(e.head("POST", path, "Content-Type: multipart/form-data; boundary=B", "Content-Length: "+strconv.Itoa(len(form))) + form)
	return c.reply("POST")
}
