package forward

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"penstock/translate"
)

// relayBody passes body through a Relay. It cycles through the given piece sizes.
func relayBody(body string, sizes ...int) (out string, u translate.Usage, err error) {
	return relayBodyAs(VectorsAsSent, body, sizes...)
}

func relayBodyAs(vectors VectorForm, body string, sizes ...int) (out string, u translate.Usage, err error) {
	var r Relay
	r.Reset("public", vectors)
	var dst []byte
	for i := 0; len(body) > 0; i++ {
		n := min(len(body), max(1, sizes[i%len(sizes)]))
		if dst, err = r.Append(dst, []byte(body[:n])); err != nil {
			return string(dst), u, err
		}
		body = body[n:]
	}
	return string(dst), r.Usage(), r.CheckComplete()
}

func TestRelay(t *testing.T) {
	t.Parallel()
	blanks := strings.Repeat(" ", 3*maxBlanks)
	for _, c := range []struct{ name, body, want string }{
		{"as it came", `{ "object":"list", "data":[ {"embedding":[-0.5,1e-3,0,12.25E+2]} ] }` + "\n", `{ "object":"list", "data":[ {"embedding":[-0.5,1e-3,0,12.25E+2]} ] }` + "\n"},
		{"model", `{"model":"inner","data":[{"model":"kept"}]}`, `{"model":"public","data":[{"model":"kept"}]}`},
		{"model of another kind", `{"data":[],"model" : {"a":[1,{"model":2}]} }`, `{"data":[],"model" : "public" }`},
		{"model in escapes", `{"mod\u0065l":"inner"}`, `{"mod\u0065l":"public"}`},
		{"private first", `{"kv_transfer_params":{"host":"10.0.0.1"},"id":1}`, `{"id":1}`},
		{"private between", `{"id":1, "kv_transfer_params":[1,"x"],"n":2}`, `{"id":1,"n":2}`},
		{"private last", `{"id":1,"disaggregated_params":"x"}`, `{"id":1}`},
		{"private alone", `{"kv_transfer_params":1}`, `{}`},
		{"private and null", `{"kv_transfer_params":null}`, `{"kv_transfer_params":null}`},
		{"private of a choice", `{"choices":[{"kv_transfer_params":1,"text":"a"},{"text":"b","kv_transfer_params":{"a":1}}],"x":[{"kv_transfer_params":1}]}`, `{"choices":[{"text":"a"},{"text":"b"}],"x":[{"kv_transfer_params":1}]}`},
		{"empty", ` { } `, ` { } `},
		{"blanks", `{` + blanks + `"model"` + blanks + `:` + blanks + `"x"` + blanks + `}`, `{"model":"public"` + blanks + `}`},
		{"long name", `{"` + strings.Repeat("n", 3*maxNameBytes) + `" : 1, "model":"x"}`, `{"` + strings.Repeat("n", 3*maxNameBytes) + `" : 1, "model":"public"}`},
		{"null error", `{"error":null,"id":1}`, `{"error":null,"id":1}`},
		{"numbers", `{"created":1e400,"usage":{"total_tokens":9223372036854775808,"a":[{"b":-1e999}]},"n":1e400}`, `{"created":0,"usage":{"total_tokens":2147483648,"a":[{"b":0}]},"n":1e400}`},
		{"a time with a fraction", `{"created":1733443200.75}`, `{"created":1733443200}`},
		{"an invalid time", `{"created":"now","usage":1e400}`, `{"created":"now","usage":1e400}`},
		{"a time without end", `{"created":` + strings.Repeat("1", 2*maxUsageBytes) + `,"usage":{"a":"` + strings.Repeat("x", 2*maxUsageBytes) + `"}}`, `{"created":null,"usage":null}`},
		{"text", `{"t":"\u00e9\ud83d\ude00\n ü € 😀"}`, `{"t":"\u00e9\ud83d\ude00\n ü € 😀"}`},
	} {
		for _, size := range []int{1, 2, 3, 7, 1 << 20} {
			if got, _, err := relayBody(c.body, size); err != nil || strings.ReplaceAll(got, blanks, "") != strings.ReplaceAll(c.want, blanks, "") {
				t.Errorf("%s in pieces of %d: %v\n%s", c.name, size, err, got)
			}
		}
	}
}

func TestRelayRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, reason string }{
		{`[1]`, translate.ReasonNotObject},
		{``, translate.ReasonBadJSON},
		{`{"a":1`, translate.ReasonBadJSON},
		{`{"a":1}}`, translate.ReasonBadJSON},
		{`{"a":1}x`, translate.ReasonBadJSON},
		{`{"a":01}`, translate.ReasonBadJSON},
		{`{"a":"` + "\xff" + `"}`, translate.ReasonBadJSON},
		{`{"a":"` + "\xed\xa0\x80" + `"}`, translate.ReasonBadJSON},
		{`{"a":1,}`, translate.ReasonBadJSON},
		{`{"a" 1}`, translate.ReasonBadJSON},
		{`{"a":tru}`, translate.ReasonBadJSON},
		{`{"a":"\x"}`, translate.ReasonBadJSON},
		{`{"model":1,"model":2}`, translate.ReasonDuplicateMember},
		{`{"Model":1}`, translate.ReasonDuplicateMember},
		{`{"usage":{},"us\u0061ge":{}}`, translate.ReasonDuplicateMember},
		{`{"error":{"message":"no"}}`, reasonEngineError},
		{`{"object":"error"}`, reasonEngineError},
		{`{"choices":[{"finish_reason":null}]}`, reasonNotFinished},
		{strings.Repeat(`{"a":`, 65) + `1` + strings.Repeat(`}`, 65), translate.ReasonTooLarge},
	} {
		for _, size := range []int{1, 3, 1 << 20} {
			_, _, err := relayBody(c.body, size)
			var bad *translate.BadAnswerError
			if !errors.As(err, &bad) || bad.Reason != c.reason {
				t.Errorf("%.40s in pieces of %d: %v, want %s", c.body, size, err, c.reason)
			}
		}
	}
}

// compareWithAnswer compares a Relay with Answer for the same body. The Relay and the Answer must
// both reject the body, or return the same result.
func compareWithAnswer(t interface{ Fatalf(string, ...any) }, body string, sizes ...int) {
	for _, vectors := range []VectorForm{VectorsAsSent, VectorsFloat, VectorsBase64} {
		compareWithAnswerAs(t, vectors, body, sizes...)
	}
}

func compareWithAnswerAs(t interface{ Fatalf(string, ...any) }, vectors VectorForm, body string, sizes ...int) {
	a := Answer{Vectors: vectors}
	want := a.Parse([]byte(body))
	got, usage, err := relayBodyAs(vectors, body, sizes...)
	if (want == nil) != (err == nil) {
		t.Fatalf("%q: %v, Answer says %v", body, err, want)
	}
	if want != nil {
		return
	}
	var left, right bytes.Buffer
	if json.Compact(&left, a.Append(nil, "public")) != nil || json.Compact(&right, []byte(got)) != nil || left.String() != right.String() {
		t.Fatalf("%q becomes\n%s\nAnswer says\n%s", body, right.String(), left.String())
	}
	if usage != a.Usage() {
		t.Fatalf("%q: %+v, Answer says %+v", body, usage, a.Usage())
	}
}

// TestRelayIsAnswer checks that a Relay and an Answer have the same result, however the body is
// split.
func TestRelayIsAnswer(t *testing.T) {
	t.Parallel()
	names := rapid.SampledFrom([]string{"model", "usage", "error", "object", "choices", "kv_transfer_params", "finish_reason", "data", "data", "embedding", "embedding", "prompt_tokens", "total_tokens", "a", `\u006dodel`, "Usage", "ü"})
	blank := rapid.SampledFrom([]string{"", "", "", " ", "\n\t"})
	var value func(depth int) *rapid.Generator[string]
	value = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			kind := rapid.IntRange(0, 9).Draw(t, "kind")
			if depth == 0 && kind > 5 {
				kind = 0
			}
			var b strings.Builder
			switch kind {
			case 0, 1:
				return rapid.SampledFrom([]string{"null", "true", "false", "0", "-1.5e+7", "12", "007", "-", "nul"}).Draw(t, "word")
			case 2, 3, 4, 5:
				return `"` + rapid.SampledFrom([]string{"", "error", "stop", `\"`, `\u00e9`, "é€😀", `\ud83d`, "\x01", "\xc3", "long " + strings.Repeat("x", 300)}).Draw(t, "text") + `"`
			case 6:
				b.WriteString("[")
				for i := range rapid.IntRange(0, 3).Draw(t, "n") {
					if i > 0 {
						b.WriteString(",")
					}
					b.WriteString(blank.Draw(t, "blank") + value(depth-1).Draw(t, "element"))
				}
				return b.String() + "]"
			}
			b.WriteString("{")
			for i := range rapid.IntRange(0, 4).Draw(t, "n") {
				if i > 0 {
					b.WriteString(",")
				}
				b.WriteString(blank.Draw(t, "blank") + `"` + names.Draw(t, "name") + `"` + blank.Draw(t, "blank") + ":" + blank.Draw(t, "blank") + value(depth-1).Draw(t, "value") + blank.Draw(t, "blank"))
			}
			return b.String() + "}"
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		compareWithAnswer(t, value(5).Draw(t, "body"), rapid.SliceOfN(rapid.IntRange(1, 20), 1, 5).Draw(t, "sizes")...)
	})
}

func FuzzRelay(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","data":[{"embedding":[0.5,-1e3]}],"usage":{"prompt_tokens":3,"total_tokens":3}}`,
		`{"choices":[{"text":"é","finish_reason":"stop","kv_transfer_params":{}}],"kv_transfer_params":{"a":[1]},"object":"x"}`,
		`{"us\u0061ge":null}`, `[1]`, `{"a":"\ud83d"}`, `{"error":{"message":"x"}}`,
	} {
		f.Add(body, 3)
	}
	f.Add(`{"data":[{"embedding":[0.5,-1e3,null]},{"embedding":"AACAPwAAAMA="},{"embedding":[[1],[2]]}]}`, 2)
	f.Fuzz(func(t *testing.T, body string, size int) { compareWithAnswer(t, body, size, 1) })
}

func BenchmarkRelay(b *testing.B) {
	numbers := `{"object":"list","data":[` + strings.Repeat(`{"object":"embedding","index":0,"embedding":[`+strings.Repeat("-0.01234567,", 1023)+`1]},`, 63) + `{}],"model":"m"}`
	coded, _, err := relayBodyAs(VectorsBase64, numbers, 64<<10)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		vectors VectorForm
		body    string
	}{
		{"image", VectorsAsSent, `{"created":1,"data":[{"b64_json":"` + strings.Repeat("iVBORw0KGgo", 100_000) + `"}]}`},
		{"numbers", VectorsFloat, numbers},
		{"base64", VectorsBase64, coded},
		{"numbers to base64", VectorsBase64, numbers},
		{"base64 to numbers", VectorsFloat, coded},
	} {
		b.Run(c.name, func(b *testing.B) {
			var r Relay
			dst := make([]byte, 0, 128<<10)
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			piece := []byte(c.body)
			for b.Loop() {
				r.Reset("public", c.vectors)
				for i := 0; i < len(piece); i += 64 << 10 {
					if _, err := r.Append(dst[:0], piece[i:min(len(piece), i+64<<10)]); err != nil {
						b.Fatal(err)
					}
				}
				if err := r.CheckComplete(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
