package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/auth"
	"penstock/proxy/e2e/rig"
	"penstock/upstreams/engine"
)

// The commands of the built program that an operator meets first.

// command runs the program to its end.
func command(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	program := rig.Binary(t) // the first test builds it, which is none of the command's time
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "ENGINE_API_KEY=engine-secret")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Fatalf("penstock %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, want, &out, &errs)
	}
	return out.String(), errs.String()
}

// serveProgram runs an edge of the built program on free ports until the test ends.
func serveProgram(t *testing.T, config string) (public, admin string) {
	t.Helper()
	cmd := exec.Command(rig.Binary(t), "serve", "--config", config)
	cmd.Env = append(os.Environ(), "ENGINE_API_KEY=engine-secret")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the edge ended with %v", err)
		}
	})
	line := make([]byte, 256)
	n, err := out.Read(line)
	if err != nil {
		t.Fatalf("the edge says nothing: %v", err)
	}
	found := regexp.MustCompile(`serving (\S+)/v1 \(admin: (\S+)\)`).FindSubmatch(line[:n])
	if found == nil {
		t.Fatalf("the edge says %q", line[:n])
	}
	return string(found[1]), string(found[2])
}

// TestDoctorToServing goes the way of a newcomer: what the doctor prints is pasted into a file, checked, served, changed
// and reloaded.
func TestDoctorToServing(t *testing.T) {
	t.Parallel()
	engine := rig.StartEngine(t, sim.Options{Profile: "llamacpp", Models: []string{"tiny"}, Slots: 3, APIKey: "engine-secret"})

	report, _ := command(t, 0, "doctor", engine.Addr()+"/v1")
	for _, part := range []string{"llama.cpp server (llamacpp)", "health        good", "3 at once (as the engine says)", `"tiny"`, "cancel_only_streams"} {
		if !strings.Contains(report, part) {
			t.Errorf("the report lacks %q:\n%s", part, report)
		}
	}
	locked, _ := command(t, 0, "doctor", engine.URL(), "--api-key", "wrong")
	if !strings.Contains(locked, "REFUSED") {
		t.Errorf("nothing is said of a wrong key:\n%s", locked)
	}
	if _, errs := command(t, 1, "doctor", "127.0.0.1:1"); !strings.Contains(errs, "no engine answers") {
		t.Errorf("an engine that is not there: %s", errs)
	}

	plain, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	_, lines, _ := strings.Cut(report, "\n\n")
	file := filepath.Join(t.TempDir(), "edge.yaml")
	write := func(more string) {
		head := "listen: 127.0.0.1:0\nadmin: { listen: \"127.0.0.1:0\", token: operator-secret }\ntimeouts: { linger: 0s }\nkeys: [{ id: t, hash: \"" + hash + "\" }]\n"
		if err := os.WriteFile(file, []byte(head+lines+more), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	command(t, 0, "check", file)
	public, admin := serveProgram(t, file)
	p := rig.Connect(t, public, plain)
	rig.WaitFor(t, rig.Patience, "a chat", func() bool { return p.Post(chatPath, rig.ChatBody("tiny", "")).Status == 200 })

	if _, errs := command(t, 1, "reload", "--admin", admin); !strings.Contains(errs, "--token") {
		t.Errorf("without the token: %s", errs)
	}
	write("    aliases: [small]\n")
	out, _ := command(t, 0, "reload", "--admin", admin, "--token", "operator-secret")
	if !strings.Contains(out, "aliases") && !strings.Contains(out, "unchanged") { // the watcher may have been first
		t.Errorf("reload says %q", out)
	}
	p.Post(chatPath, rig.ChatBody("small", "")).WantStatus(200)
	write("    aliases: [small]\n    polcy: round_robin\n")
	_, errs := command(t, 1, "reload", "--admin", strings.TrimPrefix(admin, "http://"), "--token", "operator-secret")
	if !strings.Contains(errs, "edge.yaml:") || !strings.Contains(errs, "polcy") {
		t.Errorf("a wrong file: %s", errs)
	}
	p.Post(chatPath, rig.ChatBody("small", "")).WantStatus(200)
}

// TestDoctorKnowsAnotherEdge: an edge is not taken for an engine, whose models a start without a configuration would serve.
func TestDoctorKnowsAnotherEdge(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	profiles, err := engine.LoadProfiles(nil)
	if err != nil {
		t.Fatal(err)
	}
	for address, edge := range map[string]bool{p.Engines[0].Addr(): false, p.Addr: true} { // as discovery does, whose clock is short
		if d, err := engine.Detect(t.Context(), address, "", profiles); err != nil || !d.Recognised || (d.Engine == engine.Penstock) != edge {
			t.Errorf("%s is taken for %q, recognised %t: %v", address, d.Engine, d.Recognised, err)
		}
	}
	if out, _ := command(t, 0, "doctor", p.URL+"/v1"); !strings.Contains(out, "another Penstock (penstock)") {
		t.Errorf("the doctor says:\n%s", out)
	}
}

// TestHelp: help is asked for in either way, exits with 0 and is on standard output.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "serve", "bench", "bench compare", "key new", "sim"} {
		words := strings.Fields(name)
		flag, _ := command(t, 0, append(words, "--help")...)
		word, errs := command(t, 0, append([]string{"help"}, words...)...)
		if word != flag || !strings.HasPrefix(word, "Usage: penstock") || errs != "" {
			t.Errorf("help %s:\n%s%s", name, word, errs)
		}
	}
	if all, _ := command(t, 0, "help", "serve"); !strings.Contains(all, "exit code 0") {
		t.Errorf("serve does not tell its exit codes:\n%s", all)
	}
	command(t, 2, "help", "nonsense")
}

// TestVersion: an image is built without the repository, and its build names the version.
func TestVersion(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "penstock")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-X penstock/proxy/build.version=v9.8.7-6-g1234567", "-o", path, "penstock")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(path, "version").Output()
	if err != nil || !strings.HasPrefix(string(out), "penstock v9.8.7-6-g1234567 go") {
		t.Errorf("%v: %s", err, out)
	}
	if text := deployFile(t, "Dockerfile"); !strings.Contains(text, "-X penstock/proxy/build.version=$VERSION") || !strings.Contains(text, "--build-arg VERSION=") {
		t.Error("the Dockerfile does not name the version")
	}
}

// TestQuietStart: no library logs before main, whatever it misses on this host. The order of initialisation is what the trace shows.
func TestQuietStart(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(rig.Binary(t), "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	quiet, library := strings.Index(string(out), "init penstock/proxy/quietlog "), strings.Index(string(out), "init github.com/VictoriaMetrics/metrics ")
	if quiet < 0 || library < 0 || quiet > library {
		t.Errorf("quietlog at %d, the library at %d of\n%s", quiet, library, out)
	}
}

// TestSlipsOfTheTongue: a word that is no command, a flag without its value and a file without its flag are answered with what to type.
func TestSlipsOfTheTongue(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"srve":         `"srve" is no command: did you mean "serve"?`,
		"edge.yaml":    "penstock serve --config edge.yaml",
		"serve a.yaml": "--config a.yaml",
		"serve -c":     "--config needs a value",
		"frobnicate":   "the commands are serve, check,",
	} {
		if _, errs := command(t, 2, strings.Fields(line)...); !strings.Contains(errs, want) {
			t.Errorf("penstock %s: %q, want %q", line, errs, want)
		}
	}
}

// TestCheckForEditors: each problem's line begins with its place, the first one, too.
func TestCheckForEditors(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(path, []byte("listn: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs := command(t, 1, "check", path); !strings.HasPrefix(errs, path+":") || !strings.Contains(errs, "\n"+path+":1:1: ") {
		t.Errorf("%q", errs)
	}
}

// TestReloadDiff: a file is compared with what runs before it is put in place, and a file that changed in place waits where it is not
// watched.
func TestReloadDiff(t *testing.T) {
	t.Parallel()
	engine := rig.StartEngine(t, sim.Options{Slots: 3})
	_, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, more string) string {
		path := filepath.Join(dir, name)
		text := "listen: 127.0.0.1:0\nadmin: { listen: \"127.0.0.1:0\" }\nwatch: false\ntimeouts: { linger: 0s }\nkeys: [{ id: t, hash: \"" + hash + "\" }]\n" +
			"upstreams: [{ name: u, url: " + engine.URL() + ", engine: sim }]\nmodels:\n  - id: sim\n    deployments: [{ upstream: u }]\n" + more
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	_, admin := serveProgram(t, write("edge.yaml", ""))
	next := write("next.yaml", "    aliases: [small]\n")
	if out, _ := command(t, 0, "reload", "--diff", next, "--admin", admin); !strings.Contains(out, "not applied: version 1") || !strings.Contains(out, "aliases") {
		t.Errorf("a file that is not in place: %q", out)
	}
	if _, errs := command(t, 1, "reload", "--diff", write("bad.yaml", "    polcy: x\n"), "--admin", admin); !strings.Contains(errs, "polcy") {
		t.Errorf("a wrong one: %q", errs)
	}
	if _, errs := command(t, 2, "reload", next, "--admin", admin); !strings.Contains(errs, "--diff") {
		t.Errorf("without --diff: %q", errs)
	}
	write("edge.yaml", "    aliases: [small]\n")
	time.Sleep(2 * time.Second) // several looks of a watcher
	if out, _ := command(t, 0, "reload", "--diff", "--admin", admin); !strings.Contains(out, "not applied: version 1") || !strings.Contains(out, "aliases") {
		t.Errorf("the file in place, not watched: %q", out)
	}
	if out, _ := command(t, 0, "reload", "--admin", admin); !strings.Contains(out, "version 2") {
		t.Errorf("reload: %q", out)
	}
}
