//go:build unix

package e2e

import (
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// TestDoctorTries has the program try every engine for text that the simulator plays. All of them can do what is tried, whatever
// their form; an engine for sound is not asked to write.
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

// TestRealDoctorTries: llama.cpp with what it needs, and without its template.
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
