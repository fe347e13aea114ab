package answer

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"penstock/translate/jsonx"
)

func TestBoundNumbers(t *testing.T) {
	for raw, want := range map[string]string{
		`{"prompt_tokens":12,"cost":0.5,"n":-3}`:                  ``,
		`{"prompt_tokens":2147483648}`:                            ``,
		`{"prompt_tokens":2147483649}`:                            `{"prompt_tokens":2147483648}`,
		`{"a":{"cached_tokens" : 9223372036854775807}}`:           `{"a":{"cached_tokens" : 2147483648}}`,
		`{"total_duration":5191566416}`:                           ``,
		`{"n":[9007199254740992,9007199254740994,-1e400,1E+400]}`: `{"n":[9007199254740992,9007199254740992,0,9007199254740992]}`,
		`{"rate":2439.0243902439024,"e":1e-400}`:                  ``,
		`{"tokens":"1e400","x\":tokens":1e3}`:                     ``,
		`{"s":"\\","t":12345678901e5}`:                            ``,
		`1e400`:                                                   `9007199254740992`,
	} {
		if got := string(BoundNumbers([]byte(raw))); got != want {
			t.Errorf("%s becomes %q, want %q", raw, got, want)
		}
		compareLimits(t, []byte(raw))
	}
}

// compareLimits checks that BoundNumbersIn, applied to an object, limits its numbers in the same way as
// BoundNumbers, applied to its text.
func compareLimits(t rapid.TB, raw []byte) {
	t.Helper()
	for record := 1; record < 4; record++ {
		var (
			d     jsonx.Doc
			edits jsonx.Edits
		)
		if err := d.Parse(raw, jsonx.Options{Record: record}); err != nil {
			t.Fatalf("Parse(%s) = %v, want success", raw, err)
		}
		want := BoundNumbers(raw)
		if want == nil || !d.Root().IsObject() {
			want = raw
		}
		BoundNumbersIn(&edits, d.Root())
		if got := edits.Append(nil, raw); !bytes.Equal(got, want) {
			t.Fatalf("%s, recorded %d deep: becomes %s, want %s", raw, record, got, want)
		}
	}
}

// TestBoundNumbersProperty checks that the result differs only in numbers, and that each number
// fits in a float and in a 64-bit integer.
func TestBoundNumbersProperty(t *testing.T) {
	numbers := rapid.StringMatching(`-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,12})?([eE][+-]?[0-9]{1,4})?`)
	names := rapid.SampledFrom([]string{"prompt_tokens", "n", `x"tokens`, "cost"})
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		b.WriteString(`{`)
		for i := range rapid.IntRange(0, 5).Draw(t, "members") {
			if i > 0 {
				b.WriteString(`, `)
			}
			name, err := json.Marshal(names.Draw(t, "name"))
			if err != nil {
				t.Fatal(err)
			}
			b.Write(name)
			b.WriteString(rapid.SampledFrom([]string{`:`, ` : [`, `:{"in":`}).Draw(t, "opens"))
			opened := b.String()
			b.WriteString(numbers.Draw(t, "number"))
			b.WriteString(map[byte]string{'[': "]", ':': ""}[opened[len(opened)-1]])
			if strings.HasSuffix(opened, `{"in":`) {
				b.WriteString("}")
			}
		}
		b.WriteString(`}`)
		raw := []byte(b.String())
		compareLimits(t, raw)
		got := BoundNumbers(raw)
		if got == nil {
			got = raw
		} else if BoundNumbers(got) != nil {
			t.Fatalf("%s is bounded to %s, which is not", raw, got)
		}
		d := json.NewDecoder(bytes.NewReader(got))
		d.UseNumber()
		for {
			token, err := d.Token()
			if token == nil {
				break
			}
			if n, ok := token.(json.Number); ok {
				if f, err := n.Float64(); err != nil || math.Abs(f) > maxExactInteger {
					t.Fatalf("%s holds the number %s (%v), want at most the largest", got, n, err)
				}
			}
			if err != nil {
				t.Fatalf("%s is no JSON: %v", got, err)
			}
		}
	})
}
