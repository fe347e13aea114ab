package endpoint_test

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"penstock/config"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/internal/calltest"
)

const models = `
auth: none
seal: {keys: ["0123456789abcdef0123456789abcdef"]}
upstreams:
  - {name: v, engine: vllm, url: "http://v", concurrency: {text: 4, vision: 4, audio: 4}}
  - {name: s, engine: speaches, url: "http://s", concurrency: {audio: 4}}
  - {name: o, engine: openai, url: "http://o", concurrency: {text: 4, vision: 4}}
  - {name: l, engine: llamacpp, url: "http://l", concurrency: {text: 4}}
models:
  - {id: m, deployments: [{upstream: v}]}
  - {id: local, deployments: [{upstream: l}]}
  - {id: e, kind: embedding, deployments: [{upstream: v}]}
  - {id: r, kind: rerank, deployments: [{upstream: v}]}
  - {id: say, kind: audio-speech, deployments: [{upstream: s}]}
  - {id: hear, kind: audio-transcription, deployments: [{upstream: s}]}
  - {id: draw, kind: image, deployments: [{upstream: o}]}
  - {id: edit, kind: image-edit, deployments: [{upstream: o}]}
  - {id: plain, input_modalities: [text], deployments: [{upstream: v, served: m}]}
`

// enginesOf returns the engines of the configuration models. All of them send the same answer.
func enginesOf(answer http.HandlerFunc) []*calltest.Engine {
	return []*calltest.Engine{
		{Name: "v", Models: []string{"m", "e", "r"}, Answer: answer},
		{Name: "s", Models: []string{"say", "hear"}, Answer: answer},
		{Name: "o", Models: []string{"draw", "edit"}, Answer: answer},
		{Name: "l", Models: []string{"local"}, Answer: answer},
	}
}

// form returns a multipart body with the given fields. The fields named file and image become
// files.
func form(fields ...string) (body, header string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == "file" || fields[i] == "image" {
			part, _ := w.CreateFormFile(fields[i], "a.bin")
			_, _ = part.Write([]byte(fields[i+1]))
			continue
		}
		_ = w.WriteField(fields[i], fields[i+1])
	}
	_ = w.Close()
	return b.String(), "Content-Type: " + w.FormDataContentType()
}

// TestExchanges checks the engine's request and the client's answer for each endpoint.
func TestExchanges(t *testing.T) {
	const json, events = "application/json", "text/event-stream"
	heard, heardType := form("model", "hear", "language", "en", "file", "RIFFsound")
	text, textType := form("model", "hear", "response_format", "srt", "file", "RIFFsound")
	live, liveType := form("model", "hear", "stream", "true", "file", "RIFFsound")
	edit, editType := form("model", "edit", "prompt", "a hat", "image", "PNG")
	noFile, noFileType := form("model", "hear", "language", "en")
	twice, twiceType := form("model", "hear", "model", "hear", "file", "RIFF")
	tests := []struct {
		name, path, body, header string
		answer                   http.HandlerFunc
		sent                     []string
		status                   int
		has                      []string
	}{
		{
			name: "chat", path: "/v1/chat/completions", body: `{"model":"m","messages":[{"role":"user","content":"hi"}],"temperature":0.5}`,
			sent: []string{`"temperature":0.5`}, status: 200, has: []string{`"content":"ok"`},
		},
		{
			name: "messages with a tool", path: "/v1/messages", body: `{"model":"m","max_tokens":20,"system":"be kind","messages":[{"role":"user","content":"hi"}],"tools":[{"name":"look","input_schema":{"type":"object"}}]}`,
			sent: []string{`"be kind"`, `"function"`, `"look"`}, status: 200, has: []string{`"type":"message"`, `"text":"ok"`},
		},
		{
			name: "responses with instructions", path: "/v1/responses", body: `{"model":"m","instructions":"be kind","input":[{"role":"user","content":"hi"}],"store":false}`,
			sent: []string{`"be kind"`}, status: 200, has: []string{`"object":"response"`, `"text":"ok"`},
		},
		{name: "input tokens", path: "/v1/responses/input_tokens", body: `{"model":"m","input":"hi there"}`, status: 200, has: []string{`"input_tokens":`}},
		{name: "count tokens", path: "/v1/messages/count_tokens", body: `{"model":"m","messages":[{"role":"user","content":"hi there"}]}`, status: 200, has: []string{`"input_tokens":`}},
		{
			name: "completions", path: "/v1/completions", body: `{"model":"m","prompt":"once"}`, answer: calltest.PiecesHandler(200, json, `{"id":"c","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"upon","finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`),
			sent: []string{`"prompt":"once"`}, status: 200, has: []string{`"upon"`},
		},
		{
			name: "completions, streamed", path: "/v1/completions", body: `{"model":"m","prompt":"once","stream":true}`, answer: calltest.PiecesHandler(200, events, "data: {\"id\":\"c\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":\"upon\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"),
			sent: []string{`"stream":true`}, status: 200, has: []string{`"upon"`, "[DONE]"},
		},
		{
			name: "embeddings", path: "/v1/embeddings", body: `{"model":"e","input":["hi"]}`, answer: calltest.PiecesHandler(200, json, `{"object":"list","model":"x","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":1,"total_tokens":1}}`),
			sent: []string{`"input":["hi"]`}, status: 200, has: []string{`[0.5]`, `"model":"e"`},
		},
		{
			name: "rerank", path: "/v1/rerank", body: `{"model":"r","query":"q","documents":["a","b"],"top_n":1}`, answer: calltest.PiecesHandler(200, json, `{"id":"r1","model":"x","results":[{"index":1,"relevance_score":0.75}]}`),
			sent: []string{`"documents":["a","b"]`}, status: 200, has: []string{`0.75`},
		},
		{
			name: "speech", path: "/v1/audio/speech", body: `{"model":"say","input":"hi","voice":"v","response_format":"wav"}`, answer: calltest.PiecesHandler(200, "audio/wav", "RIFFsound"),
			sent: []string{`"input":"hi"`}, status: 200, has: []string{"RIFFsound"},
		},
		{
			name: "speech as events", path: "/v1/audio/speech", body: `{"model":"say","input":"hi","voice":"v","stream_format":"sse"}`, answer: calltest.PiecesHandler(200, "audio/mpeg", "sound"),
			status: 200, has: []string{"speech.audio.delta", "speech.audio.done"},
		},
		{name: "speech without sound", path: "/v1/audio/speech", body: `{"model":"say","input":"hi","voice":"v"}`, answer: calltest.PiecesHandler(200, "audio/wav", ""), status: 502, has: []string{`"error"`}},
		{name: "speech that is json", path: "/v1/audio/speech", body: `{"model":"say","input":"hi","voice":"v"}`, answer: calltest.PiecesHandler(200, json, `{"error":"no voice"}`), status: 502, has: []string{`"error"`}},
		{
			name: "transcription", path: "/v1/audio/transcriptions", body: heard, header: heardType, answer: calltest.PiecesHandler(200, json, `{"text":"good day"}`),
			sent: []string{"RIFFsound", "language"}, status: 200, has: []string{"good day"},
		},
		{name: "transcription as text", path: "/v1/audio/transcriptions", body: text, header: textType, answer: calltest.PiecesHandler(200, "text/plain", "1\n00:00 good day"), status: 200, has: []string{"good day"}},
		{name: "transcription as text that is json", path: "/v1/audio/transcriptions", body: text, header: textType, answer: calltest.PiecesHandler(200, json, `{"text":"good day"}`), status: 502, has: []string{`"error"`}},
		{
			name: "transcription as events", path: "/v1/audio/transcriptions", body: live, header: liveType, answer: calltest.PiecesHandler(200, events, "data: {\"type\":\"transcript.text.delta\",\"delta\":\"good day\"}\n\ndata: {\"type\":\"transcript.text.done\",\"text\":\"good day\"}\n\n"),
			status: 200, has: []string{"transcript.text.delta", "transcript.text.done"},
		},
		{name: "transcription, whole for events", path: "/v1/audio/transcriptions", body: live, header: liveType, answer: calltest.PiecesHandler(200, json, `{"text":"good day"}`), status: 200, has: []string{"transcript.text.done", "good day"}},
		{name: "transcription without a text", path: "/v1/audio/transcriptions", body: heard, header: heardType, answer: calltest.PiecesHandler(200, json, `{"text":null}`), status: 502, has: []string{`"upstream_bad_response"`}},
		{name: "no file", path: "/v1/audio/transcriptions", body: noFile, header: noFileType, status: 400, has: []string{`"param":"file"`}},
		{name: "a field twice", path: "/v1/audio/transcriptions", body: twice, header: twiceType, status: 400, has: []string{`"param":"model"`}},
		{name: "no form", path: "/v1/audio/transcriptions", body: `{"model":"hear"}`, status: 415, has: []string{`"error"`}},
		{name: "images", path: "/v1/images/generations", body: `{"model":"draw","prompt":"a hat"}`, answer: calltest.PiecesHandler(200, json, `{"created":1,"data":[{"b64_json":"aGk="}]}`), sent: []string{`"prompt":"a hat"`}, status: 200, has: []string{"aGk="}},
		{name: "image edits", path: "/v1/images/edits", body: edit, header: editType, answer: calltest.PiecesHandler(200, json, `{"created":1,"data":[{"b64_json":"aGk="}]}`), sent: []string{"a hat"}, status: 200, has: []string{"aGk="}},
		{
			name: "chat, streamed", path: "/v1/chat/completions", body: `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`,
			sent: []string{`"stream":true`}, status: 200, has: []string{`"content":"ok"`, "data: [DONE]"},
		},
		{
			name: "chat at an engine that cancels streams only", path: "/v1/chat/completions", body: `{"model":"local","messages":[{"role":"user","content":"hi"}]}`,
			sent: []string{`"stream":true`}, status: 200, has: []string{`"content":"ok"`},
		},
		{
			name: "messages, streamed", path: "/v1/messages", body: `{"model":"m","max_tokens":20,"messages":[{"role":"user","content":"hi"}],"stream":true,"metadata":{"user_id":"u"}}`,
			sent: []string{`"stream":true`}, status: 200, has: []string{"message_start", `"text":"ok"`, "message_stop"},
		},
		{
			name: "responses, streamed", path: "/v1/responses", body: `{"model":"m","input":"hi","stream":true}`,
			sent: []string{`"stream":true`}, status: 200, has: []string{"response.created", `"delta":"ok"`, "response.completed"},
		},
		{
			name: "compaction", path: "/v1/responses/compact", body: `{"model":"m","input":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}`,
			status: 200, has: []string{`"compaction"`},
		},
		{
			name: "thinking", path: "/v1/messages", body: `{"model":"m","max_tokens":2000,"messages":[{"role":"user","content":"hi"}],"thinking":{"type":"enabled","budget_tokens":1024}}`,
			answer: calltest.PiecesHandler(200, json, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"four","reasoning_content":"two and two"},"finish_reason":"stop"}]}`),
			status: 200, has: []string{`"thinking":"two and two"`, `"text":"four"`},
		},
		{
			name: "an image", path: "/v1/chat/completions", body: `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="}}]}]}`,
			sent: []string{"data:image/png"}, status: 200, has: []string{`"ok"`},
		},
		{
			name: "large embeddings", path: "/v1/embeddings", body: `{"model":"e","input":"hi"}`, answer: calltest.PiecesHandler(200, json, `{"object":"list","model":"x","data":[{"object":"embedding","index":0,"embedding":[`+strings.Repeat("0.125,", 50_000)+`0.5]}],"usage":{"prompt_tokens":1,"total_tokens":1}}`),
			status: 200, has: []string{`,0.5]`, `"model":"e"`},
		},
		{name: "a large transcript", path: "/v1/audio/transcriptions", body: heard, header: heardType, answer: calltest.PiecesHandler(200, json, `{"text":"`+strings.Repeat("good day ", 20_000)+`"}`), status: 200, has: []string{"good day"}},
		{name: "score", path: "/v1/score", body: `{"model":"r","query":"q","documents":["a"]}`, answer: calltest.PiecesHandler(200, json, `{"id":"s","data":[{"index":0,"score":0.5}]}`), status: 200, has: []string{`0.5`}},
		{name: "tokenize", path: "/tokenize", body: `{"model":"m","prompt":"hi"}`, answer: calltest.PiecesHandler(200, json, `{"count":1,"tokens":[7]}`), status: 200, has: []string{`[7]`}},
		{name: "score where no engine has it", path: "/v1/score", body: `{"model":"draw","query":"q","documents":["a"]}`, status: 400, has: []string{`"error"`}},
		{name: "moderations", path: "/v1/moderations", body: `{"model":"m","input":"hi"}`, status: 400, has: []string{`"error"`}},
		{name: "messages for a model that is not there", path: "/v1/messages", body: `{"model":"none","max_tokens":20,"messages":[{"role":"user","content":"hi"}]}`, status: 404, has: []string{"not_found_error"}},
		{name: "messages with a bad part", path: "/v1/messages", body: `{"model":"m","max_tokens":20,"messages":[{"role":"user","content":[{"type":"odd"}]}]}`, status: 400, has: []string{"messages"}},
		{name: "responses with a bad part", path: "/v1/responses", body: `{"model":"m","input":[{"type":"odd"}]}`, status: 400, has: []string{"input"}},
		{name: "another kind", path: "/v1/embeddings", body: `{"model":"m","input":"hi"}`, status: 400, has: []string{`"error"`}},
		{name: "no json", path: "/v1/embeddings", body: `input`, status: 400, has: []string{"invalid_request_error"}},
		{name: "no input", path: "/v1/embeddings", body: `{"model":"e"}`, status: 400, has: []string{`"param":"input"`}},
		{name: "no voice", path: "/v1/audio/speech", body: `{"model":"say","voice":"v"}`, status: 400, has: []string{`"param":"input"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := enginesOf(tt.answer)
				var headers []string
				if tt.header != "" {
					headers = append(headers, tt.header)
				}
				e := calltest.New(t, models, all...)
				got := e.Post(tt.path, tt.body, headers...)
				if got.Status != tt.status {
					t.Fatalf("got %d %s, want %d", got.Status, got.Body, tt.status)
				}
				for _, part := range tt.has {
					if !strings.Contains(got.Body, part) {
						t.Errorf("got %s, want %q in it", got.Body, part)
					}
				}
				sent := ""
				for _, engine := range all {
					sent += strings.Join(engine.RequestBodies(), "\n")
				}
				for _, part := range tt.sent {
					if !strings.Contains(sent, part) {
						t.Errorf("the engine was sent %s, want %q in it", sent, part)
					}
				}
				if n := e.Services.Bodies.UsedBytes(); n != 0 {
					t.Errorf("%d bytes of requests are still held", n)
				}
			})
		})
	}
}

// TestNewEndpoint checks that an endpoint defined in a single file gets all features of a call:
// limits, errors in its dialect, engines and answers.
func TestNewEndpoint(t *testing.T) {
	endpoint.WithShout(t)
	synctest.Test(t, func(t *testing.T) {
		e := calltest.New(t, models, enginesOf(calltest.PiecesHandler(200, "application/json", `{"data":"quiet","usage":{"prompt_tokens":1}}`))...)
		for body, want := range map[string]string{
			`{"model":"e","input":"hi"}`: `"DATA":"QUIET"`,
			`{"model":"x","input":"hi"}`: `model_not_found`,
			`{"model":`:                  `invalid_request_error`,
		} {
			if got := e.Post("/v1/shout", body); !strings.Contains(got.Body, want) {
				t.Errorf("%s: got %d %s, want %s", body, got.Status, got.Body, want)
			}
		}
		if n := e.Services.Bodies.UsedBytes(); n != 0 {
			t.Errorf("%d bytes of requests are still held", n)
		}
	})
}

// TestNearestEndpointByPath checks which endpoint is suggested for a path that lacks the version,
// repeats it, or ends with a slash.
func TestNearestEndpointByPath(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/v1/chat/completions": "/v1/chat/completions", "/chat/completions": "/v1/chat/completions", "/v1/messages/": "/v1/messages",
		"/v1/v1/v1/responses/": "/v1/responses", "/nowhere": "", "": "", "/v1": "", "/v1/v1": "",
	} {
		got := ""
		if ep := endpoint.NearestEndpointByPath([]byte(path)); ep != nil {
			got = ep.Path
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}

// TestDialectByPath checks that an error is written in the dialect of the endpoint at the path or
// at a parent of the path.
func TestDialectByPath(t *testing.T) {
	for path, want := range map[string]*endpoint.Dialect{
		"/v1/messages": endpoint.DialectByPath([]byte("/v1/messages")), "/v1/messages/none": endpoint.DialectByPath([]byte("/v1/messages")), "/v1/messagesx": endpoint.ChatDialect, "/": endpoint.ChatDialect,
	} {
		if got := endpoint.DialectByPath([]byte(path)); got != want {
			t.Errorf("%s: got the dialect of %s, want %s", path, got.Name, want.Name)
		}
	}
	if endpoint.DialectByPath([]byte("/v1/messages")) == endpoint.ChatDialect {
		t.Error("Messages has the errors of chat")
	}
}

// TestAllHavePaths checks that EndpointByPath finds each endpoint, which implies that no two
// endpoints have the same path.
func TestAllHavePaths(t *testing.T) {
	for _, ep := range endpoint.AllEndpoints {
		if endpoint.EndpointByPath([]byte(ep.Path)) != ep {
			t.Errorf("%s is not found at its path", fmt.Sprint(ep.Path))
		}
	}
}

// TestTooLarge checks that the error for a large body contains the configured limit. The limit must
// not include the bytes that the edge adds.
func TestTooLarge(t *testing.T) {
	for _, ep := range endpoint.AllEndpoints {
		e := ep.TooLargeError(ep.ApplicableLimit(config.BodyLimits{RequestBody: 4096, UploadBody: 4096}))
		if e.Status != 413 || !strings.Contains(e.Message, "4096") && !strings.Contains(e.Message, "4 KiB") {
			t.Errorf("%s: got %d, want a 413 that names the limit of 4 KiB: %s", ep.Path, e.Status, e.Message)
		}
	}
}
