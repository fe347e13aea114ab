package engine

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"penstock/config"
	"penstock/config/testkit/golden"
)

// TestReport compares the doctor's report with the files in testdata/doctor, and checks that the
// suggested configuration is valid.
func TestReport(t *testing.T) {
	for _, engine := range []string{"llamacpp", "llamacpp-router", "ollama", "vllm", "whisper-openai", "openai", "sglang", "llamacpp-locked", "speaches", "tei", "lmstudio", "vllm-audio"} {
		t.Run(engine, func(t *testing.T) {
			d, err := Detect(t.Context(), fakeEngine(t, engine).URL, "", mustProfiles(t))
			if err != nil {
				t.Fatal(err)
			}
			d.URL = "http://engine:8000"
			var b bytes.Buffer
			if err := d.WriteReport(&b); err != nil {
				t.Fatal(err)
			}
			b.WriteString("\n")
			if err := WriteConfig(&b, []Detection{d}); err != nil {
				t.Fatal(err)
			}
			golden.CompareFile(t, filepath.Join("testdata", "doctor", engine+".txt"), b.Bytes())
			_, lines, _ := strings.Cut(b.String(), "\n\n")
			var plain struct {
				Upstreams []map[string]any `yaml:"upstreams"`
				Models    []map[string]any `yaml:"models"`
			}
			if err := yaml.Unmarshal([]byte(lines), &plain); err != nil || len(plain.Upstreams) != 1 || len(plain.Models) == 0 {
				t.Fatalf("the lines to paste are no config: %v", err)
			}
		})
	}
}

// TestConfigOfSeveral checks that the configuration for more than one engine lists each model once.
func TestConfigOfSeveral(t *testing.T) {
	profiles := mustProfiles(t)
	var engines []Detection
	for i, engine := range []string{"vllm", "vllm", "openai"} {
		d, err := Detect(t.Context(), fakeEngine(t, engine).URL, "", profiles)
		if err != nil {
			t.Fatal(err)
		}
		d.URL = []string{"http://10.0.0.11:8000", "http://10.0.0.12:8000", "http://127.0.0.1:18090"}[i]
		if engine == "openai" {
			d.Models = []ModelInfo{{ID: "espeak"}}
		}
		engines = append(engines, d)
	}
	engines = append(engines, engines[2]) // the same engine a second time
	var b bytes.Buffer
	if err := WriteConfig(&b, engines); err != nil {
		t.Fatal(err)
	}
	golden.CompareFile(t, filepath.Join("testdata", "doctor", "several.txt"), b.Bytes())
	src := "keys: [{ id: k, hash: \"sha256:" + strings.Repeat("ab", 32) + "\" }]\n" + b.String()
	if f, problems := config.ParseValid("doctor", []byte(src), config.KnownProfiles{Engines: EngineNames(nil)}); f == nil {
		t.Errorf("the configuration written is refused: %v\n%s", problems, src)
	}
}

// TestConfigOfOddModels checks that models that cannot be served under their listed names are
// omitted, and that the other models are configured.
func TestConfigOfOddModels(t *testing.T) {
	profiles := mustProfiles(t)
	chat := func(ids ...string) Detection {
		d := Detection{URL: "http://127.0.0.1:8080", Profile: profiles.byName["llamacpp"], Recognised: true, Slots: 2}
		for _, id := range ids {
			d.Models = append(d.Models, ModelInfo{ID: id})
		}
		return d
	}
	ears := chat()
	ears.Profile = profiles.byName["whisper"]
	other := chat("both", "ears")
	other.Models[1].Kind = config.ModelKindTranscription
	locked := ears
	locked.Refused = 401
	for _, d := range []Detection{locked, chat(" no good", "*", "openai/*"), chat(strings.Repeat("x", 257)), chat()} {
		if m := d.UsableModels(); len(m) > 0 {
			t.Errorf("served are %+v", m)
		}
	}
	var b bytes.Buffer
	b.WriteString("keys: [{ id: k, hash: \"sha256:" + strings.Repeat("ab", 32) + "\" }]\n")
	if err := WriteConfig(&b, []Detection{chat("a:model/with#marks ${HOME}", " no good", "a*", "both", "ears"), other, ears}); err != nil {
		t.Fatal(err)
	}
	f, problems := config.ParseValid("odd", b.Bytes(), config.KnownProfiles{Engines: EngineNames(nil)})
	if f == nil {
		t.Fatalf("the configuration written is refused: %v\n%s", problems, &b)
	}
	var got []string
	for _, m := range f.Models {
		got = append(got, fmt.Sprint(m.ID, " ", m.Kind, " ", len(m.Deployments), " ", m.Queue.Depth))
	}
	want := []string{"a:model/with#marks ${HOME} chat 1 8", "both chat 2 16", "ears chat 1 8", "whisper audio-transcription 1 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("models configured (-want +got):\n%s\n%s", diff, &b)
	}
}

func TestEveryQuirkIsExplained(t *testing.T) {
	for _, q := range config.EngineQuirks {
		if quirkTexts[q] == "" {
			t.Errorf("%s has no text", q)
		}
	}
	if len(quirkTexts) != len(config.EngineQuirks) {
		t.Error("a text for a quirk that is not one")
	}
}

// TestNamedTwice checks that an engine is listed once even if its URL is given more than once, in
// different spellings.
func TestNamedTwice(t *testing.T) {
	url := fakeEngine(t, "vllm").URL
	var b bytes.Buffer
	if err := RunDoctor(t.Context(), &b, &DoctorOptions{URLs: []string{url, url + "/", url + "/v1"}}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), url); n != 2 { // once in the report and once in the configuration
		t.Errorf("the engine is named %d times:\n%s", n, &b)
	}
}
