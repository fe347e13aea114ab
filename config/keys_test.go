package config

import (
	"strings"
	"testing"
)

// TestAppendKey checks that a new key is added at the end of the keys, and that all other lines
// stay unchanged.
func TestAppendKey(t *testing.T) {
	const lines = "  - id: new\n    hash: sha256:2\n    models: [\"*\"]\n"
	for _, c := range []struct{ name, src, want string }{
		{"no file", "", "keys:\n" + lines},
		{"a comment alone", "# of the team\n", "# of the team\nkeys:\n" + lines},
		{"two blanks", "keys:\n  - id: a\n    hash: sha256:1\n", "keys:\n  - id: a\n    hash: sha256:1\n" + lines},
		{"no newline at the end", "keys:\n  - id: a", "keys:\n  - id: a\n" + lines},
		{"none", "keys: []   # yet\n", "keys: # yet\n" + lines},
		{"none, in words", "keys:\n", "keys:\n" + lines},
		{"no indent", "keys:\n- id: a\n  hash: sha256:1\n", "keys:\n- id: a\n  hash: sha256:1\n- id: new\n  hash: sha256:2\n  models: [\"*\"]\n"},
		{"a bare list", "# team\n- id: a\n", "# team\n- id: a\n- id: new\n  hash: sha256:2\n  models: [\"*\"]\n"},
		{"four blanks", "keys:\n    - { id: a }\n", "keys:\n    - { id: a }\n    - id: new\n      hash: sha256:2\n      models: [\"*\"]\n"},
		{
			"a configuration", "listen: x\nkeys:\n  # of the team\n  - id: a\n    limits:\n      concurrency: 3\n\n# engines\nupstreams: []\n",
			"listen: x\nkeys:\n  # of the team\n  - id: a\n    limits:\n      concurrency: 3\n" + lines + "\n# engines\nupstreams: []\n",
		},
		{"a configuration without keys", "listen: x\n", "listen: x\nkeys:\n" + lines},
		{"twice", "keys:\n  - id: new\n", `already`},
		{"in one line", "keys: [{ id: a }]\n", "paste"},
		{"another document", "keys:\n  - id: a\n---\nkeys: []\n", "paste"},
		{"no YAML", "keys:\n  - id: a\n - b\n", "paste"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := AppendKey([]byte(c.src), lines)
			if err != nil {
				got = []byte(err.Error())
			}
			if string(got) != c.want && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%q\nwant %q", got, c.want)
			}
		})
	}
}

// FuzzAppendKey checks that AppendKey either rejects a file or preserves all of its content.
func FuzzAppendKey(f *testing.F) {
	for _, src := range []string{"", "keys: []", "keys:\n- id: a\n", "- id: a\n# x", "keys:\n\n#\n  - {id: a}\nlisten: x", "\n\n", "keys:\n  -\n    id: a", "a: |\n keys:\nkeys:\n"} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		got, err := AppendKey([]byte(src), "  - id: new-key-of-the-test\n    hash: sha256:2\n")
		if err != nil {
			return
		}
		rest := string(got)
		for line := range strings.SplitSeq(src, "\n") {
			if keysLinePattern.MatchString(line) {
				line = "keys:"
			}
			_, after, ok := strings.Cut(rest, line)
			if !ok {
				t.Fatalf("%q: the line %q is lost of\n%q", src, line, got)
			}
			rest = after
		}
	})
}
