package responses

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"penstock/translate/jsonx"
)

// readPieces reads arguments that arrive in pieces of at most size runes, and returns the input.
func readPieces(t *testing.T, args string, size int, grammar bool) (input string, deltas int) {
	t.Helper()
	in := customInput{tool: "apply_patch", fence: fenceRemover{enabled: grammar}}
	var out []byte
	add := func(piece string) {
		before := len(out)
		if out = in.add(out, jsonx.AppendEscaped(nil, []byte(piece))); len(out) > before {
			deltas++
		}
	}
	runes := []rune(args)
	for len(runes) > size {
		add(string(runes[:size]))
		runes = runes[size:]
	}
	add(string(runes))
	out = in.finish(out)
	if err := json.Unmarshal([]byte(`"`+string(out)+`"`), &input); err != nil {
		t.Fatalf("%q became %q, which does not parse: %v", args, out, err)
	}
	return input, deltas
}

// TestCustomInput checks the input for each form in which models write the arguments.
func TestCustomInput(t *testing.T) {
	for _, c := range []struct {
		args, want string
		grammar    bool
	}{
		{args: `{"input":"a"}`, want: "a"},
		{args: " {\n\"input\" : \"a\\/\\b\\f\\n\\r\\t\\\\\\\"\" } ", want: "a/\b\f\n\r\t\\\""},
		{args: `{"input":"\ud83d\ude00\u00E9"}`, want: "😀é"},
		{args: `{"input":"\ud83d","x":1}`, want: "\ufffd"},
		{args: `{"input":"\ud83d\u0041\ude00"}`, want: "\ufffdA\ufffd"},
		{args: `{"input":"\d\u12zz"}`, want: `\d\u12zz`},
		{args: `{"input":"a`, want: "a"},
		{args: `{"input":"a\u00`, want: "a"},
		{args: `{"input":"a","why":"b"}`, want: "a"},
		{args: `{"why":"b","input":"a"}`, want: "a"},
		{args: `{"input":"a "b" c"}`, want: `a "b" c"}`},
		{args: `["a"]`, want: "a"},
		{args: `["a","b"]`, want: `["a","b"]`},
		{args: `{"input":["a","b"]}`, want: `{"input":["a","b"]}`},
		{args: `{"input":["bash","-c","a"]}`, want: `{"input":["bash","-c","a"]}`},
		{args: `{"input":["apply_patch","a","b"]}`, want: `{"input":["apply_patch","a","b"]}`},
		{args: `{"input":["apply_patch",5]}`, want: `{"input":["apply_patch",5]}`},
		{args: `{"input":{"input":"a"}}`, want: "a"},
		{args: `{"cmd":"a","timeout":1}`, want: "a"},
		{args: `{"command":["apply_patch","a"]}`, want: "a"},
		{args: `{"whatever":"a"}`, want: "a"},
		{args: `{"input":5}`, want: `{"input":5}`},
		{args: `{"input":[]}`, want: `{"input":[]}`},
		{args: `{"input`, want: `{"input`},
		{args: `"a"`, want: "a"},
		{args: "*** a\n", want: "*** a\n"},
		{args: "", want: ""},
		{args: "{}", want: ""},
		{args: `{"input":"` + "```" + `\na\n` + "```" + `"}`, want: "```\na\n```"},
		{args: `{"input":"` + "```" + `\na\n` + "```" + `"}`, want: "a", grammar: true},
		{args: `{"input":"\n` + "```diff" + `\na\n\n  ` + "```" + `\n"}`, want: "a\n", grammar: true},
		{args: `{"input":"` + "```" + `\n"}`, want: "", grammar: true},
		{args: `{"input":"` + "```" + `\na` + "```" + `"}`, want: "a```", grammar: true},
		{args: `{"input":"` + "``" + `a"}`, want: "``a", grammar: true},
		{args: `{"input":" a ` + "```" + `"}`, want: " a ```", grammar: true},
		{args: "```\na\n```", want: "a", grammar: true},
	} {
		for size := 1; size <= len(c.args)+1; size++ {
			if got, _ := readPieces(t, c.args, size, c.grammar); got != c.want {
				t.Errorf("%s in pieces of %d, grammar %v: %q, want %q", c.args, size, c.grammar, got, c.want)
			}
		}
	}
}

// FuzzCustomInput checks that a well-formed input arrives unchanged and is streamed, whatever the
// pieces are.
func FuzzCustomInput(f *testing.F) {
	f.Add("*** Begin Patch\n+\"é\"😀\\\t\u2028\n*** End Patch", 3, true)
	f.Add("```\nx\n```\n", 1, true)
	f.Add("{\"input\":\"x\"}", 2, false)
	f.Fuzz(func(t *testing.T, text string, size int, grammar bool) {
		if !utf8.ValidString(text) || size < 1 {
			return
		}
		var args strings.Builder
		e := json.NewEncoder(&args)
		e.SetEscapeHTML(size%2 == 0)
		if err := e.Encode(map[string]string{"input": text}); err != nil {
			t.Fatal(err)
		}
		whole, _ := readPieces(t, args.String(), len(args.String()), grammar)
		cut, deltas := readPieces(t, args.String(), size, grammar)
		if whole != cut {
			t.Fatalf("%q in pieces of %d is %q, as a whole %q", text, size, cut, whole)
		}
		switch fenced := grammar && strings.HasPrefix(strings.TrimSpace(text), fenceMark); {
		case !fenced && whole != text:
			t.Fatalf("%q comes as %q", text, whole)
		// An escape is at most 6 bytes long.
		case !grammar && deltas < utf8.RuneCountInString(text)/(size+6):
			t.Fatalf("%q in pieces of %d came in %d deltas", text, size, deltas)
		}
		_, _ = readPieces(t, text, size, grammar) // must not panic for any arguments
	})
}
