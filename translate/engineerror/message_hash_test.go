package engineerror

import "testing"

// TestMessageHash checks that two errors have the same MessageHash only if they have the same reason.
func TestMessageHash(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`, `"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`, true},
		{"registry.ollama.ai/library/x does not support tools", "registry.ollama.ai/library/x does not support tools", true},
		{`unknown variable 'a b' in line 7`, `Unknown variable 'c' in line 12`, true},
		{`the engine doesn't take it's 3 images`, `the engine doesn't take it's 5 images`, true},
		{`it doesn't take images`, `it doesn't take tools`, false},
		{"tools are not supported", "images are not supported", false},
		{"an open 'quote", "an open 'word", false},
		{"", "x", false},
	} {
		a, b := Error{Message: c.a}, Error{Message: c.b}
		if got := a.MessageHash(400) == b.MessageHash(400); got != c.same {
			t.Errorf("equal gists of %q and %q: got %t, want %t", c.a, c.b, got, c.same)
		}
	}
	e := Error{Message: "a"}
	if e.MessageHash(400) == e.MessageHash(422) || e.MessageHash(400) == 0 {
		t.Error("the status does not count")
	}
}

func FuzzMessageHash(f *testing.F) {
	f.Add(`"a" 'b' 12 it's`)
	f.Fuzz(func(t *testing.T, message string) {
		if once := normalizeMessage(message); len(once) > 3*len(message) {
			t.Errorf("%q became %q, want at most three times the length", message, once)
		}
	})
}
