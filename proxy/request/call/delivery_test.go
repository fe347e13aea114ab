package call_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"penstock/proxy/request/internal/calltest"
)

// largeAnswer is an answer that does not fit into a socket buffer.
var largeAnswer = calltest.TextHandler(strings.Repeat("word", 100_000))

// TestDelivery checks a call with a large answer that is not streamed. Until the client has
// received the answer, the call must occupy its key's slot and count as running. The engine's slot
// must be free once the engine has answered. The same applies if white space was sent before the
// answer.
func TestDelivery(t *testing.T) {
	const yaml = `
stream: {whole_keepalive: 10s}
keys:
  - {id: a, hash: "sha256:HASHA", limits: {concurrency: 1}}
  - {id: b, hash: "sha256:HASHB"}
upstreams:
  - {name: a, engine: vllm, url: "http://a", concurrency: 1}
models:
  - {id: m, deployments: [{upstream: a}]}
`
	config := strings.NewReplacer("HASHA", calltest.HashKey("sk-secret-a"), "HASHB", calltest.HashKey("sk-secret-b")).Replace(yaml)
	const own, other = "Authorization: Bearer sk-secret-a", "Authorization: Bearer sk-secret-b"
	for path, body := range map[string]string{chatPath: chat(""), messagesPath: chat(`,"max_tokens":9`), responsesPath: `{"model":"m","input":"hi"}`} {
		for name, answer := range map[string]*calltest.Engine{"at once": singleEngine(largeAnswer), "late": singleEngine(calltest.DelayHandler(15*time.Second, largeAnswer))} {
			t.Run(path+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := calltest.New(t, config, answer)
					written := false
					client := &calltest.Client{Lines: func(_ time.Duration, piece string) {
						if written = written || len(piece) > 100_000; !written {
							return
						}
						if n := e.Services.Calls.InFlight(); n != 1 {
							t.Errorf("%d calls run while an answer is delivered, want 1", n)
						}
						if got := e.Post(path, body, own); got.Status != 429 || !strings.Contains(got.Body, "1 concurrent request") {
							t.Errorf("a second call of the key: %d %.200s", got.Status, got.Body)
						}
						if got := e.Post(path, body, other); got.Status != 200 {
							t.Errorf("the engine, with a call of another key: %d %.200s", got.Status, got.Body)
						}
					}}
					if got := e.Send(client, path, body, own); got.Status != 200 || got.Err != nil || !written {
						t.Errorf("got %d, error %v, written %v, want a complete 200: %.200s", got.Status, got.Err, written, got.Body)
					}
					if got := e.Post(path, body, own); got.Status != 200 {
						t.Errorf("after the delivery: %d %.200s", got.Status, got.Body)
					}
					if n := e.Services.Replies.UsedBytes(); n != 0 {
						t.Errorf("%d bytes are still held", n)
					}
				})
			})
		}
	}
}
