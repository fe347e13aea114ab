package jsonx

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// TestReplaceLoneSurrogates checks that ReplaceLoneSurrogates changes neither the length of a text nor its
// decoded value.
func TestReplaceLoneSurrogates(t *testing.T) {
	pieces := []string{`\ud83d`, `\ude00`, `\uD83D`, `\uDE00`, `\udbff`, `\udfff`, `a`, `ü`, `\\`, `\"`, `\n`, `\u00e4`, `ud83d`, `\ufffd`}
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(`{"k":"`)
		for range rapid.IntRange(0, 8).Draw(t, "n") {
			text = append(text, rapid.SampledFrom(pieces).Draw(t, "piece")...)
		}
		text = append(text, `"}`...)
		var d Doc
		if err := d.Parse(text, Options{}); err != nil {
			t.Fatal(err)
		}
		lone := d.Root().Get("k").HasLoneSurrogate()
		var want, got map[string]string
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		before := string(text)
		ReplaceLoneSurrogates(text)
		if lone != (before != string(text)) || len(before) != len(text) {
			t.Fatalf("%s, lone %v, became %s", before, lone, text)
		}
		if err := d.Parse(text, Options{Paired: true}); err != nil {
			t.Fatalf("Parse(%s) = %v, want success", text, err)
		}
		if err := json.Unmarshal(text, &got); err != nil || got["k"] != want["k"] {
			t.Fatalf("%s became %s: error %v, want %v", before, text, err, want["k"])
		}
	})
}

func TestCutHigh(t *testing.T) {
	for text, want := range map[string]string{
		``: ``, `a`: `a`, `\ud83d`: ``, `a\uD83D`: `a`, `\udbff`: ``, `\ude00`: `\ude00`, `\ud83d\ude00`: `\ud83d\ude00`, `\\ud83d`: `\\ud83d`,
		`\\\ud83d`: `\\`, `\ud83d\ud83d`: `\ud83d`, `\u00e4`: `\u00e4`, `ud83d`: `ud83d`,
	} {
		got, high := SplitHighSurrogate([]byte(text))
		if string(got) != want || string(got)+string(high) != text {
			t.Errorf("SplitHighSurrogate(%s) = %s and %s, want %s first", text, got, high, want)
		}
	}
}
