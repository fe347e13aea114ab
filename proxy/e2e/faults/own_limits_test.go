package faults

import (
	"fmt"
	"strings"
	"testing"

	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// TestOwnBodyLimits: of the limits on a body that the file, a key and a model have the smallest counts. A key's refuses before the
// body has come, a model's as soon as the model is known, and each in the endpoint's dialect.
func TestOwnBodyLimits(t *testing.T) {
	t.Parallel()
	const wide = "a-key-without-limits-of-its-own"
	p := start(t, rig.Setup{
		Config: `timeouts: { linger: 0s, drain: 5s }
limits: { request_body: 64KiB, upload_body: 4MiB }
keys:
  - { id: narrow, hash: "{{hash}}", limits: { request_body: 4KiB, upload_body: 300KiB } }
  - { id: wide, hash: "` + auth.Hash(wide) + `" }
upstreams:
  - { name: up-0, url: "{{up-0}}", engine: sim, probe: { timeout: 15s } }
  - { name: gone, url: "http://127.0.0.1:1", engine: sim, probe: { timeout: 15s, fall: 1 } }
models:
  - { id: sim, deployments: [{ upstream: up-0 }] }
  - { id: small, limits: { request_body: 2KiB }, deployments: [{ upstream: up-0, served: sim }] }
  - { id: away, deployments: [{ upstream: gone }], fallback: [small, sim] }
  - { id: ears, kind: audio-transcription, limits: { upload_body: 500KiB }, deployments: [{ upstream: up-0, served: sim }] }
`, Cold: true,
	})
	rig.WaitFor(t, rig.Patience, "the engine is up, the other one down", func() bool {
		return p.Upstream("up-0").State == "up" && p.Upstream("gone").State == "down"
	})
	asWide := "Authorization: Bearer " + wide
	of := func(w rig.Way, model string, length int) string {
		empty := len(w.Body(model, "", ""))
		return w.Body(model, strings.Repeat("x", length-empty), "")
	}
	for _, w := range rig.AllWays {
		for _, n := range []int{4097, 60_000} { // below and above what is looked at before the body
			c := p.Dial()
			_ = c.Send(p.Head("POST", w.Path, "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", n)) + "{")
			c.Reply("POST").WantRefused(w, rig.BodyTooLarge)
			if _, closed := c.Closed(rig.Patience); !closed {
				t.Errorf("%v: the connection of a body that is not read stays open", w)
			}
		}
		c := p.Dial()
		_ = c.Send(p.Head("POST", w.Path, "Content-Type: application/json", "Content-Length: 5000", "Expect: 100-continue"))
		c.Reply("POST").WantRefused(w, rig.BodyTooLarge)
		c = p.Dial()
		_ = c.Send(p.Head("POST", w.Path, "Content-Type: application/json", "Transfer-Encoding: chunked"))
		_ = c.Sendf("1010\r\n%s\r\n", of(w, "sim", 0x1010)) // and no end
		c.Reply("POST").WantRefused(w, rig.BodyTooLarge)

		p.Post(w.Path, of(w, "sim", 4096)).WantStatus(200)
		p.Post(w.Path, of(w, "sim", 60_000), asWide).WantStatus(200)
		p.Post(w.Path, of(w, "small", 2048)).WantStatus(200)
		p.Post(w.Path, of(w, "small", 2049), asWide).WantRefused(w, rig.BodyTooLarge)
		if r := p.Post(w.Path, of(w, "away", 2049)).WantStatus(200); !strings.Contains(r.Body, `"model":"sim"`) {
			t.Errorf("%v: what is too large for a fallback is answered by another: %s", w, r.Body)
		}
		if r := p.Post(w.Path, of(w, "away", 2048)).WantStatus(200); !strings.Contains(r.Body, `"model":"small"`) {
			t.Errorf("%v: the first fallback does not answer: %s", w, r.Body)
		}
	}
	form := func(length int) string {
		return formStart("ears") + strings.Repeat("x", length) + "\r\n--B--\r\n"
	}
	head := func(key string, more string) string {
		lines := p.Head("POST", transcriptions, "Content-Type: multipart/form-data; boundary=B", more)
		return strings.Replace(lines, p.Key, key, 1)
	}
	upload := func(key string, length int) *rig.Reply {
		c, body := p.Dial(), form(length)
		_ = c.Send(head(key, fmt.Sprintf("Content-Length: %d", len(body))) + body)
		return c.Reply("POST")
	}
	upload(p.Key, 290<<10).WantStatus(200)
	upload(p.Key, 310<<10).WantRefused(rig.Transcription, rig.BodyTooLarge)
	upload(wide, 490<<10).WantStatus(200)
	upload(wide, 510<<10).WantRefused(rig.Transcription, rig.BodyTooLarge)
	body := form(600 << 10)
	c := p.Dial()
	_ = c.Send(head(wide, fmt.Sprintf("Content-Length: %d", len(body))) + body[:400<<10]) // the rest is not waited for
	c.Reply("POST").WantRefused(rig.Transcription, rig.BodyTooLarge)
	c = p.Dial()
	_ = c.Send(head(wide, "Transfer-Encoding: chunked"))
	_ = c.Sendf("%x\r\n%s\r\n", 550<<10, body[:550<<10]) // and no end
	c.Reply("POST").WantRefused(rig.Transcription, rig.BodyTooLarge)
}
