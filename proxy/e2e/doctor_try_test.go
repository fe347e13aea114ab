//go:build unix

package e2e

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// TestDoctorTries runs doctor on every engine that the simulator imitates. Audio engines must not
// receive text requests.
func TestDoctorTries(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"openai", "vllm", "sglang", "llamacpp", "llamacpp-router", "ollama", "tgi", "trtllm", "lmstudio", "kokoro", "whisper"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			engine := rig.StartEngine(t, sim.Options{Profile: profile, TokenRate: 2000})
			command(t, 0, "doctor", engine.URL())
			if n := engine.Stats().Requests; n != 0 {
				t.Errorf("without --try the doctor has sent %d requests", n)
			}
			out, errs := command(t, 0, "doctor", "--try", engine.URL())
			text := profile != "kokoro" && profile != "whisper"
			if strings.Contains(out, "tried with") != text || strings.Contains(out, "BAD") || errs != "" ||
				text && (!strings.Contains(out, "text          it answers") || !strings.Contains(out, "tool call     a call with its arguments")) {
				t.Errorf("%s%s", out, errs)
			}
		})
	}
	if _, errs := command(t, 2, "doctor", "--model", "m", "127.0.0.1:1"); !strings.Contains(errs, "--try") {
		t.Error(errs)
	}
}

// TestInitOfAnotherEdge checks that init writes all models in another edge's catalog to the
// configuration, regardless of their names. Slots that models share count once.
func TestInitOfAnotherEdge(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: []sim.Options{{}, {Profile: "kokoro"}}, Config: `
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams:
  - { name: a, url: "{{up-0}}", engine: sim, concurrency: 60 }
  - { name: b, url: "{{up-1}}", engine: kokoro, concurrency: 4 }
models:
  - { id: tts-writer, input_modalities: [text, image], deployments: [{ upstream: a, served: sim }] }
  - { id: voice, kind: audio-speech, deployments: [{ upstream: b, served: kokoro }] }
  - { id: writer, deployments: [{ upstream: a, served: sim }] }
`})
	out, errs := command(t, 0, "init", "-o", "-", "--api-key", p.Key, p.URL)
	var f struct {
		Upstreams []struct {
			Engine      string
			Concurrency int
		}
		Models []struct {
			ID, Kind        string
			Queue           map[string]any
			InputModalities []string `yaml:"input_modalities"`
		}
	}
	if err := yaml.Unmarshal([]byte(out), &f); err != nil || len(f.Upstreams) != 1 || len(f.Models) != 3 {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	chat, voice := f.Models[0], f.Models[1]
	if u := f.Upstreams[0]; u.Engine != "penstock" || u.Concurrency != 0 || chat.Kind != "" || chat.Queue["depth"] != uint64(4*64) ||
		len(chat.InputModalities) != 2 || voice.Kind != "audio-speech" || voice.Queue != nil || strings.Contains(out, "guess") {
		t.Errorf("%s%s", out, errs)
	}
	if out, _ := command(t, 0, "doctor", "--api-key", p.Key, p.URL); !strings.Contains(out, "capacity      64 at once (as the engine says)") {
		t.Error(out)
	}
}

// TestRealDoctorTries tests llama.cpp twice: with --jinja, which tools and reasoning require, and
// without it.
func TestRealDoctorTries(t *testing.T) {
	for _, c := range []struct {
		flag string
		code int
		says []string
	}{
		{"--jinja", 0, []string{"tool call     a call with its arguments", "reasoning on  apart from the text", "abort         the slot is free"}},
		{"--no-jinja", 1, []string{"tool call     BAD", "start the engine with --jinja"}},
	} {
		e, ok := tryRealEngine(t, realPort(t), "llama", "markov", "-np", "2", "-c", "8192", c.flag)
		if !ok {
			t.Fatalf("llama.cpp did not start:\n%s", e.out)
		}
		out, _ := command(t, c.code, "doctor", "--try", e.url)
		for _, part := range c.says {
			if !strings.Contains(out, part) {
				t.Errorf("%s: the doctor does not say %q:\n%s", c.flag, part, out)
			}
		}
		e.kill()
	}
}
