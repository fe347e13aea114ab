package strictyaml

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/goccy/go-yaml/ast"
)

// describeBound describes a document after binding: its values, their positions, and the problems.
func describeBound(src string, body ast.Node, size int) string {
	var servers struct {
		Servers []server       `yaml:"servers"`
		Free    map[string]any `yaml:"free"`
	}
	var free any
	var out strings.Builder
	for _, into := range []any{&servers, &free} {
		places := &Positions{positions: map[string]valuePosition{}, broken: map[string]bool{}}
		d := &Document{Positions: places, report: &problemReport{src: newSourceText("a.yaml", []byte(src)), positions: places}}
		b := &Binder{report: d.report, tree: newAliasResolver(d.report, body, size)}
		b.references.env = func(string) (string, bool) { return "blue", true }
		b.bind(Node{ast: body}, reflect.ValueOf(into).Elem())
		fmt.Fprintf(&out, "%#v\n%v\n", reflect.ValueOf(into).Elem(), d.Problems())
		for _, path := range slices.Sorted(maps.Keys(places.positions)) {
			m := places.positions[path]
			fmt.Fprintf(&out, "%s %d:%d %q\n", path, m.line, m.column, m.reference)
		}
	}
	return out.String()
}

// comparePlain checks that parseSimpleYAML and the parser agree on src, if parseSimpleYAML accepts
// it.
func comparePlain(t interface{ Fatalf(string, ...any) }, src string) (plain bool) {
	body, size := parseSimpleYAML(src)
	if body == nil {
		return false
	}
	file, tokens, err := parseWithinLimits(src)
	if err != nil || len(file.Docs) != 1 {
		t.Fatalf("%q is not for the plain reader: %v", src, err)
	}
	if got, want := describeBound(src, body, size), describeBound(src, file.Docs[0].Body, tokens); got != want {
		t.Fatalf("%q is read as\n%s\nand by the parser as\n%s", src, got, want)
	}
	return true
}

// TestPlainTree checks that files in the usual format are read without the parser, and that the
// result equals the parser's tree.
func TestPlainTree(t *testing.T) {
	for _, src := range []string{
		"servers:\n  - name: a\n    port: 1\n    tags: [x, \"*\", 'y z']\n",
		"# comment\n\nservers:\n- name: a # the first\n  port: 1_000\n- { name: b, port: 2, extra: {a: b, c: {}} }\n",
		"- - a\n  - b\n-   x: 1\n    y: true\n",
		"free:\n  url: http://10.0.0.1:8000\n  time: 2027-01-01T00:00:00Z\n  hash: sha256:00ff\n  ratio: 0.5\n  note: some words here\n  secret: ${TAG}\n",
		"servers: []\nfree: {}",
		"servers:\n  - name: a\n    name: b\n  - port: many\n  - tgas: [1]\n",
	} {
		if !comparePlain(t, src) {
			t.Errorf("%q is left to the parser", src)
		}
	}
	for _, src := range []string{
		"", "a", "a:", "a: |\n  b\n", "a: &x b\n", "a: *x\n", "a: !!str b\n", "a: \"\\n\"\n", "a: b\n c\n", "a: {b: c\n", "a: b: c\n", "a: é\n",
		"a:\tb\n", "---\na: b\n", "a: null\n", "a: 'it''s'\n", "a: {b: c}}\n", "a: [b,]\n", "  a: b\nc: d\n", "a: b\n- c\n", "- a\nb: c\n",
		"a: \"b # c\"\n", "a:\n  - b\n c: d\n", "true: a\n",
	} {
		if body, _ := parseSimpleYAML(src); body != nil {
			t.Errorf("%q is not left to the parser", src)
		}
	}
}

// plainDraws are the pieces that TestPlainTreeEqualsParser combines.
var plainDraws = []string{
	"servers:", "free:", "name:", "port:", "tags:", "extra:", "- ", "-", "  ", "    ", " ", "\n", "\n  ", "\n    ", "\n- ", "\n  - ", ": ", ":",
	"a", "b1", "1", "07", "0x1f", "0o7", "0b1", "1e3", "1.5", "1_0", "+1", "-1", ".5", "1.", "true", "True", "yes", "null", "~", "NaN", ".inf",
	"{", "}", "[", "]", ", ", ",", "{a: 1}", "[x, y]", "\"q\"", "'q'", "\"*\"", "\"", "'", "#", " # c", "${V}", "$${V}", "a b", "a:b", "2027-01-01",
	"1:30", "12:30:45", "http://h:1/x", "key_a: v\n", "- k: v\n", "<<: a", "=", "@", "%", "*", "&", "!", "|", ">", "?", "? ", "/", "\\",
}

// TestPlainTreeEqualsParser checks that the plain reader returns the parser's tree for every file
// that it accepts.
func TestPlainTreeEqualsParser(t *testing.T) {
	pieces := func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(plainDraws), 1, 24).Draw(t, "pieces"), "")
	}
	lines := func(t *rapid.T) (src string) {
		values := []string{"", "a", "1", "true", "0.5", "a b", "{a: 1, name: {x: y}}", "[a, \"b c\", [1]]", "'q' ", "a # c", "${V}", "h:1"}
		for range rapid.IntRange(1, 8).Draw(t, "lines") {
			src += rapid.SampledFrom([]string{"", "  ", "    ", "      "}).Draw(t, "indent") +
				rapid.SampledFrom([]string{"", "", "- ", "- - ", "-   "}).Draw(t, "dash") +
				rapid.SampledFrom([]string{"", "a:", "name: ", "servers:", "free: ", "port:  "}).Draw(t, "key") +
				rapid.SampledFrom(append(values, plainDraws...)).Draw(t, "value") + "\n"
		}
		return src
	}
	for _, draw := range []func(*rapid.T) string{pieces, lines} {
		rapid.Check(t, func(t *rapid.T) { comparePlain(t, draw(t)) })
	}
}

func FuzzPlainTree(f *testing.F) {
	f.Add("servers:\n  - name: a\n    port: 1\n    tags: [x, \"*\", 'y z']\n    extra: { a: b, c: {} } # d\n")
	f.Fuzz(func(t *testing.T, src string) { comparePlain(t, src) })
}

// TestPlainPatterns compares the hand-written scanners with regular expressions.
func TestPlainPatterns(t *testing.T) {
	key := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}:( +|$)`)
	text := regexp.MustCompile(`^[A-Za-z0-9/$](?:[A-Za-z0-9/$_.+@=*~{}-]|:[A-Za-z0-9/$_.+@=*~{}-])*(?: [A-Za-z0-9/$_.+@=*~-]+)*$`)
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"a", "Z", "_", "-", "7", ":", ": ", " ", "  ", "/", "$", "{", "}", ".", "*", "~", "#", `"`, strings.Repeat("k", 62)})
		s := strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "pieces"), "")
		if got, want := keyLength(s), len(key.FindString(s)); got != want {
			t.Fatalf("the key at the start of %q has the length %d, want %d", s, got, want)
		}
		if got, want := isPlainText(s), text.MatchString(s); got != want {
			t.Fatalf("%q is a plain text: %t, want %t", s, got, want)
		}
	})
}
