package faults

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/proxy/e2e/rig"
)

// These tests cover rows 38 to 40: clients that send nothing or almost nothing.

// tooLate is the error for a client that sends too slowly.
var tooLate = rig.Refusal{Status: 408, Kind: "invalid_request_error", Code: "request_timeout", After: ""}

// endpoints lists all generation endpoints with the form of their errors.
var endpoints = []rig.RequestType{
	rig.Chat,
	rig.Messages,
	rig.Responses,
	{Dialect: "messages", Path: "/v1/messages/count_tokens", Stream: false},
	{Dialect: "chat", Path: "/v1/audio/speech", Stream: false},
	{Dialect: "chat", Path: "/v1/embeddings", Stream: false},
	{Dialect: "chat", Path: "/v1/rerank", Stream: false},
	{Dialect: "chat", Path: "/v1/images/generations", Stream: false},
	{Dialect: "chat", Path: "/v1/completions", Stream: false},
}

// wantClosed waits until the edge closes the connection, with or without a 408.
func wantClosed(c *rig.RawConn, limit time.Duration) {
	c.T.Helper()
	rest, ok := c.WaitClosed(limit)
	if !ok {
		c.T.Errorf("still open after %v", limit)
	}
	if rest != "" && !strings.HasPrefix(rest, "HTTP/1.1 408 ") {
		c.T.Errorf("the answer is %.100q", rest)
	}
}

func TestFault38_Slowloris(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Timeouts: "client_header: 3s, client_idle: 3s"})
	whole := e.RequestBytes(rig.Chat.Path, rig.Chat.RequestBody("sim", rig.Prompt, ""))
	for name, send := range map[string]func(c *rig.RawConn){
		"nothing":     func(*rig.RawConn) {},
		"half a head": func(c *rig.RawConn) { _ = c.Send(whole[:40]) },
		"head drips":  func(c *rig.RawConn) { c.SendSlowly(whole, 30*time.Millisecond) },
		"header lines for ever": func(c *rig.RawConn) {
			_ = c.Send("GET /health HTTP/1.1\r\nHost: edge\r\n")
			for c.Send("X-A: b\r\n") == nil {
				time.Sleep(20 * time.Millisecond)
			}
		},
		"empty lines for ever": func(c *rig.RawConn) {
			for c.Send("\r\n") == nil {
				time.Sleep(20 * time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := e.Dial()
			c.T = t
			var sending sync.WaitGroup
			sending.Go(func() { send(c) })
			wantClosed(c, rig.WaitTimeout)
			c.Close()
			sending.Wait()
		})
	}
	for name, more := range map[string]string{"idle after an answer": "", "half a second head": whole[:30]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := e.Dial()
			_ = c.Send(whole + more)
			c.ReadReply("POST").WantStatus(200)
			c.T = t
			wantClosed(c, rig.WaitTimeout)
		})
	}
	t.Cleanup(func() {
		rig.WaitFor(t, rig.WaitTimeout, "no connection is left", func() bool { return e.Metric("penstock_client_connections") <= 1 })
		if e.Metric("penstock_errors_total", `code="request_timeout"`) == 0 {
			t.Error("slow heads are not counted")
		}
	})
}

// TestFault39_BodyStalls checks that a client that stops sending in the middle of the body receives
// an error in the endpoint's format and does not occupy a slot.
func TestFault39_BodyStalls(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Timeouts: "client_body: 500ms", Upstream: "concurrency: 1"})
	for _, w := range endpoints {
		for name, framing := range map[string]string{
			"before the body":            "Content-Length: 100\r\n\r\n",
			"in the body":                "Content-Length: 100\r\n\r\n{\"model\"",
			"before the first chunk":     "Transfer-Encoding: chunked\r\n\r\n",
			"in a chunk":                 "Transfer-Encoding: chunked\r\n\r\n20\r\n{\"model\"",
			"before the next chunk":      "Transfer-Encoding: chunked\r\n\r\n8\r\n{\"model\"\r\n",
			"before the end of trailers": "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: y\r\n",
		} {
			t.Run(w.Path+"/"+name, func(t *testing.T) {
				t.Parallel()
				c := e.Dial()
				c.T = t
				_ = c.Send(strings.TrimSuffix(e.RequestHead("POST", w.Path, "Content-Type: application/json"), "\r\n") + framing)
				c.ReadReply("POST").WantRefused(w, tooLate)
				if rest, ok := c.WaitClosed(rig.WaitTimeout); !ok || rest != "" {
					t.Errorf("not closed, or more came: %q", rest)
				}
			})
		}
	}
	t.Cleanup(func() {
		if n := e.Engines[0].Stats().Requests; n != 0 {
			t.Errorf("%d requests upstream", n)
		}
	})
}

// TestFault39_BodyEndsEarly checks that a truncated body is rejected in the endpoint's format once
// the body ends.
func TestFault39_BodyEndsEarly(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	for _, w := range endpoints {
		for _, sent := range []string{"", `{"model"`} {
			c := e.Dial()
			_ = c.Send(e.RequestHead("POST", w.Path, "Content-Type: application/json", "Content-Length: 100") + sent)
			_ = c.Conn.(interface{ CloseWrite() error }).CloseWrite()
			c.ReadReply("POST").WantRefused(w, rig.Refusal{Status: 400, Kind: "invalid_request_error", Code: "bad_request", After: ""})
		}
	}
	if n := e.Engines[0].Stats().Requests; n != 0 {
		t.Errorf("%d requests upstream", n)
	}
}

// TestFault39_BodyDrips checks that a client must send a body at a minimum rate, even if it never
// pauses.
func TestFault39_BodyDrips(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{
		Timeouts: "client_body: 5s", Limits: "upload_rate: 64KiB",
		Models: "- { id: ears, kind: audio-transcription, deployments: [{ upstream: up-0, served: sim }] }",
	})
	form := formStart("ears") + strings.Repeat("x", 20_000)
	for name, text := range map[string]string{
		"json": e.RequestBytes(rig.Messages.Path, rig.Messages.RequestBody("sim", strings.Repeat("x", 20_000), "")),
		"form": e.RequestHead("POST", transcriptions, "Content-Type: multipart/form-data; boundary=B", "Content-Length: 1000000") + form,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := e.Dial()
			_ = c.SetDeadline(time.Now().Add(4 * rig.WaitTimeout))
			_ = c.Send(text[:len(text)-19_000])
			var sending sync.WaitGroup
			sending.Go(func() { c.SendSlowly(text[len(text)-19_000:], 50*time.Millisecond) })
			c.ReadReply("POST").WantStatus(408)
			c.Close()
			sending.Wait()
		})
	}
}

// TestFault39_LargeBodyDrips checks that a client must send a large body at a higher rate than a
// small body.
func TestFault39_LargeBodyDrips(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	c := e.Dial()
	_ = c.SetDeadline(time.Now().Add(4 * rig.WaitTimeout))
	_ = c.Send(e.RequestHead("POST", rig.Chat.Path, rig.Chat.ContentType(), "Content-Length: 20000000"))
	var sending sync.WaitGroup
	sending.Go(func() {
		for c.Send(strings.Repeat("x", 400)) == nil { // about 4 KiB per second, fast enough for a small body
			time.Sleep(100 * time.Millisecond)
		}
	})
	r := c.ReadReply("POST").WantStatus(408)
	if r.Took < 8*time.Second {
		t.Errorf("refused after %v", r.Took)
	}
	c.Close()
	sending.Wait()
}

// TestFault40_ManySlowClients checks that two hundred clients that stall in various phases do not
// affect other clients.
func TestFault40_ManySlowClients(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Timeouts: "client_header: 12s, client_body: 12s, client_idle: 12s"})
	whole := e.RequestBytes(rig.Chat.Path, rig.Chat.RequestBody("sim", rig.Prompt, ""))
	stops := []int{0, 30, strings.Index(whole, "\r\n\r\n") + 4, len(whole) - 3}
	for i := range 200 {
		_ = e.Dial().Send(whole[:stops[i%len(stops)]])
	}
	for _, w := range rig.TextRequestTypes {
		for range 5 {
			// the call does not wait for the slow clients' timeouts
			e.SendRequest(w, "").WantStatus(200).WantWithin(2 * time.Second)
		}
	}
	rig.WaitFor(t, 2*rig.WaitTimeout, "the slow ones are gone", func() bool { return e.Metric("penstock_client_connections") <= 8 })
}

const transcriptions = "/v1/audio/transcriptions"

// formStart returns the start of a form, up to the first byte of the file.
func formStart(model string) string {
	return "--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + model + "\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\n"
}

func (e *edge) postForm(path, form string) *rig.Reply {
	e.T.Helper()
	c := e.Dial()
	_ = c.SetDeadline(time.Now().Add(4 * rig.WaitTimeout))
	_ = c.Send(e.RequestHead("POST", path, "Content-Type: multipart/form-data; boundary=B", "Content-Length: "+strconv.Itoa(len(form))) + form)
	return c.ReadReply("POST")
}
