package bench

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"penstock/bench/benchtest"
	"penstock/bench/exit"
)

// TestOldFlags holds that a flag that is gone is refused with a line that says what became of it,
// wherever it stands and whatever follows, that no flag of ours is among them, and that every
// counterpart is a flag.
func TestOldFlags(t *testing.T) {
	for line, want := range map[string]string{
		"run http://h:1 --isl 5 -n 3":         "--isl is gone: use --random-input-len",
		"--served-model-name=x http://h:1":    "use --model",
		"run --temperature 0 --scenario chat": "--extra-body",
		"--junit x.xml":                       "exit code",
		"http://h:1 --endpoint /x":            "--endpoint is gone",
		"http://h:1 --baseline old.json":      "bench compare",
	} {
		err := parse(t, strings.Fields(line)...).Run.run(context.Background(), io.Discard, io.Discard)
		if benchtest.ExitCode(err) != exit.Usage || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", line, err, want)
		}
	}
	for _, line := range []string{"bench --profile sweep", "bench -- --isl", "bench compare --isl", "serve --isl x", "bench"} {
		if text := refuseOldFlag(strings.Fields(line)); text != "" {
			t.Errorf("%s: %s", line, text)
		}
	}
	own, known := flagsOf(t, "run"), append(flagsOf(t, "run"), flagsOf(t, "compare")...)
	for _, old := range oldFlags {
		for _, name := range strings.Fields(old.names) {
			if slices.Contains(own, "--"+name) {
				t.Errorf("--%s is ours and is refused", name)
			}
		}
		for _, word := range strings.FieldsFunc(old.instead, func(r rune) bool { return strings.ContainsRune(" ,;", r) }) {
			if strings.HasPrefix(word, "--") && !slices.Contains(known, word) {
				t.Errorf("%s: %s is no flag", old.names, word)
			}
		}
	}
}

// TestOldFlagsAreListed: README.md beside the code has them as a table, between its marks.
func TestOldFlagsAreListed(t *testing.T) {
	var b strings.Builder
	b.WriteString("| flag | instead |\n| --- | --- |\n")
	for _, old := range oldFlags {
		var names []string
		for _, name := range strings.Fields(old.names) {
			names = append(names, "`--"+name+"`")
		}
		instead := old.instead
		if instead == "" {
			instead = "gone"
		}
		b.WriteString("| " + strings.Join(names, " ") + " | " + instead + " |\n")
	}
	text, err := os.ReadFile("README.md")
	if err != nil || !strings.Contains(string(text), b.String()) {
		t.Errorf("%v: README.md lacks the table of old flags:\n%s", err, b.String())
	}
}
