package faults

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests cover row 50: HTTP/1.0 clients, such as nginx with proxy_pass but no
// proxy_http_version.

func toHTTP10(request string) string { return strings.Replace(request, "HTTP/1.1", "HTTP/1.0", 1) }

func TestFault50_HTTP10(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	old := func(more string, header ...string) string {
		return toHTTP10(e.RequestBytes(rig.Chat.Path, e.ChatRequest(more), header...))
	}
	c := e.Dial()
	_ = c.Send(old(""))
	res, err := http.ReadResponse(c.In, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 200 || res.ContentLength < 0 || len(res.TransferEncoding) > 0 {
		t.Errorf("status %d, length %d, encoding %v", res.StatusCode, res.ContentLength, res.TransferEncoding)
	}
	if _, closed := c.WaitClosed(rig.WaitTimeout); !closed {
		t.Error("the connection stays open")
	}
	// Large answers also have a Content-Length.
	c = e.Dial()
	_ = c.Send(old(`"sim":{"tokens":20000}`))
	res, err = http.ReadResponse(bufio.NewReader(c.In), nil)
	if err != nil || res.StatusCode != 200 || res.ContentLength < 64<<10 {
		t.Errorf("answer = %+v, %v; want 200 with a length of 64 KiB or more", res, err)
	}
	res.Body.Close()
	c.Close()
}

// TestFault50_HTTP10Streams checks that a stream is not chunked and ends when the connection
// closes. An HTTP/1.0 client interprets any close as the end, so a broken stream must end with an
// error in the stream's dialect.
func TestFault50_HTTP10Streams(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		for _, w := range rig.StreamRequestTypes {
			t.Run(fmt.Sprintf("%v, TLS %v", w, secure), func(t *testing.T) {
				t.Parallel()
				e, dial := startSecure(t, secure, rig.Setup{
					Engines: []sim.Options{{MaxModelLen: 1 << 30}}, Stream: "commit_after: 50ms, keepalive: 50ms",
				})
				connect := func(control string) *rig.RawConn {
					c := dial(t)
					_ = c.Send(toHTTP10(e.RequestBytes(w.Path, w.RequestBody("sim", rig.Prompt, control), "Connection: keep-alive")))
					return c
				}
				ask := func(control string) *rig.Reply {
					t.Helper()
					c := connect(control)
					if _, err := c.In.Peek(1); err != nil {
						t.Fatal(err)
					}
					first, _ := c.In.Peek(c.In.Buffered())
					head, _, _ := strings.Cut(string(first), "\r\n\r\n")
					r := c.ReadReply("POST") // reads until the connection is closed
					if !strings.Contains(head, "\r\nConnection: close") || strings.Contains(head, "Transfer-Encoding") ||
						strings.Contains(head, "Content-Length") || strings.Contains(r.Body, "\r\n") {
						t.Errorf("head %s, or chunks in %.200q", head, r.Body)
					}
					return r
				}
				if text := ask(`"tokens":12`).VisibleText(w); text == "" {
					t.Error("no text")
				}
				if l := e.LastAccessLine(); l.Outcome != "ok" || !l.Stream {
					t.Errorf("last call = %+v, want a stream, ok", l)
				}
				// The stream is committed before its first event.
				if r := ask(`"tokens":12,"ttft_ms":600`); r.VisibleText(w) == "" {
					t.Errorf("no text in %.300q", r.Body)
				}
				c := connect(`"tokens":100000,"delay_ms":5`)
				if _, err := c.In.ReadString('{'); err != nil {
					t.Fatal(err)
				}
				c.Close()
				e.wantFreed("streaming")
				e.fault("reset-after=3")
				ask(`"tokens":12`).WantBrokenStream(w, "upstream_bad_response")
				if l := e.LastAccessLine(); l.Outcome != "stream_broken" {
					t.Errorf("last call = %+v, want stream_broken", l)
				}
			})
		}
	}
}
