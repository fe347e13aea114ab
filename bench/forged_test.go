package bench

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"penstock/bench/benchtest"
	"penstock/bench/compare"
	"penstock/bench/report"
	"penstock/bench/result"
)

// forgeStrings appends terminal control sequences to all strings in a JSON value, except times and
// "inf".
func forgeStrings(v any) any {
	switch v := v.(type) {
	case string:
		if _, err := time.Parse(time.RFC3339, v); err != nil && v != "inf" {
			return v + "\x1b[2J\u009b31m\r\u202e"
		}
	case []any:
		for i := range v {
			v[i] = forgeStrings(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = forgeStrings(v[name])
		}
	}
	return v
}

// TestForgedResult checks that neither an engine's model names nor a foreign result file can
// control the terminal.
func TestForgedResult(t *testing.T) {
	engine := benchtest.SyntheticResult{Seed: 1, Requests: 600, Seconds: 60, TTFT: 100, ITL: 20, Failed: 30, Stages: []string{"rate 10", "rate 20"}, Invalid: "it was"}
	var tree any
	b, err := json.Marshal(engine.Build(t))
	if err == nil {
		err = json.Unmarshal(b, &tree)
	}
	if err != nil {
		t.Fatal(err)
	}
	if b, err = json.Marshal(forgeStrings(tree)); err != nil {
		t.Fatal(err)
	}
	var r result.Result
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	c := compare.CompareResults(&r, &r, 0.999)
	c.Notes, c.Verdict = append(c.Notes, forgeStrings("note").(string)), forgeStrings("verdict").(string)
	for name, write := range map[string]func(*bytes.Buffer) error{
		"text": func(w *bytes.Buffer) error {
			return report.WriteText(w, &r)
		},
		"compare": func(w *bytes.Buffer) error { return c.WriteText(w) },
	} {
		var w bytes.Buffer
		if err := write(&w); err != nil {
			t.Fatal(err)
		}
		said := w.String()
		if i := strings.IndexFunc(said, func(r rune) bool { return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) }); i >= 0 {
			t.Errorf("%s says %.200q, want no control character", name, said[max(0, i-40):])
		}
		if !strings.Contains(said, "[2J") {
			t.Errorf("%s shows nothing that was forged: the test holds nothing", name)
		}
	}
}
