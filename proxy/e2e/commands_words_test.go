package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"penstock/proxy/e2e/rig"
)

// These tests check the built program's help, and its responses to typing errors.

// TestHelp checks that both forms of help exit with 0 and print to standard output.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "serve", "bench", "bench compare", "key new", "sim"} {
		words := strings.Fields(name)
		flag, _ := command(t, 0, append(words, "--help")...)
		word, errs := command(t, 0, append([]string{"help"}, words...)...)
		if word != flag || !strings.HasPrefix(word, "Usage: penstock") || errs != "" {
			t.Errorf("help %s = %s%s, want the text of --help", name, word, errs)
		}
	}
	if all, _ := command(t, 0, "help", "serve"); !strings.Contains(all, "exit code 0") {
		t.Errorf("serve does not tell its exit codes:\n%s", all)
	}
	command(t, 2, "help", "nonsense")
}

// TestVersion checks that a build can set the version, because images are built without the git
// repository.
func TestVersion(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "penstock")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-X penstock/proxy/build.version=v9.8.7-6-g1234567", "-o", path, "penstock")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v, want no error\n%s", err, out)
	}
	out, err := exec.Command(path, "version").Output()
	if err != nil || !strings.HasPrefix(string(out), "penstock v9.8.7-6-g1234567 go") {
		t.Errorf("version = %s, %v; want penstock v9.8.7-6-g1234567", out, err)
	}
	if text := deployFile(t, "Dockerfile"); !strings.Contains(text, "-X penstock/proxy/build.version=$VERSION") || !strings.Contains(text, "--build-arg VERSION=") {
		t.Error("the Dockerfile does not name the version")
	}
}

// TestQuietStart checks that no library logs before main. If one does, the trace shows the order of
// initialization.
func TestQuietStart(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(rig.ProgramPath(t), "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	quiet, library := strings.Index(string(out), "init penstock/proxy/telemetry/quietlog "), strings.Index(string(out), "init github.com/VictoriaMetrics/metrics ")
	if quiet < 0 || library < 0 || quiet > library {
		t.Errorf("quietlog at %d, the library at %d of\n%s", quiet, library, out)
	}
}

// TestTypingErrors checks that the program suggests a correction for an unknown command, for a flag
// without a value, and for a file that is given without its flag.
func TestTypingErrors(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"srve":         `"srve" is no command: did you mean "serve"?`,
		"edge.yaml":    "penstock serve --config edge.yaml",
		"serve a.yaml": "--config a.yaml",
		"serve -c":     "--config needs a value",
		"frobnicate":   "the commands are init, serve,",
		"bench rnu":    `"rnu" is no command of bench: did you mean "run"? A host is written http://rnu`,
		"bench -r":     "--request-rate needs a value",
		"agent":        "agent needs <agent>: The agent: claude",
		"agent claud":  `<agent>: "claud" is not among its values: did you mean "claude"?`,
		"key":          "key: name one of its commands: new",
		"key nwe":      `did you mean "new"?`,
		"drain":        "drain needs <upstream>",
		"sim --profil": `did you mean "--profile"?`,

		"serve --port 8000":           "serve has no --port: write --listen PORT for this machine alone, or --listen :PORT",
		"serve -p 8000":               "serve has no -p: write --listen PORT",
		"--host 0.0.0.0":              "serve has no --host: write --listen HOST:PORT",
		"serve --key abc":             "serve has no --key: write --key-file FILE",
		"serve -c a.yaml --listen :1": "--listen (or PENSTOCK_LISTEN) is for a start without a file: write listen: :1 to the top of a.yaml",

		"openapi --format jsn": `did you mean "json"?`,
		"canary sim --for 0s":  "no call comes within --for 0s: give a time such as 10m",
		"canary sim --for=-1m": "no call comes within --for -1m0s",
	} {
		if _, errs := command(t, 2, strings.Fields(line)...); !strings.Contains(errs, want) {
			t.Errorf("penstock %s: %q, want %q", line, errs, want)
		}
	}
}

// TestExplain checks that explain describes codes and settings in the same words as the reference
// pages, lists a group's members, and suggests a word after a typing error.
func TestExplain(t *testing.T) {
	t.Parallel()
	for word, parts := range map[string][]string{
		"capacity_full":      {"status    429", "cause ", "remedy "},
		"upstreams.weight":   {"upstreams.weight\n", "default   1", "meaning "},
		"upstreams[].weight": {"upstreams.weight\n"},
		"limits":             {"limits.request_body\n", "default   32MiB", "limits.header\n"},
		"fleet.store.tls":    {"fleet.store.tls.ca\n"},
		"models.deployments": {"models.deployments.tier\n", "models.deployments.when\n"},
		"invalid_api_key":    {"status    401"},
		"PenstockFull":       {"remedy "},
		"429":                {"capacity_full\n", "rate_limited\n", "status    429"},
		"529":                {"no_healthy_route\n"},
		"queue":              {"models.queue.depth\n", "models.queue.wait\n", "capacity_full\n"},
		"timeout":            {"request_timeout ", "generation_timeout ", "timeouts.first_event ", "upstreams.probe.timeout "},
		"fallback":           {"models.fallback\n"},
		"fallbacks":          {"models.fallback\n"},
		"rpm":                {"keys.limits.requests_per_minute\n"},
		"Canary":             {"models.deployments.traffic\n"},
		"overloaded_error":   {"no_healthy_route\n"},
		"models":             {"models\n  value", "models.fallback  ", "models.queue.depth  ", "says more of one"},
	} {
		out, _ := command(t, 0, "explain", word)
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("%s: %q is missing in\n%s", word, part, out)
			}
		}
		if strings.Contains(out, "`") || strings.Contains(out, "](") {
			t.Errorf("%s has marks of Markdown:\n%s", word, out)
		}
	}
	for word, want := range map[string]string{"capacity_ful": `did you mean "capacity_full"?`, "limits.headr": `did you mean "limits.header"?`, "zzz": "neither"} {
		if _, errs := command(t, 2, "explain", word); !strings.Contains(errs, want) {
			t.Errorf("explain %s = %s, want %s", word, errs, want)
		}
	}
}

// TestFormatJSON checks --format json for the commands that do not need an edge.
func TestFormatJSON(t *testing.T) {
	t.Parallel()
	key := "sk-" + strings.Repeat("a1b2c3", 8)
	for line, want := range map[string]string{
		"version":               `"platform": "`,
		"explain capacity_full": `"remedy": "`,
		"explain upstreams.url": `"meaning": "`,
		"key new --name a":      `"lines": "  - id: a\n`,
		"key hash":              `"hash": "sha256:`,
		"bench scenarios":       `"name": "chat",`,
		"bench scenarios wedge": `"explanation": "`,
	} {
		out, errs, code := rig.RunProgram(t, key+"\n", append(strings.Fields(line), "--format", "json")...)
		if code != 0 || !json.Valid([]byte(out)) || !strings.Contains(out, want) {
			t.Errorf("%s = code %d, %s%s; want JSON with %s", line, code, out, errs, want)
		}
	}
}
