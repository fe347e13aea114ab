package engine

import (
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"penstock/config"
	"penstock/upstreams/http1"
)

// TestGenerationSteps checks that the request is small, contains the engine's name for the model,
// and suits the model's kind.
func TestGenerationSteps(t *testing.T) {
	for _, c := range []struct {
		engine, kind string
		want         []string // expected path and members
	}{
		{"vllm", config.ModelKindChat, []string{
			`/v1/chat/completions {"max_tokens":1,"messages":[{"content":"ping","role":"user"}],"model":"a \"b\"","stream":true}`,
			`/v1/completions {"max_tokens":1,"model":"a \"b\"","prompt":"ping","stream":true}`,
		}},
		{"llamacpp", "", []string{
			`/v1/chat/completions {"max_tokens":1,"messages":[{"content":"ping","role":"user"}],"model":"a \"b\"","stream":true}`,
			`/v1/completions {"max_tokens":1,"model":"a \"b\"","prompt":"ping","stream":true}`,
		}},
		{"vllm", config.ModelKindEmbedding, []string{`/v1/embeddings {"input":"ping","model":"a \"b\""}`}},
		{"vllm", config.ModelKindRerank, []string{`/v1/rerank {"documents":["ping"],"model":"a \"b\"","query":"ping"}`}},
		{"kokoro", config.ModelKindSpeech, []string{`/v1/audio/speech {"input":"a","model":"a \"b\""}`}},
		{"openai", config.ModelKindImage, nil},
		{"openai", config.ModelKindImageEdit, nil},
	} {
		var got []string
		for _, s := range GenerationSteps(c.kind, mustProfile(t, c.engine), `a "b"`, false) {
			if s.ContentType != "application/json" || !json.Valid(s.Body) {
				t.Errorf("step = %s %s, want valid application/json", s.ContentType, s.Body)
			}
			got = append(got, s.Path+" "+string(s.Body))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s, %s: steps (-want +got):\n%s", c.engine, c.kind, diff)
		}
	}
}

// TestGenerationStepsTranscription checks that a transcription request contains one second of
// silence as a valid audio file.
func TestGenerationStepsTranscription(t *testing.T) {
	steps := GenerationSteps(config.ModelKindTranscription, mustProfile(t, "speaches"), "m", false)
	if len(steps) != 1 {
		t.Fatalf("%d steps, want 1", len(steps))
	}
	_, boundary, _ := strings.Cut(steps[0].ContentType, "boundary=")
	form, err := multipart.NewReader(strings.NewReader(string(steps[0].Body)), boundary).ReadForm(1 << 20)
	if err != nil || form.Value["model"][0] != "m" || len(form.File["file"]) != 1 {
		t.Fatalf("form = %+v, %v; want model m and one file", form, err)
	}
	f, err := form.File["file"][0].Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	wav, _ := io.ReadAll(f)
	if len(wav) != 44+32000 || string(wav[:4]) != "RIFF" || string(wav[8:16]) != "WAVEfmt " || wav[24] != 0x80 || wav[25] != 0x3e || string(wav[36:40]) != "data" {
		t.Errorf("sound file of %d bytes begins % x, want a WAV header and 32000 bytes", len(wav), wav[:44])
	}
}

// TestGenerationSteps_Texts checks that a request to Text Embeddings Inference contains the member
// "texts", because that engine does not accept "documents".
func TestGenerationSteps_Texts(t *testing.T) {
	for engine, want := range map[string]string{
		"tei":  `/rerank {"model":"m","query":"ping","texts":["ping"]}`,
		"vllm": `/v1/rerank {"documents":["ping"],"model":"m","query":"ping"}`,
	} {
		s := GenerationSteps(config.ModelKindRerank, mustProfile(t, engine), "m", false)
		if len(s) != 1 || s[0].Path+" "+string(s[0].Body) != want {
			t.Errorf("%s: steps = %+v, want one of %s", engine, s, want)
		}
	}
}

// TestGenerationVerdicts checks the verdict for each kind of response.
func TestGenerationVerdicts(t *testing.T) {
	const stream = "text/event-stream; charset=utf-8"
	const chunk = `data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}` + "\n\n"
	const last = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}` + "\n\n"
	var status atomic.Int64
	var contentType, body atomic.Value
	var hang atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType.Load().(string))
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, body.Load().(string))
		if hang.Load() {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer s.Close()
	transport, err := http1.NewTransport(http1.TransportOptions{Upstream: "a", URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer transport.Close()
	generate := NewGenerateFunc(transport)
	for _, c := range []struct {
		name, engine, kind, contentType string
		status                          int
		body                            string
		hang                            bool
		want                            GenerationVerdict
		reason                          string
	}{
		{"a stream", "vllm", config.ModelKindChat, stream, 200, chunk + last + "data: [DONE]\n\n", false, GenerationOK, ""},
		{"its end is its finish reason", "vllm", config.ModelKindChat, stream, 200, ": ping\n\ndata: null\n\n" + chunk + last, true, GenerationOK, ""},
		{"no end", "vllm", config.ModelKindChat, stream, 200, chunk + "data: [DONE]\n\n", false, GenerationFailed, http1.ReasonInvalid},
		{"silence", "vllm", config.ModelKindChat, stream, 200, chunk, true, GenerationFailed, http1.ReasonTimeout},
		{"no JSON", "vllm", config.ModelKindChat, stream, 200, "data: {oh\n\n", true, GenerationFailed, http1.ReasonInvalid},
		{"an error in the stream", "vllm", config.ModelKindChat, stream, 200, `data: {"error":{"message":"CUDA","code":500}}` + "\n\n", true, GenerationFailed, http1.ReasonInvalid},
		{"no room, in the stream", "vllm", config.ModelKindChat, stream, 200, `data: {"error":{"message":"full","code":"503"}}` + "\n\n", true, GenerationRefused, http1.ReasonInvalid},
		{"whole all the same", "vllm", config.ModelKindChat, "application/json", 200, `{"choices":[{"finish_reason":"length"}]}`, false, GenerationOK, ""},
		{"whole and empty", "vllm", config.ModelKindChat, "application/json", 200, `{"choices":[]}`, false, GenerationFailed, http1.ReasonInvalid},
		{"a page", "vllm", config.ModelKindChat, "text/html", 200, `<html>`, false, GenerationFailed, http1.ReasonInvalid},
		{"500", "vllm", config.ModelKindChat, "text/plain", 500, `oh`, false, GenerationFailed, "status"},
		{"504", "vllm", config.ModelKindChat, "text/plain", 504, ``, false, GenerationFailed, "status"},
		{"a redirect", "vllm", config.ModelKindChat, "text/plain", 302, ``, false, GenerationFailed, "status"},
		{"our key is wrong", "vllm", config.ModelKindChat, "application/json", 401, `{"error":{"message":"no"}}`, false, GenerationFailed, "status"},
		{"full", "vllm", config.ModelKindChat, "application/json", 429, `{}`, false, GenerationRefused, "status"},
		{"loading", "llamacpp", config.ModelKindChat, "application/json", 503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, false, GenerationRefused, "status"},
		{"not with this template", "vllm", config.ModelKindChat, "application/json", 400, `{"error":{"message":"no chat template"}}`, false, GenerationRejected, "status"},
		{"a client's fault", "llamacpp", config.ModelKindEmbedding, "application/json", 501, `{"error":{"code":501,"message":"no embeddings","type":"not_supported_error"}}`, false, GenerationRejected, "status"},
		{"an embedding", "vllm", config.ModelKindEmbedding, "application/json", 200, `{"data":[{"embedding":[1]}]}`, false, GenerationOK, ""},
		{"none", "vllm", config.ModelKindEmbedding, "application/json", 200, `{"data":[]}`, false, GenerationFailed, http1.ReasonInvalid},
		{"ranks", "vllm", config.ModelKindRerank, "application/json", 200, `{"results":[{"index":0}]}`, false, GenerationOK, ""},
		{"a bare list of ranks", "sglang", config.ModelKindRerank, "application/json", 200, `[{"score":0.5,"index":0}]`, false, GenerationOK, ""},
		{"no ranks", "sglang", config.ModelKindRerank, "application/json", 200, `[]`, false, GenerationFailed, http1.ReasonInvalid},
		{"sound", "kokoro", config.ModelKindSpeech, "audio/wav", 200, "RIFF", false, GenerationOK, ""},
		{"no sound", "kokoro", config.ModelKindSpeech, "audio/wav", 200, "", false, GenerationFailed, http1.ReasonInvalid},
		{"text", "speaches", config.ModelKindTranscription, "application/json", 200, `{"text":""}`, false, GenerationOK, ""},
		{"an error for text", "speaches", config.ModelKindTranscription, "application/json", 200, `{"error":"out of memory"}`, false, GenerationFailed, http1.ReasonInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			status.Store(int64(c.status))
			contentType.Store(c.contentType)
			body.Store(c.body)
			hang.Store(c.hang)
			profile := mustProfile(t, c.engine)
			limit := 20 * time.Second
			if c.reason == http1.ReasonTimeout {
				limit = 100 * time.Millisecond
			}
			told := generate(t.Context(), profile, &GenerationSteps(c.kind, profile, "m", false)[0], limit)
			if told.Verdict != c.want || told.Reason != c.reason || told.Status != c.status {
				t.Errorf("%+v; want %v, %q", told, c.want, c.reason)
			}
		})
	}
	for text, want := range map[string]bool{
		`404 page not found`: true, `{"error":{"message":"nothing here","code":404}}`: true,
		`{"error":{"message":"The model m does not exist."}}`: false, `{"error":{"code":"model_not_found","message":"no m"}}`: false,
	} {
		status.Store(404)
		body.Store(text)
		profile := mustProfile(t, "vllm")
		told := generate(t.Context(), profile, &GenerationSteps(config.ModelKindChat, profile, "m", false)[0], 20*time.Second)
		if told.Verdict != GenerationRejected || told.NotFound != want {
			t.Errorf("%s: %+v; want not found: %v", text, told, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	profile := mustProfile(t, "vllm")
	if got := generate(ctx, profile, &GenerationSteps(config.ModelKindChat, profile, "m", false)[0], time.Second); got.Verdict != GenerationAborted {
		t.Errorf("ended from this side: %v", got)
	}
	s.Close()
	if told := generate(t.Context(), profile, &GenerationSteps(config.ModelKindChat, profile, "m", false)[0], time.Second); told.Verdict != GenerationFailed || told.Reason != http1.ReasonConnect {
		t.Errorf("generate on a closed server = %+v, want a failure to connect", told)
	}
}
