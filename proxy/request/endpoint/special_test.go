package endpoint_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"penstock/proxy/request/call"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/internal/calltest"
)

// TestWarmUp checks that the edge itself validates a warm-up request and answers it with an empty
// stream. No engine must receive the request.
func TestWarmUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := enginesOf(nil)
		e := calltest.New(t, models, all...)
		got := e.SendTo(&calltest.Client{}, endpoint.ResponsesWarmUpEndpoint, `{"model":"m","input":"hi","stream":true}`)
		for _, part := range []string{"event: response.created", "event: response.completed", `"output":[]`} {
			if got.Status != 200 || !strings.Contains(got.Body, part) {
				t.Errorf("got %d %s, want %q in it", got.Status, got.Body, part)
			}
		}
		if sent := all[0].RequestBodies(); len(sent) > 0 {
			t.Errorf("the engine was sent %q", sent)
		}
		if got := e.SendTo(&calltest.Client{}, endpoint.ResponsesWarmUpEndpoint, `{"model":"none","input":"hi"}`); got.Status != 404 {
			t.Errorf("for an unknown model: got %d %s, want 404", got.Status, got.Body)
		}
	})
}

// TestStrict checks that engine-specific endpoints are answered with 404 if strict is set.
func TestStrict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := calltest.New(t, "strict: true"+models, enginesOf(nil)...)
		if got := e.Post("/tokenize", `{"model":"m","prompt":"hi"}`); got.Status != 404 || !strings.Contains(got.Body, "strict") {
			t.Errorf("got %d %s, want a 404", got.Status, got.Body)
		}
		if got := e.Post("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`); got.Status != 200 {
			t.Errorf("chat: got %d %s, want 200", got.Status, got.Body)
		}
		diarized, header := form("model", "hear", "response_format", "diarized_json", "file", "RIFFsound")
		if got := e.Post("/v1/audio/transcriptions", diarized, header); got.Status != 400 || !strings.Contains(got.Body, `"param":"response_format"`) {
			t.Errorf("a format that the contract does not list: got %d %s, want a 400", got.Status, got.Body)
		}
	})
}

// TestToolCallIDs checks that tool calls get ids that are unique across answers if the engine sends
// none. Otherwise, a conversation would have several tool calls of the same id.
func TestToolCallIDs(t *testing.T) {
	const call = `"tool_calls":[{"index":0,"type":"function","function":{"name":"look","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`
	answer := func(w http.ResponseWriter, r *http.Request) {
		if !calltest.AsksStream(r) {
			calltest.PiecesHandler(200, "application/json", `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant",`+call)(w, r)
			return
		}
		s := calltest.StartStream(w)
		s.Send(`{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{` + call)
		s.Send("[DONE]")
	}
	for _, more := range []string{"", `,"stream":true`} {
		synctest.Test(t, func(t *testing.T) {
			e := calltest.New(t, models, enginesOf(answer)...)
			seen := map[string]bool{}
			for range 2 {
				got := e.Post("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]`+more+`}`)
				_, id, ok := strings.Cut(got.Body, `"id":"call_`)
				if id, _, _ = strings.Cut(id, `"`); !ok || seen[id] {
					t.Errorf("the id of the tool call is %q, want one that is new: %s", id, got.Body)
				}
				seen[id] = true
			}
		})
	}
}

// TestSpeechIsCharged checks that speech is charged an estimate, because engines count no tokens of it.
func TestSpeechIsCharged(t *testing.T) {
	for _, tt := range []struct {
		name, proto, more string
		answer            http.HandlerFunc
		charged           bool
	}{
		{"audio", "HTTP/1.1", "", calltest.PiecesHandler(200, "audio/wav", "RIFF", "sound"), true},
		{"whole audio", "HTTP/1.0", "", calltest.PiecesHandler(200, "audio/wav", "RIFFsound"), true},
		{"events", "HTTP/1.1", `,"stream_format":"sse"`, calltest.PiecesHandler(200, "audio/mpeg", "sound"), true},
		{"failure", "HTTP/1.1", "", calltest.PiecesHandler(200, "audio/wav", ""), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := calltest.New(t, models, enginesOf(tt.answer)...)
				answer, err := e.Connect().PostProto(tt.proto, "/v1/audio/speech", `{"model":"say","voice":"v","input":"hi"`+tt.more+`}`)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.ReadAll(answer.Body)
				synctest.Wait()
				if line := e.LastCall(); (line["prompt_tokens"] != int64(0)) != tt.charged || line["tokens_estimated"] != tt.charged {
					t.Errorf("the log has %v, want an estimate: %v", line, tt.charged)
				}
			})
		})
	}
}

// TestErrorsNameClientMembers checks that an error about the request that is sent names the member of the
// request that the client sent, for each dialect.
func TestErrorsNameClientMembers(t *testing.T) {
	const png = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
	image := strings.TrimPrefix(png, "data:image/png;base64,")
	for path, c := range map[string]struct{ body, place string }{
		"/v1/chat/completions": {`{"model":"plain","messages":[{"role":"system","content":"be kind"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + png + `"}}]}]}`, "messages[1]"},
		"/v1/messages":         {`{"model":"plain","max_tokens":9,"system":"be kind","messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + image + `"}}]}]}`, "messages[0]"},
		"/v1/responses":        {`{"model":"plain","instructions":"be kind","input":[{"role":"user","content":[{"type":"input_image","image_url":"` + png + `"}]}]}`, "input[0]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := calltest.New(t, models, enginesOf(nil)...)
			if got := e.Post(path, c.body); got.Status != 400 || !strings.Contains(got.Body, c.place) {
				t.Errorf("%s: got %d %s, want a 400 about %s", path, got.Status, got.Body, c.place)
			}
		})
	}
}

// TestSessions checks from which member of a request its session is taken.
func TestSessions(t *testing.T) {
	for path, c := range map[string]struct{ body, none string }{
		"/v1/chat/completions": {`{"model":"m","messages":[{"role":"user","content":"hi"}],"prompt_cache_key":"talk"}`, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`},
		"/v1/responses":        {`{"model":"m","input":"hi","prompt_cache_key":"talk"}`, `{"model":"m","input":"hi"}`},
		"/v1/embeddings":       {"", `{"model":"e","input":"hi"}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := calltest.New(t, "log: {sessions: true}"+models, enginesOf(nil)...)
			var seen []any
			for _, body := range []string{c.body, c.body, c.none} {
				if body == "" {
					continue
				}
				e.Post(path, body)
				seen = append(seen, e.LastCall()["session"])
			}
			if last := seen[len(seen)-1]; last != nil {
				t.Errorf("%s: got the session %v, want none", path, last)
			}
			if len(seen) == 3 && (seen[0] == nil || seen[0] != seen[1]) {
				t.Errorf("%s: got the sessions %v, want the same twice", path, seen)
			}
		})
	}
}

// TestRealtimeHandshake checks the handshake for each kind of engine, and the number of received
// bytes in the log.
func TestRealtimeHandshake(t *testing.T) {
	const config = `
auth: none
upstreams:
  - {name: v, engine: vllm, url: "http://v", concurrency: {audio: 4}}
  - {name: s, engine: speaches, url: "http://s", concurrency: {audio: 4}}
  - {name: w, engine: whisper, url: "http://w", concurrency: {audio: 4}}
models:
  - {id: voxtral, kind: audio-transcription, deployments: [{upstream: v}]}
  - {id: hear, kind: audio-transcription, deployments: [{upstream: s, served: in ner}]}
  - {id: whole, kind: audio-transcription, deployments: [{upstream: w}]}
`
	for model, want := range map[string]string{
		"voxtral": "/v1/realtime", "hear": "/v1/realtime?intent=transcription&model=in+ner", "whole": "",
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := ""
			accept := func(w http.ResponseWriter, r *http.Request) {
				asked = r.URL.String()
				calltest.UpgradeHandler(func(net.Conn) {})(w, r)
			}
			e := calltest.New(t, config, &calltest.Engine{Name: "v", Models: []string{"voxtral"}, Answer: accept},
				&calltest.Engine{Name: "s", Models: []string{"in ner"}, Answer: accept}, &calltest.Engine{Name: "w", Models: []string{"whole"}, Answer: accept})
			d, refused := e.OpenDialogue(&calltest.Client{}, model, func(*call.DialogueEngine) error { return nil })
			if d == nil {
				if want != "" || refused.Status != 404 {
					t.Errorf("%s: got %d %s, want a dialogue: %q", model, refused.Status, refused.Body, want)
				}
				return
			}
			d.AddBytesIn(300)
			d.Complete()
			d.End()
			if in := e.LastCall()["bytes_in"]; asked != want || in != int64(300+len(`{"model":"`+model+`"}`)) {
				t.Errorf("%s: asked %q, want %q; %v bytes in", model, asked, want, in)
			}
		})
	}
}
