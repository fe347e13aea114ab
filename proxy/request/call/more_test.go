package call_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/access/auth"
	"penstock/proxy/request/call"
	"penstock/proxy/request/internal/calltest"
)

// TestLargeAnswer checks that an answer larger than a pooled buffer is stored in a separate buffer,
// and that its memory is released.
func TestLargeAnswer(t *testing.T) {
	for path, body := range map[string]string{chatPath: chat(""), messagesPath: chat(`,"max_tokens":9`), responsesPath: `{"model":"m","input":"hi"}`} {
		synctest.Test(t, func(t *testing.T) {
			e := calltest.New(t, oneEngine("", ""), singleEngine(calltest.TextHandler(strings.Repeat("word", 100_000))))
			if got := e.Post(path, body); got.Status != 200 || got.Err != nil || len(got.Body) < 400_000 {
				t.Errorf("%s: got %d, %v, %d bytes, want a 200 with at least 400000", path, got.Status, got.Err, len(got.Body))
			}
			if n := e.Services.Replies.UsedBytes(); n != 0 {
				t.Errorf("%s: %d bytes are still held", path, n)
			}
		})
	}
}

// TestRevoked checks that removing a key ends only the calls made with that key.
func TestRevoked(t *testing.T) {
	const one = `
keys:
  - {id: b, hash: "sha256:HASHB"}
upstreams:
  - {name: a, engine: vllm, url: "http://a", concurrency: 4}
models:
  - {id: m, deployments: [{upstream: a}]}
`
	hashes := strings.NewReplacer("HASHA", calltest.HashKey("sk-secret-a"), "HASHB", calltest.HashKey("sk-secret-b"))
	synctest.Test(t, func(t *testing.T) {
		both := strings.Replace(one, "keys:\n", "keys:\n  - {id: a, hash: \"sha256:HASHA\"}\n", 1)
		e := calltest.New(t, hashes.Replace(both), singleEngine(calltest.DelayHandler(20*time.Second, calltest.TextHandler("late"))))
		clients, done := []*calltest.Client{{}, {}}, []chan *calltest.Answer{make(chan *calltest.Answer, 1), make(chan *calltest.Answer, 1)}
		for i, key := range []string{"sk-secret-a", "sk-secret-b"} {
			go func() { done[i] <- e.Send(clients[i], chatPath, chat(""), "Authorization: Bearer "+key) }()
		}
		time.Sleep(5 * time.Second)
		e.ReloadConfig(hashes.Replace(one))
		for _, client := range clients {
			client.InspectCall(func(c *call.Call) { c.CancelIfRevoked(e.Services.Current().Keys) })
		}
		if got := <-done[0]; got.Status != 401 || got.Took > 6*time.Second {
			t.Errorf("the removed key's: %d after %v: %s", got.Status, got.Took, got.Body)
		}
		if got := <-done[1]; got.Status != 200 {
			t.Errorf("the other key's: %d %s", got.Status, got.Body)
		}
	})
}

func TestBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := calltest.New(t, oneEngine("limits: {request_body: 2KiB}", ""), singleEngine(nil))
		for _, tt := range []struct {
			body   string
			header string
			status int
		}{
			{chat(`,"user":"` + strings.Repeat("x", 4000) + `"`), "", 413},
			{chat(""), "Content-Type: text/plain", 415},
			{chat(""), "Content-Encoding: br", 415},
			{"not zipped", "Content-Encoding: gzip", 400},
			{"", "", 400},
		} {
			var headers []string
			if tt.header != "" {
				headers = append(headers, tt.header)
			}
			if got := e.Post(chatPath, tt.body, headers...); got.Status != tt.status {
				t.Errorf("%.30q, %s: got %d %s, want %d", tt.body, tt.header, got.Status, got.Body, tt.status)
			}
		}
	})
}

// TestArms checks that each arm gets its share of the traffic, and that all calls of a conversation
// use the same arm.
func TestArms(t *testing.T) {
	const yaml = `
auth: none
upstreams:
  - {name: a, engine: vllm, url: "http://a", concurrency: 4}
  - {name: b, engine: vllm, url: "http://b", concurrency: 4}
models:
  - id: m
    deployments: [{upstream: a}, {upstream: b, served: new, traffic: 50%}]
`
	synctest.Test(t, func(t *testing.T) {
		a := &calltest.Engine{Name: "a", Models: []string{"m"}}
		b := &calltest.Engine{Name: "b", Models: []string{"new"}}
		e := calltest.New(t, yaml, a, b)
		for i := range 40 {
			body := `{"model":"m","messages":[{"role":"user","content":"talk ` + strings.Repeat("x", i) + `"}]}`
			for range 2 {
				if got := e.Post(chatPath, body); got.Status != 200 {
					t.Fatalf("got %d, want 200: %s", got.Status, got.Body)
				}
			}
		}
		sentA, sentB := a.RequestBodies(), b.RequestBodies()
		if len(sentA)%2 != 0 || len(sentA) < 20 || len(sentB) < 20 {
			t.Errorf("%d and %d calls: want about half each, and both of a conversation at one", len(sentA), len(sentB))
		}
	})
}

// TestCachePerKey checks that the edge sends a salt to an engine that supports salts, and that the
// salt does not contain the key.
func TestCachePerKey(t *testing.T) {
	const yaml = `
keys:
  - {id: a, hash: "sha256:HASHA"}
upstreams:
  - {name: a, engine: vllm, url: "http://a", concurrency: 4}
models:
  - {id: m, prompt_cache: per_key, deployments: [{upstream: a}]}
`
	synctest.Test(t, func(t *testing.T) {
		a := singleEngine(nil)
		e := calltest.New(t, strings.ReplaceAll(yaml, "HASHA", calltest.HashKey("sk-secret-a")), a)
		if got := e.Post(chatPath, chat(""), "Authorization: Bearer sk-secret-a"); got.Status != 200 {
			t.Fatalf("got %d, want 200: %s", got.Status, got.Body)
		}
		if sent := a.RequestBodies(); !strings.Contains(sent[0], `"cache_salt"`) || strings.Contains(sent[0], "secret") {
			t.Errorf("sent %s, want a salt, and nothing of the key in it", sent[0])
		}
		e.Services.ForgetProfiles()
	})
}

// TestResumedAtItsLimit checks a stream whose engine is lost after it has sent as many tokens as
// the request allows. Only the end of the stream is then missing, so the edge itself must end the
// stream.
func TestResumedAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := calltest.SequenceHandler(events(true, delta("one "), delta("two")), calltest.TextHandler("three"))
		a, b := enginePair(turn, turn)
		got := calltest.New(t, twoEngines("", "    retry: {resume: 2}\n"), a, b).Post(chatPath, chat(`,"stream":true,"max_tokens":2`))
		if got.Err != nil || strings.Contains(got.Body, `"error"`) || !strings.Contains(got.Body, "data: [DONE]") {
			t.Errorf("error %v, want a complete stream: %s", got.Err, got.Body)
		}
	})
}

// TestShares checks how WebSocket messages count against key limits.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		yaml := strings.NewReplacer("HASHA", calltest.HashKey("sk-secret-a"), "HASHB", calltest.HashKey("sk-secret-b")).Replace(twoKeysConfig)
		e := calltest.New(t, yaml, &calltest.Engine{Name: "a", Models: []string{"m", "other"}})
		s := e.Services.Current()
		var h fasthttp.RequestHeader
		h.Set("Authorization", "Bearer sk-secret-a")
		key, err := s.Authenticate(&h, nil, auth.ClientConnection{}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []bool{true, true, false} { // the limit is two requests per minute
			if refused := call.ChargeRejectedRequest(s, key, time.Now()); (refused == nil) != want {
				t.Errorf("request %d: got %v, want it taken: %t", i, refused, want)
			}
		}
		if call.IncompleteBodyCounter(s, key) == nil || call.ConversationByteCounter(s, key) == nil {
			t.Error("of two keys, one has no share of the memory")
		}
		if held, refused := call.AdmitWaitingMessage(s, key); held == nil || refused != nil {
			t.Errorf("a place to wait: got %v, %v", held, refused)
		} else {
			held.StopWaiting()
		}
	})
}

// TestLastKey checks that a connection caches the last key, no matter which of the two headers
// contains the key. If the edge has no keys, nothing must be cached.
func TestLastKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		yaml := strings.NewReplacer("HASHA", calltest.HashKey("sk-secret-a"), "HASHB", calltest.HashKey("sk-secret-b")).Replace(twoKeysConfig)
		with := calltest.New(t, yaml, &calltest.Engine{Name: "a", Models: []string{"m", "other"}}).Services.Current()
		without := calltest.New(t, oneEngine("", ""), singleEngine(nil)).Services.Current()
		for name, value := range map[string]string{"Authorization": "Bearer sk-secret-a", "X-Api-Key": "sk-secret-a"} {
			var h fasthttp.RequestHeader
			h.Set(name, value)
			var open, keyed auth.LastKeyCache
			if key, err := without.Authenticate(&h, nil, auth.ClientConnection{Last: &open}, time.Now()); key != nil || err != nil || !reflect.DeepEqual(open, auth.LastKeyCache{}) {
				t.Errorf("%s: an edge without keys remembers one (%v, %v)", name, key, err)
			}
			if key, err := with.Authenticate(&h, nil, auth.ClientConnection{Last: &keyed}, time.Now()); key == nil || err != nil || reflect.DeepEqual(keyed, auth.LastKeyCache{}) {
				t.Errorf("%s: the key is not remembered (%v, %v)", name, key, err)
			}
		}
	})
}

// answerHalf is a handler that sends the start of an answer and then stops.
func answerHalf(w http.ResponseWriter, r *http.Request) {
	calltest.StartStream(w).SendText("half")
	<-r.Context().Done()
}

// TestHungEngine checks that a stream moves to another engine after its engine stops responding.
func TestHungEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := calltest.SequenceHandler(answerHalf, calltest.TextHandler("other"))
		a, b := enginePair(turn, turn)
		got := calltest.New(t, twoEngines("timeouts: {idle: 20s}", "    retry: {resume: 1}\n"), a, b).Post(chatPath, chat(stream))
		if got.Err != nil || !strings.Contains(got.Body, "half") || !strings.Contains(got.Body, "other") {
			t.Errorf("error %v, want the texts of both engines: %s", got.Err, got.Body)
		}
	})
}
