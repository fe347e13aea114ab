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
	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
)

// TestOldFlags holds that a flag that is gone is refused with a line that says what became of it,
// wherever it stands and whatever follows, that no flag of ours is among them, and that every
// counterpart is a flag.
func TestOldFlags(t *testing.T) {
	for line, want := range map[string]string{
		"run http://h:1 --isl 5 -n 3":         "--isl is gone: say --random-input-len",
		"--served-model-name=x http://h:1":    "say --model",
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

// TestReadmeCommands runs every command of README.md beside the code, shorter and against an engine
// of its own.
func TestReadmeCommands(t *testing.T) {
	fastset.LeaveOut(t, "the commands of the README")
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "\n```\n")
	block, _, _ = strings.Cut(block, "\n```\n")
	e := benchtest.StartEngine(t, sim.Options{TokenRate: 2000})
	dir := t.TempDir()
	adapt := strings.NewReplacer("http://127.0.0.1:4000", e.URL(), "http://127.0.0.1:8001", e.URL(), "-z 10s", "-z 500ms", "-n 50", "-n 20", "'", "",
		"base.json", dir+"/run.json", "run.json", dir+"/run.json", "run.html", dir+"/run.html", "requests.jsonl", dir+"/requests.jsonl")
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(line, " #")
		words := strings.Fields(adapt.Replace(line))[2:]
		if strings.HasPrefix(words[0], "http") {
			words = append(words, "--no-floor", "--quiet", "--random-output-len=5")
			if !slices.ContainsFunc(words, func(w string) bool { return w == "-z" || w == "-n" }) {
				words = append(words, "-n", "40")
			}
		}
		_, parser := grammar(t)
		k, err := parser.Parse(Arguments(append([]string{"bench"}, words...)))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if code := benchtest.ExitCode(k.Run()); code != 0 && code != exit.Invalid && code != exit.Threshold { // the machine of the tests is busy
			t.Errorf("%s: exit code %d", line, code)
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
