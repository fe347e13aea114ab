package config

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"penstock/config/strictyaml"
	"penstock/config/testkit/raced"
)

// repeatFormat formats the numbers from 0 to n-1 and joins the results.
func repeatFormat(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// aliasBomb returns a small file whose aliases expand to n^4 values.
func aliasBomb(value string, n int) string {
	text := "a: &a [" + strings.Repeat(value+",", n) + "]\n"
	for c := 'b'; c <= 'd'; c++ {
		text += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.Repeat("*"+string(c-1)+",", n))
	}
	return text + "keys: *d\n"
}

// TestHostileFiles checks that reading an invalid file uses little more memory, and produces little
// more output, than the size of the file. This matters because an edge rereads its keys_file after
// every change while calls run.
func TestHostileFiles(t *testing.T) {
	const size = 120 << 10
	filled := func(piece string) string { return strings.Repeat(piece, size/len(piece)) }
	long := strings.Repeat("k", 100_000)
	for name, text := range map[string]string{
		"lists":                     filled("["),
		"lists in keys":             "keys: " + filled("["),
		"mappings":                  filled("{a: "),
		"lists and mappings":        filled("[{a: "),
		"tagged lists":              filled("!a ["),
		"lists that end":            filled("]"),
		"lists on a line each":      filled("[\n"),
		"whole lists":               strings.Repeat("[", size/2) + strings.Repeat("]", size/2),
		"entries on one line":       filled("- ") + "x",
		"entries of entries":        filled("- - ") + "x",
		"complex keys":              filled("? ") + "x",
		"anchors":                   filled("&a ") + "x",
		"tags":                      filled("!!str ") + "x",
		"colons":                    filled("a: "),
		"documents":                 filled("--- a\n"),
		"empty documents":           filled("---\n"),
		"directives":                filled("%YAML 1.2\n"),
		"unknown keys":              repeatFormat(size/12, "k%d: v\n"),
		"unknown keys of a flow":    "{" + repeatFormat(size/12, "k%d: v, ") + "}",
		"the same key":              filled("k: v\n"),
		"the same key and a list":   filled("k:\n- v\n"),
		"merge keys":                "x: &a {}\n" + filled("<<: *a\n"),
		"wrong keys":                "keys: [" + filled("1,") + "]",
		"keys of wrong members":     "keys:\n" + filled("- { id: a, idd: b }\n"),
		"keys without hash":         "keys:\n" + filled("- id: a\n"),
		"unknown operations":        "keys: [{ id: a, operations: [" + filled("chad,") + "] }]",
		"unknown models":            "keys: [{ id: a, models: [" + repeatFormat(size/12, "model-%d,") + "] }]\nmodels: [" + repeatFormat(size/40, "{ id: modell-%d },") + "]",
		"unknown upstreams":         "upstreams: [" + repeatFormat(size/40, "{ name: up-%d },") + "]\nmodels: [{ id: a, deployments: [" + repeatFormat(size/40, "{ upstream: uq-%d },") + "] }]",
		"aliases of wrong keys":     aliasBomb("1", 40),
		"aliases of wrong mappings": aliasBomb("{a: b}", 40),
		"a long key":                long + ": [" + filled("a,") + "]",
		"a long key of aliases":     "x: &x [" + strings.Repeat("1,", 1000) + "]\nkeys: [{ " + long + ": *x, limits: { " + long + ": *x } }]",
		"long keys in one another":  strings.Repeat("{ "+long[:5000]+": ", 50) + "[" + filled("a,") + "]",
		"a long value":              "listen: " + filled("a"),
		"a long name":               "log: { level: " + filled("a") + " }",
		"too many values":           "[" + strings.Repeat("a,", 1<<19) + "]",
		"quotes":                    filled("\""),
		"single quotes":             filled("'"),
		"an open text":              "listen: \"" + filled("a\n"),
		"blocks":                    filled("a: |\n b\n"),
		"blank lines":               filled("\n") + "a: b",
		"blank lines of a block":    "a: |\n" + filled(strings.Repeat(" ", 20)+"\n"),
		"runs of blank lines":       filled("a: |\n x\n" + strings.Repeat("\n", 200)),
		"comments":                  filled("# c\n"),
		"control characters":        "keys: \"" + filled("\x01") + "\"",
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			f, problems := ParseValid("test.yaml", []byte(text), bundledProfiles)
			said := problems.Error()
			runtime.ReadMemStats(&after)
			if f != nil {
				t.Fatal("it is taken")
			}
			if cost := after.TotalAlloc - before.TotalAlloc; !raced.Enabled && cost > 16<<20+600*uint64(len(text)) {
				t.Errorf("%d MiB were allocated for %d KiB", cost>>20, len(text)>>10)
			}
			if len(said) > 256<<10 || len(problems) > 2*strictyaml.MaxProblems+10 {
				t.Errorf("%d problems in %d KiB", len(problems), len(said)>>10)
			}
		})
	}
}

// TestLargeFile checks that the limits permit large, valid files.
func TestLargeFile(t *testing.T) {
	f, problems := ParseValid("test.yaml", largeConfig(5000, 1000), bundledProfiles)
	if f == nil || len(problems) > 0 {
		t.Errorf("a large valid file was refused: %.1000s", problems.Error())
	}
	deep := "models: [{ id: a, pricing: " + strings.Repeat("{ a: ", 40) + "1" + strings.Repeat(" }", 40) + " }]"
	if _, err := Parse("test.yaml", []byte(deep)); err != nil && strings.Contains(err.Error(), "deep") {
		t.Error(err)
	}
}
