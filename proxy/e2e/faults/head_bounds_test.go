package faults

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"penstock/proxy/e2e/rig"
)

// These tests cover rows 43 and 46. They check bytes before the first line of a head, and the exact
// size limit of a head.

const headLimit = 2048

// headTooLarge is the error for a head that exceeds headLimit.
var headTooLarge = rig.Refusal{Status: 431, Kind: "invalid_request_error", Code: "request_too_large", After: ""}

// sizedHead returns a head of n bytes, including its empty line. The given lines come first,
// followed by padding.
func sizedHead(n int, first string, lines ...string) string {
	head := first + " HTTP/1.1\r\n" + strings.Join(append(lines, "Host: edge", "X-Filler: "), "\r\n")
	return head + strings.Repeat("f", n-len(head)-len("\r\n\r\n")) + "\r\n\r\n"
}

var sendVariants = map[string]func(c *rig.RawConn, text string){
	"whole": func(c *rig.RawConn, text string) { _ = c.Send(text) },
	"bytes": func(c *rig.RawConn, text string) { c.SendSlowly(text, 0) },
	"apart": func(c *rig.RawConn, text string) {
		for len(text) > 0 {
			n := min(len(text), 700)
			_ = c.Send(text[:n])
			text = text[n:]
			time.Sleep(5 * time.Millisecond) // the pieces must arrive separately
		}
	},
	"but its last byte": func(c *rig.RawConn, text string) {
		_ = c.Send(text[:headLimit-1])
		time.Sleep(5 * time.Millisecond) // the pieces must arrive separately
		_ = c.Send(text[headLimit-1:])
	},
}

// TestFault43_ExactHeads checks that a head of exactly limits.header bytes is served, regardless of
// how it is split. A head with one more byte must be rejected in the endpoint's dialect.
func TestFault43_ExactHeads(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		e, dial := startSecure(t, secure, rig.Setup{Limits: "header: 2KiB"})
		for _, w := range rig.UnstreamedRequestTypes {
			body := w.RequestBody("sim", rig.Prompt, "")
			lines := []string{"Authorization: Bearer " + e.Key, "Content-Type: application/json", "Content-Length: " + strconv.Itoa(len(body))}
			exact, over := sizedHead(headLimit, "POST "+w.Path, lines...)+body, sizedHead(headLimit+1, "POST "+w.Path, lines...)+body
			small := e.RequestHead("GET", "/health")
			for pieces, send := range sendVariants {
				t.Run(name+"/"+w.String()+"/"+pieces, func(t *testing.T) {
					t.Parallel()
					c := dial(t)
					for _, before := range []string{small, "", exact} {
						send(c, before+exact+sizedHead(headLimit, "GET /health"))
						for range strings.Count(before, "HTTP/1.1") + 2 {
							c.ReadReply("POST").WantStatus(200)
						}
					}
					for _, bad := range []string{
						over, over[:headLimit+1], small + over, exact + over, "\r\n" + exact,
						// The request line alone is too long.
						strings.Replace(over, w.Path, w.Path+"?"+strings.Repeat("q", headLimit), 1),
					} {
						c := dial(t)
						send(c, bad)
						for range strings.Count(bad, "HTTP/1.1") - 1 {
							c.ReadReply("POST").WantStatus(200)
						}
						c.ReadReply("POST").WantRefused(w, headTooLarge)
						if rest, ok := c.WaitClosed(rig.WaitTimeout); !ok || rest != "" {
							t.Errorf("not closed, or more came: %.200q", rest)
						}
					}
				})
			}
		}
	}
}

// TestFault46_BeforeTheLine checks that empty lines before a request line are skipped. As at any
// other position, a line end other than CR LF must be rejected immediately.
func TestFault46_BeforeTheLine(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		e, dial := startSecure(t, secure, rig.Setup{Limits: "header: 2KiB"})
		good := e.RequestBytes(rig.Chat.Path, rig.Chat.RequestBody("sim", rig.Prompt, ""))
		for _, before := range []string{"", good, "\r\n", good + "\r\n\r\n"} {
			for _, c := range []struct {
				text   string
				status int
			}{
				{"\r\n" + good, 200},
				{"\r\n\r\n\r\n" + good, 200},
				{strings.Repeat("\r\n", 10_000), 400}, // more than fits into fasthttp's buffer
				{"\n", 400},
				{"\n" + good, 400},
				{"\n\n" + good, 400},
				{"\r\n\n", 400},
				{"\r\n\n" + good, 400},
				{"\n\r\n" + good, 400},
				{"\r\r", 400},
				{"\r\r\n" + good, 400},
				{"\r" + good, 400},
			} {
				for pieces, send := range sendVariants {
					if pieces == "but its last byte" {
						continue // the head has a different size
					}
					t.Run(name+"/"+strconv.Quote(before[max(0, len(before)-4):]+c.text[:min(5, len(c.text))])+"/"+pieces, func(t *testing.T) {
						t.Parallel()
						conn := dial(t)
						send(conn, before+c.text)
						if strings.HasPrefix(before, "POST") {
							conn.ReadReply("POST").WantStatus(200)
						}
						if c.status == 200 {
							conn.ReadReply("POST").WantStatus(200)
							return
						}
						conn.ReadReply("POST").WantRefused(rig.Chat, badRequest)
						if rest, ok := conn.WaitClosed(rig.WaitTimeout); !ok || rest != "" {
							t.Errorf("not closed, or more came: %.200q", rest)
						}
					})
				}
			}
		}
	}
}
