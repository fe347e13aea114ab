package toolcall

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"penstock/translate/jsonx"
)

// TestScanner checks that the scanner finds the end of the object, however the arguments are split
// and escaped.
func TestScanner(t *testing.T) {
	objects := []string{
		`{}`, `{"a":[{"b":"}"}]}`, `{"a\"}":"\\"}`, "{\n\t\"ü\": \"\\u007d\"\r}", `{"a":"\"}{\\\""}`,
	}
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.SampledFrom(objects).Draw(t, "object")
		before, behind := rapid.SampledFrom([]string{"", " \n"}).Draw(t, "before"), rapid.SampledFrom([]string{"", "\t", "x", "{}"}).Draw(t, "behind")
		text := before + object + behind
		var s objectScanner
		for i := 0; i < len(text); {
			n := rapid.IntRange(1, len(text)-i).Draw(t, "piece")
			piece, _ := json.Marshal(text[i : i+n])
			if rapid.Bool().Draw(t, "escaped") && text[i] < 0x80 && n == 1 {
				piece = []byte(`"\u00` + string("0123456789abcdef"[text[i]>>4]) + string("0123456789abcdef"[text[i]&15]) + `"`)
			}
			var d jsonx.Doc
			if err := d.Parse(piece, jsonx.Options{}); err != nil {
				t.Fatal(err)
			}
			s.addValue(d.Root())
			i += n
			want := scanPhaseOpen
			switch rest := strings.TrimSpace(text[:i]); {
			case rest == "":
				want = scanPhaseBlank
			case i >= len(before+object) && rest == strings.TrimSpace(object):
				want = scanPhaseEnded
			case i > len(before+object):
				want = scanPhaseOther
			}
			if s.phase != want {
				t.Fatalf("%q: phase %d, want %d", text[:i], s.phase, want)
			}
		}
	})
}

func TestScannerOfOtherThings(t *testing.T) {
	for raw, want := range map[string]scanPhase{
		`""`: scanPhaseBlank, `" \n"`: scanPhaseBlank, `"null"`: scanPhaseOther, `"[{}]"`: scanPhaseOther, `{"a":1}`: scanPhaseEnded, `null`: scanPhaseBlank, `7`: scanPhaseBlank,
	} {
		var d jsonx.Doc
		if err := d.Parse([]byte(raw), jsonx.Options{Record: 1}); err != nil {
			t.Fatal(err)
		}
		var s objectScanner
		if s.addValue(d.Root()); s.phase != want {
			t.Errorf("%s: phase %d, want %d", raw, s.phase, want)
		}
	}
}

func TestBlank(t *testing.T) {
	for text, want := range map[string]bool{
		``: true, ` `: true, `\n\t\r `: true, ` \u0020\u000a`: true, `x`: false, `\\`: false, `\"n`: false, ` \u2028`: false, `\ud83d`: false,
	} {
		if IsBlank([]byte(text)) != want {
			t.Errorf("IsBlank(%q) = %v, want %v", text, !want, want)
		}
	}
}
