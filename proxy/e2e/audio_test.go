package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// This file contains helpers for tests of transcriptions and speech.

const (
	transcriptions = "/v1/audio/transcriptions"
	speech         = "/v1/audio/speech"
)

// audioConfig serves every kind of model, each under a different name, from the engine up-0.
const audioConfig = `
timeouts: { linger: 0s, drain: 5s, client_body: 20s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "{{up-0}}", engine: sim, concurrency: { text: 4, audio: 2 } }]
models:
  - { id: ears, kind: audio-transcription, aliases: [whisper-1], deployments: [{ upstream: up-0, served: sim }] }
  - { id: voice, kind: audio-speech, deployments: [{ upstream: up-0, served: sim }] }
  - { id: vectors, kind: embedding, deployments: [{ upstream: up-0, served: sim }] }
  - { id: ranks, kind: rerank, deployments: [{ upstream: up-0, served: sim }] }
  - { id: talk, deployments: [{ upstream: up-0, served: sim }] }
`

func startAudio(t *testing.T, engines ...sim.Options) *penstock {
	t.Helper()
	if len(engines) == 0 {
		engines = []sim.Options{{Record: true}}
	}
	return start(t, rig.Setup{Engines: engines, Config: audioConfig})
}

// twoEngines serves the model ears from two engines and prefers the first.
func twoEngines(t *testing.T, more string) *penstock {
	t.Helper()
	return start(t, rig.Setup{Engines: []sim.Options{{Record: true}, {Record: true}}, Config: `
timeouts: { linger: 0s, drain: 5s }
keys: [{ id: tester, hash: "{{hash}}" }]
retry: { budget: 100% }
upstreams:
  - { name: up-0, url: "{{up-0}}", engine: sim, weight: 1000, concurrency: 100 }
  - { name: up-1, url: "{{up-1}}", engine: sim }
models: [{ id: ears, kind: audio-transcription, deployments: [{ upstream: up-0, served: sim }, { upstream: up-1, served: sim }] }]
` + more})
}

// formPart is one part of a test's form. file is the file name; it is empty for a text part.
type formPart struct{ name, file, value string }

func text(name, value string) formPart { return formPart{name: name, value: value} }

func wav(value string) formPart { return formPart{"file", "speech.wav", value} }

// form returns a form encoded as most clients encode it.
func form(parts ...formPart) (body, contentType string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, p := range parts {
		if p.file != "" {
			f, _ := w.CreateFormFile(p.name, p.file)
			_, _ = io.WriteString(f, p.value)
		} else {
			_ = w.WriteField(p.name, p.value)
		}
	}
	_ = w.Close()
	return b.String(), "Content-Type: " + w.FormDataContentType()
}

func (p *penstock) upload(path string, parts ...formPart) *rig.Reply {
	p.T.Helper()
	body, contentType := form(parts...)
	return p.Post(path, body, contentType)
}

// uploadHTTP10 is like upload, but for an HTTP/1.0 client.
func (p *penstock) uploadHTTP10(path string, parts ...formPart) *rig.Reply {
	p.T.Helper()
	body, contentType := form(parts...)
	c := p.Dial()
	_ = c.Send(strings.Replace(p.RequestBytes(path, body, contentType), "HTTP/1.1", "HTTP/1.0", 1))
	return c.ReadReply("POST")
}

// receivedForm returns the form that an engine received, parsed by the standard library.
func receivedForm(t *testing.T, r *sim.Request) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, h := range r.Header {
		if !strings.EqualFold(h.Name, "Content-Type") {
			continue
		}
		_, params, err := mime.ParseMediaType(h.Value)
		if err != nil {
			t.Fatal(err)
		}
		for m := multipart.NewReader(bytes.NewReader(r.Body), params["boundary"]); ; {
			p, err := m.NextRawPart()
			if err == io.EOF {
				return out
			}
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(p)
			out[p.FormName()] = append(out[p.FormName()], string(b))
			if p.FileName() != "" {
				out["filename"] = append(out["filename"], p.FileName()+" "+p.Header.Get("Content-Type"))
			}
		}
	}
	t.Fatal("the engine got no form")
	return nil
}

func TestSDK_Audio(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	client := p.sdk()
	ctx := context.Background()
	got, err := client.Audio.Transcriptions.New(ctx, openai.AudioTranscriptionNewParams{Model: "ears", File: openai.File(strings.NewReader(rig.Canary), "a.wav", "audio/wav")})
	if err != nil || got.Text == "" {
		t.Errorf("transcription = %+v, %v; want a text", got, err)
	}
	detailed, err := client.Audio.Transcriptions.New(ctx, openai.AudioTranscriptionNewParams{
		Model: "ears", File: openai.File(strings.NewReader(rig.Canary), "a.wav", "audio/wav"), ResponseFormat: "verbose_json", TimestampGranularities: []string{"word", "segment"},
	})
	if err != nil || detailed.Text == "" {
		t.Errorf("detailed transcription = %+v, %v; want a text", detailed, err)
	}
	_, err = client.Audio.Transcriptions.New(ctx, openai.AudioTranscriptionNewParams{Model: "none", File: openai.File(strings.NewReader("x"), "a.wav", "audio/wav")})
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != 404 || e.Code != "model_not_found" {
		t.Errorf("error = %v, want 404 model_not_found", err)
	}
	res, err := client.Audio.Speech.New(ctx, openai.AudioSpeechNewParams{Model: "voice", Input: rig.Canary, Voice: openai.AudioSpeechNewParamsVoiceUnion{OfString: openai.String("x")}, ResponseFormat: "pcm", Speed: openai.Float(2)})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || len(b) < 100 || res.Header.Get("Content-Type") != "audio/pcm" {
		t.Errorf("sound of %d bytes, %v; want 100 or more of audio/pcm", len(b), err)
	}
}
