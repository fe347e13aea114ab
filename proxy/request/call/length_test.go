package call_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"penstock/proxy/request/internal/calltest"
)

// TestPromptLengths checks that short prompts go to the engine reserved for them. If the reserved
// engine is full, they must go to the other engine. Long prompts must never go to the reserved
// engine, even if the other engine is busy or broken.
func TestPromptLengths(t *testing.T) {
	const byLength = `
auth: none
upstreams:
  - {name: a, engine: vllm, url: "http://a", concurrency: 1}
  - {name: b, engine: vllm, url: "http://b", concurrency: 1}
models:
  - id: m
    deployments:
      - {upstream: a, prompt_tokens: {max: 1000}}
      - {upstream: b, tier: 1}
`
	long := chat("")
	long = strings.Replace(long, `"hi"`, fmt.Sprintf("%q", strings.Repeat("word ", 4000)), 1)
	requests := func(e *calltest.Engine) int { return len(e.RequestBodies()) }

	synctest.Test(t, func(t *testing.T) {
		a, b := enginePair(calltest.TextHandler("short"), calltest.TextHandler("long"))
		e := calltest.New(t, byLength, a, b)
		for body, want := range map[string]string{chat(""): "short", long: "long"} {
			if got := e.Post(chatPath, body); !strings.Contains(got.Body, want) {
				t.Errorf("got %s, want it from the engine for %s prompts", got.Body, want)
			}
		}
		a.Answer = calltest.AbortConnection
		if got := e.Post(chatPath, chat("")); !strings.Contains(got.Body, "long") {
			t.Errorf("a short prompt after a failure: got %s, want the other engine's answer", got.Body)
		}
		b.Answer = calltest.AbortConnection
		before := requests(a)
		if got := e.Post(chatPath, long); got.Status != 502 || requests(a) != before {
			t.Errorf("a long prompt after a failure: got %d and %d requests to the engine for short ones, want 502 and none", got.Status, requests(a)-before)
		}
	})
	t.Run("queue", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, b := enginePair(calltest.TextHandler("short"), calltest.DelayHandler(2*time.Second, calltest.TextHandler("long")))
			e := calltest.New(t, strings.Replace(byLength, "  - id: m\n", "  - id: m\n    queue: {depth: 4, wait: 5s}\n", 1), a, b)
			answers := make(chan string)
			for range 2 { // the second call must wait for b even though a is free
				go func() { answers <- e.Post(chatPath, long).Body }()
			}
			for range 2 {
				if got := <-answers; !strings.Contains(got, "long") {
					t.Errorf("got %s, want the answer of the engine for long prompts", got)
				}
			}
			if n := requests(a); n != 0 {
				t.Errorf("%d long prompts at the engine for short ones", n)
			}
		})
	})
	t.Run("reload", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, b := enginePair(calltest.TextHandler("short"), calltest.TextHandler("long"))
			e := calltest.New(t, byLength, a, b)
			e.ReloadConfig(strings.Replace(byLength, "1000", "100000", 1))
			if got := e.Post(chatPath, long); !strings.Contains(got.Body, "short") {
				t.Errorf("got %s, want the engine that takes it since the reload", got.Body)
			}
		})
	})
}
