package faults

import (
	"fmt"
	"strings"
	"testing"

	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// TestOwnBodyLimits checks that the lower of two body limits (the configuration's and the key's)
// applies. A larger body must be rejected in the endpoint's dialect before the whole body has been
// received.
func TestOwnBodyLimits(t *testing.T) {
	t.Parallel()
	const wide = "a-key-without-limits-of-its-own"
	p := start(t, rig.Setup{
		Config: `timeouts: { linger: 0s, drain: 5s }
limits: { request_body: 64KiB, upload_body: 500KiB }
keys:
  - { id: narrow, hash: "{{hash}}", limits: { request_body: 4KiB, upload_body: 300KiB } }
  - { id: wide, hash: "` + auth.HashKey(wide) + `" }
upstreams:
  - { name: up-0, url: "{{up-0}}", engine: sim, probe: { timeout: 15s } }
models:
  - { id: sim, deployments: [{ upstream: up-0 }] }
  - { id: ears, kind: audio-transcription, deployments: [{ upstream: up-0, served: sim }] }
`, Cold: true,
	})
	rig.WaitFor(t, rig.WaitTimeout, "the engine is up", func() bool { return p.Upstream("up-0").State == "up" })
	asWide := "Authorization: Bearer " + wide
	of := func(w rig.RequestType, model string, length int) string {
		empty := len(w.RequestBody(model, "", ""))
		return w.RequestBody(model, strings.Repeat("x", length-empty), "")
	}
	for _, w := range rig.TextRequestTypes {
		// smaller and larger than the number of bytes that the edge reads first
		for _, n := range []int{4097, 60_000} {
			c := p.Dial()
			_ = c.Send(p.RequestHead("POST", w.Path, "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", n)) + "{")
			c.ReadReply("POST").WantRefused(w, rig.RefusalBodyTooLarge)
			if _, closed := c.WaitClosed(rig.WaitTimeout); !closed {
				t.Errorf("%v: the connection of a body that is not read stays open", w)
			}
		}
		c := p.Dial()
		_ = c.Send(p.RequestHead("POST", w.Path, "Content-Type: application/json", "Content-Length: 5000", "Expect: 100-continue"))
		c.ReadReply("POST").WantRefused(w, rig.RefusalBodyTooLarge)
		c = p.Dial()
		_ = c.Send(p.RequestHead("POST", w.Path, "Content-Type: application/json", "Transfer-Encoding: chunked"))
		_ = c.Sendf("1010\r\n%s\r\n", of(w, "sim", 0x1010)) // the end of the body is not sent
		c.ReadReply("POST").WantRefused(w, rig.RefusalBodyTooLarge)

		p.Post(w.Path, of(w, "sim", 4096)).WantStatus(200)
		p.Post(w.Path, of(w, "sim", 60_000), asWide).WantStatus(200)
	}
	form := func(length int) string {
		return formStart("ears") + strings.Repeat("x", length) + "\r\n--B--\r\n"
	}
	upload := func(key string, length int) *rig.Reply {
		c, body := p.Dial(), form(length)
		head := p.RequestHead("POST", transcriptions, "Content-Type: multipart/form-data; boundary=B", fmt.Sprintf("Content-Length: %d", len(body)))
		_ = c.Send(strings.Replace(head, p.Key, key, 1) + body)
		return c.ReadReply("POST")
	}
	upload(p.Key, 290<<10).WantStatus(200)
	upload(p.Key, 310<<10).WantRefused(rig.Transcription, rig.RefusalBodyTooLarge)
	upload(wide, 490<<10).WantStatus(200)
	upload(wide, 510<<10).WantRefused(rig.Transcription, rig.RefusalBodyTooLarge)
}
