package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
	"penstock/upstreams/engine"
)

// These tests use every engine that the simulator imitates, without any engine settings. The edge
// must detect the kind, load and limits from the engine's endpoints.

// detectedProfiles maps the simulator's name for an engine to the profile that the edge detects, if
// they differ.
var detectedProfiles = map[string]string{"openai": "sim", "vllm-omni": "vllm"}

// reportedFacts lists the slots, load and models that each engine reports.
var reportedFacts = map[string]struct {
	slots, load bool
	models      string
}{
	"vllm": {false, true, "sim"}, "vllm-omni": {false, true, "sim"}, "sglang": {true, true, "sim"}, "llamacpp": {true, true, "sim"}, "tgi": {true, true, "sim"},
	"trtllm": {false, true, "sim"}, "llamacpp-router": {false, false, "sim"}, "ollama": {false, false, "sim"}, "openai": {false, false, "sim"}, "lmstudio": {false, false, "sim"},
	"whisper": {}, "whisper-openai": {}, "speaches": {models: "Systran/faster-whisper-small"}, "kokoro": {models: "tts-1 tts-1-hd kokoro"},
}

func detectEngine(t *testing.T, e *sim.Engine) engine.Detection {
	t.Helper()
	profiles, err := engine.LoadProfiles(nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := engine.Detect(t.Context(), e.URL(), "", profiles)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestEngines_Recognised(t *testing.T) {
	t.Parallel()
	for _, name := range sim.Profiles() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, known := reportedFacts[name]
			if !known {
				t.Fatalf("the simulator plays %s: say here what is known of it", name)
			}
			e := rig.StartEngine(t, sim.Options{Profile: name, Slots: 3})
			d := detectEngine(t, e)
			engine := name
			if other := detectedProfiles[name]; other != "" {
				engine = other
			}
			var ids []string
			for _, m := range d.Models {
				ids = append(ids, m.ID)
			}
			if got := strings.Join(ids, " "); !d.Recognised || d.Profile.Name() != engine || !d.Healthy || got != want.models {
				t.Errorf("recognised %t as %s, healthy %t, models %s", d.Recognised, d.Profile.Name(), d.Healthy, got)
			}
			if want.slots != (d.Slots == 3) {
				t.Errorf("it tells of %d slots", d.Slots)
			}
			if want.load != (d.Load != nil) {
				t.Errorf("load = %+v, want one: %t", d.Load, want.load)
			}
			e.SetHealthy(false)
			// For these engines, the health probe requests the list of models.
			if d = detectEngine(t, e); d.Healthy && name != "lmstudio" && name != "sglang" && name != "ollama" && name != "openai" {
				t.Error("healthy although its health page says no")
			}
		})
	}
}

// TestEngines_Load checks the load that each engine reports: one running request and one waiting
// request.
func TestEngines_Load(t *testing.T) {
	t.Parallel()
	for name, want := range reportedFacts {
		if !want.load {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := rig.StartEngine(t, sim.Options{Profile: name, Slots: 1})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for range 2 {
				go func() {
					r, _ := http.NewRequestWithContext(ctx, "POST", e.URL()+"/v1/chat/completions", strings.NewReader(`{"model":"sim","stream":true,"messages":[{"role":"user","content":"x"}],"sim":{"ttft_ms":60000}}`))
					r.Header.Set("Content-Type", "application/json")
					resp, err := http.DefaultClient.Do(r)
					if err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
					}
				}()
			}
			rig.WaitFor(t, rig.WaitTimeout, "one runs, one waits", func() bool { s := e.Stats(); return s.Running == 1 && s.Waiting == 1 })
			if d := detectEngine(t, e); d.Load == nil || d.Load.Running != 1 || d.Load.Waiting > 1 || name != "llamacpp" && d.Load.Waiting != 1 {
				t.Errorf("load = %+v, want 1 running and 1 waiting", d.Load)
			}
		})
	}
}

var textEngines = []string{"vllm", "vllm-omni", "openai", "llamacpp", "llamacpp-router", "sglang", "ollama", "tgi", "trtllm", "lmstudio"}

// TestEngines_Text checks that the answer of every chat engine is the same in three dialects.
func TestEngines_Text(t *testing.T) {
	t.Parallel()
	for _, name := range textEngines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Engines: []sim.Options{{Profile: name}}, Config: detectConfig})
			const said = `[[sim {\"text\":\"Guten Tag, Welt\"}]]`
			for _, stream := range []string{"false", "true"} {
				for path, body := range map[string]string{
					"/v1/chat/completions": `{"model":"public","messages":[{"role":"user","content":"` + said + `"}],"stream":` + stream + `}`,
					"/v1/messages":         `{"model":"public","max_tokens":50,"messages":[{"role":"user","content":"` + said + `"}],"stream":` + stream + `}`,
					"/v1/responses":        `{"model":"public","input":"` + said + `","stream":` + stream + `}`,
				} {
					r := p.Post(path, body).WantStatus(200)
					if got := r.Body; strings.Contains(got, `"error":{`) || !strings.Contains(got, "Welt") {
						t.Errorf("%s, stream %s: answer = %.900s, want Welt in it and no error", path, stream, got)
					}
					if l := p.LastAccessLine(); l.Outcome != "ok" || l.PromptTokens == 0 || l.CompletionTokens == 0 {
						t.Errorf("%s, stream %s: last call = %+v, want ok with tokens", path, stream, l)
					}
				}
			}
		})
	}
}

// TestEngines_Tools checks that a Messages client receives the tool calls of every engine as
// tool_use blocks, regardless of how the engine splits, numbers and finishes them.
func TestEngines_Tools(t *testing.T) {
	t.Parallel()
	for _, name := range textEngines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Engines: []sim.Options{{Profile: name}}, Config: detectConfig})
			for _, stream := range []string{"false", "true"} {
				r := p.Post("/v1/messages", `{"model":"public","max_tokens":500,"messages":[{"role":"user","content":"hi"}],"stream":`+stream+`,
					"tools":[{"name":"get_weather","input_schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}]}`).WantStatus(200)
				if !strings.Contains(r.Body, `"tool_use"`) || !strings.Contains(r.Body, `"name":"get_weather"`) || !strings.Contains(r.Body, `"stop_reason":"tool_use"`) {
					t.Errorf("stream %s: answer = %s, want a tool use of get_weather", stream, r.Body)
				}
			}
		})
	}
}

// TestEngines_TooLong checks that the edge recognizes every engine's error for a prompt that is too
// long, so that agents can shorten the prompt and continue.
func TestEngines_TooLong(t *testing.T) {
	t.Parallel()
	for _, name := range textEngines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Engines: []sim.Options{{Profile: name, MaxModelLen: 500}}, Config: detectConfig})
			for _, stream := range []string{"false", "true"} {
				body := `{"model":"public","max_tokens":20,"messages":[{"role":"user","content":"` + strings.Repeat("word ", 1000) + `"}],"stream":` + stream + `}`
				p.Post("/v1/chat/completions", body).WantError(400, "invalid_request_error", "context_length_exceeded")
				if r := p.Post("/v1/messages", body).WantStatus(400); !strings.Contains(r.Body, `"message":"prompt is too long`) {
					t.Errorf("stream %s: answer = %s, want prompt is too long", stream, r.Body)
				}
			}
		})
	}
}

// TestEngines_TooLongInOtherWords checks error messages that the simulator does not send. If the
// sizes are known, the edge's error must state the prompt's size and the limit.
func TestEngines_TooLongInOtherWords(t *testing.T) {
	t.Parallel()
	for message, told := range map[string]string{
		"prompt too long; exceeded max context length by 37 tokens":                                 "prompt is too long: 2085 tokens > 2048 maximum",
		"The sum of prompt length (9000), query length (0) should not exceed max_num_tokens (8192)": "prompt is too long: 9000 tokens > 8192 maximum",
	} {
		engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				_, _ = io.WriteString(w, `{"data":[{"id":"talk"}]}`)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"`+message+`","type":"invalid_request_error"}}`)
		}))
		t.Cleanup(engine.Close)
		p := start(t, rig.Setup{Cold: true, Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: bare, url: "` + engine.URL + `", engine: openai }]
models: [{ id: talk, context_length: 2048, deployments: [{ upstream: bare }] }]
`})
		rig.WaitFor(t, rig.WaitTimeout, "the upstream is up", func() bool { return p.Metric("penstock_upstream_up") == 1 })
		for _, w := range rig.TextRequestTypes {
			r := p.Post(w.Path, w.RequestBody("talk", "hi", ""))
			if r.WantStatus(400); !strings.Contains(r.Body, `"context_length_exceeded"`) {
				t.Errorf("%v: answer = %s, want context_length_exceeded", w, r.Body)
			}
			if w.Dialect == "messages" && !strings.Contains(r.Body, `"message":"`+told) {
				t.Errorf("%v: %s, want %s", w, r.Body, told)
			}
		}
	}
}

// TestEngines_Full checks that a call moves from a full engine to another engine, regardless of
// what the full engine answers.
func TestEngines_Full(t *testing.T) {
	t.Parallel()
	for _, name := range textEngines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Engines: []sim.Options{{Profile: name, Slots: 1, NoQueue: true}, {}}, Config: `
timeouts: { linger: 0s }
retry: { budget: 100% }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams:
  - { name: up-0, url: "{{up-0}}", weight: 1000, concurrency: 100 }
  - { name: up-1, url: "{{up-1}}" }
models: [{ id: public, deployments: [{ upstream: up-0, served: sim }, { upstream: up-1, served: sim }] }]
`})
			p.Engines[0].SetSlots(0)
			for _, stream := range []string{"false", "true"} {
				before := p.Engines[1].Stats().Completed
				p.Post("/v1/chat/completions", `{"model":"public","messages":[{"role":"user","content":"hi"}],"stream":`+stream+`}`).WantStatus(200)
				rig.WaitFor(t, rig.WaitTimeout, "the other engine has answered", func() bool { return p.Engines[1].Stats().Completed == before+1 })
			}
		})
	}
}

// TestEngines_Audio checks the engines for transcriptions and speech.
func TestEngines_Audio(t *testing.T) {
	t.Parallel()
	const config = `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "{{up-0}}" }]
models:
  - { id: ears, kind: audio-transcription, deployments: [{ upstream: up-0, served: SERVED }] }
  - { id: voice, kind: audio-speech, deployments: [{ upstream: up-0, served: SERVED }] }
`
	models := map[string][]string{"vllm": {"org/whisper"}} // the other engines use different names
	for name, served := range map[string]string{"whisper": "ears", "whisper-openai": "ears", "speaches": "Systran/faster-whisper-small", "kokoro": "kokoro", "vllm": "org/whisper"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Engines: []sim.Options{{Profile: name, Models: models[name], Record: true}}, Config: strings.ReplaceAll(config, "SERVED", served)})
			if name != "kokoro" {
				for format, want := range map[string]string{"json": "application/json", "text": "text/plain", "srt": "text/srt", "vtt": "text/vtt", "verbose_json": "application/json"} {
					r := p.upload(transcriptions, text("model", "ears"), text("response_format", format), wav("RIFF and so on")).WantStatus(200)
					if got := r.Header.Get("Content-Type"); got != want {
						t.Errorf("format %s: Content-Type = %s, want %s", format, got, want)
					}
				}
				if name == "vllm" {
					for _, format := range []string{"json", "text"} {
						r := p.upload(transcriptions, text("model", "ears"), text("stream", "true"), text("response_format", format), wav(string(longSound()))).WantStatus(200)
						if events := r.Events(); len(events) < 20 || events[len(events)-1].Data != "[DONE]" || !strings.Contains(r.Body, `"model":"ears"`) || strings.Contains(r.Body, `"error"`) {
							t.Errorf("format %s: answer = %s, want 20 events or more and no error", format, r.Body)
						}
					}
					p.upload(transcriptions, text("model", "ears"), text("stream", "true"), text("response_format", "verbose_json"), wav("RIFF")).WantStatus(400)
				}
				if name == "speaches" {
					for _, format := range []string{"json", "text", "srt", "vtt", "verbose_json"} {
						r := p.upload(transcriptions, text("model", "ears"), text("stream", "true"), text("response_format", format), wav(string(longSound()))).WantStatus(200)
						wantTranscript(t, r, format)
					}
				}
			}
			if slices.Contains([]string{"kokoro", "speaches"}, name) {
				for format, want := range map[string]string{"wav": "audio/wav", "mp3": "audio/mpeg", "pcm": "audio/pcm"} {
					r := p.Post(speech, fmt.Sprintf(`{"model":"voice","input":"one two","voice":"alloy","response_format":%q}`, format)).WantStatus(200)
					if got := r.Header.Get("Content-Type"); got != want || r.Body == "" {
						t.Errorf("format %s: Content-Type = %s with %d bytes, want %s with a body", format, got, len(r.Body), want)
					}
				}
			}
			if name == "kokoro" {
				p.Post(speech, `{"model":"voice","input":"one","voice":"nobody"}`).WantError(400, "invalid_request_error", "rejected_by_engine")
				// A truncated file looks like a complete one.
				p.Engines[0].SetFault(sim.Fault{Spec: "close-delimited"})
				r := p.Post(speech, `{"model":"voice","input":"one two","voice":"alloy","stream_format":"sse"}`)
				if !strings.Contains(r.Body, "answer had no length") {
					t.Errorf("sound of no length: %d %s", r.Status, r.Body)
				}
			}
		})
	}
}

// TestEngines_EmptyID checks that the edge generates an id, because answers from TGI have an empty
// id.
func TestEngines_EmptyID(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: []sim.Options{{Profile: "tgi"}}})
	for _, more := range []string{``, `"stream":true`} {
		if r := p.Post(chatPath, rig.ChatBody("sim", more)).WantStatus(200); !strings.Contains(r.Body, `"id":"chatcmpl-`) || strings.Contains(r.Body, `"id":""`) {
			t.Errorf("%s: answer = %s, want an id of a chat completion", more, r.Body)
		}
	}
}

// TestEngines_NotNow checks that errors from llama.cpp's router while it swaps a model do not count
// as failures. The edge must retry the call once after a pause, or send it to another engine.
func TestEngines_NotNow(t *testing.T) {
	t.Parallel()
	const refused, silent, good = `500 {"error":{"code":500,"message":"proxy error: Could not establish connection","type":"server_error"}}`, "400 ",
		`200 {"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"delta":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`
	router := func(t *testing.T, answers ...string) (url string, asked *atomic.Int64) {
		asked = new(atomic.Int64)
		engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				_, _ = io.WriteString(w, `{"data":[{"id":"m","status":{"value":"loaded"}}]}`)
				return
			}
			answer := answers[min(int(asked.Add(1)), len(answers))-1]
			status, _ := strconv.Atoi(answer[:3])
			body := answer[4:]
			w.Header().Set("Content-Type", "application/json")
			if status == 200 {
				w.Header().Set("Content-Type", "text/event-stream") // the edge requests only streams
				body = "data: " + body + "\n\ndata: [DONE]\n\n"
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(engine.Close)
		return engine.URL, asked
	}
	for name, c := range map[string]struct {
		first, second []string // answers of the two engines
		status        int
		code          string
		asked         [2]int64
	}{
		"no child":                 {[]string{refused, good}, nil, 200, "", [2]int64{2, 0}},
		"none still":               {[]string{refused}, nil, 503, "no_healthy_route", [2]int64{2, 0}},
		"a child that came":        {[]string{silent, good}, nil, 200, "", [2]int64{2, 0}},
		"a bad request":            {[]string{silent}, nil, 400, "rejected_by_engine", [2]int64{2, 0}},
		"no child here, one there": {[]string{refused, good}, []string{good}, 200, "", [2]int64{1, 1}},
		"silent here":              {[]string{silent, good}, []string{good}, 200, "", [2]int64{2, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, asked := router(t, c.first...)
			config := "timeouts: { linger: 0s }\nretry: { budget: 100% }\nkeys: [{ id: tester, hash: \"{{hash}}\" }]\nupstreams:\n  - { name: a, engine: llamacpp-router, weight: 1000, concurrency: 100, url: \"" + url + "\" }\n"
			deployments, n, other := "{ upstream: a, served: m }", 1.0, new(atomic.Int64)
			if c.second != nil {
				url, other = router(t, c.second...)
				config += "  - { name: b, engine: llamacpp-router, concurrency: 1, url: \"" + url + "\" }\n"
				deployments, n = deployments+", { upstream: b, served: m }", 2
			}
			p := start(t, rig.Setup{Cold: true, Config: config + "models: [{ id: public, deployments: [" + deployments + "] }]\n"})
			rig.WaitFor(t, rig.WaitTimeout, "the engines are up", func() bool { return p.Metric("penstock_upstream_up") == n })
			for _, stream := range []string{"false", "true"} {
				asked.Store(0)
				other.Store(0)
				r := p.Post(chatPath, `{"model":"public","stream":`+stream+`,"messages":[{"role":"user","content":"hi"}]}`).WantStatus(c.status)
				if c.code != "" && !strings.Contains(r.Body, `"`+c.code+`"`) {
					t.Errorf("stream %s: answer = %s, want the code %s", stream, r.Body, c.code)
				}
				if got := [2]int64{asked.Load(), other.Load()}; got != c.asked {
					t.Errorf("stream %s: the engines were asked %v times, want %v", stream, got, c.asked)
				}
			}
			if u := p.Upstream("a"); u.Breaker != "closed" {
				t.Errorf("the breaker is %s", u.Breaker)
			}
		})
	}
}
