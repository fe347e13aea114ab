package bench

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"penstock/bench/benchtest"
	"penstock/bench/exit"
	"penstock/bench/process"
	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
)

// TestReadmeCommands runs every command in this directory's README.md in a shortened form, and
// checks that it works. The target is an edge with an engine, because an engine alone supports only
// chat.
func TestReadmeCommands(t *testing.T) {
	fastset.SkipIfShort(t, "the commands of the README")
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "\n```bash run\n")
	block, _, _ = strings.Cut(block, "\n```\n")
	e := benchtest.StartEngine(t, sim.Options{TokenRate: 2000, Models: []string{"llama-3.3-70b", "sim"}})
	dir := t.TempDir()
	edge, admin := startEdge(t, dir, e.URL())
	trace := filepath.Join(dir, "trace.jsonl")
	if err := os.WriteFile(trace, []byte(`{"timestamp":0,"input_length":100,"output_length":5}`), 0o600); err != nil {
		t.Fatal(err)
	}
	adapt := strings.NewReplacer("trace.jsonl", trace, "http://127.0.0.1:4000", edge, "http://127.0.0.1:8001", e.URL(), "http://127.0.0.1:9090", admin, "-z 10s", "-z 500ms", "-n 50", "-n 20", "'", "",
		"base.json", dir+"/base.json", "run.json", dir+"/base.json", "base.html", dir+"/base.html")
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(line, " #")
		words := strings.Fields(adapt.Replace(line))[2:]
		if strings.HasPrefix(words[0], "http") {
			words = append(words, "--quiet", "--random-output-len=5")
			if !slices.ContainsFunc(words, func(w string) bool { return w == "-z" || w == "-n" }) {
				words = append(words, "-n", "40")
			}
		}
		_, parser := newParser(t)
		words, err := RewriteArgs(append([]string{"bench"}, words...))
		if err != nil {
			t.Fatal(err)
		}
		k, err := parser.Parse(words)
		if err != nil {
			t.Errorf("line %s: %v, want no error", line, err)
			continue
		}
		// The test machine is busy.
		if code := benchtest.ExitCode(k.Run()); code != 0 && code != exit.InvalidResult && code != exit.CheckFailed {
			t.Errorf("%s: exit code %d", line, code)
		}
	}
}

// startEdge starts an edge in front of an engine. The edge runs until the test ends. The returned
// URLs are those of the edge and of its admin listener.
func startEdge(t *testing.T, dir, engine string) (url, admin string) {
	t.Helper()
	benchtest.BuildProgram(t)
	path := filepath.Join(dir, "edge.yaml")
	config := `listen: 127.0.0.1:0
admin: { listen: "127.0.0.1:0" }
auth: none
timeouts: { linger: 0s }
upstreams: [{ name: e, url: "` + engine + `", engine: sim, concurrency: 1000 }]
models:
  - { id: llama-3.3-70b, deployments: [{ upstream: e }] }
  - { id: sim, deployments: [{ upstream: e }] }
`
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	c, url, admin, err := process.StartEdge(t.Context(), "edge", nil, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return url, admin
}
