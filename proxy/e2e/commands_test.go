package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
	"penstock/upstreams/engine"
)

// These tests run the commands of the built program that new operators use first.

func command(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	// The first test builds the program. The build must not count against the command's time limit.
	program := rig.ProgramPath(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
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

// serveProgram runs the built program on free ports until the test ends.
func serveProgram(t *testing.T, config string) (public, admin string) {
	t.Helper()
	found := serveSaying(t, `serving (\S+)/v1 \(admin: (\S+)\)`, "--config", config)
	return found[1], found[2]
}

// serveSaying runs an edge until the test ends. It waits until the edge's output matches pattern,
// and returns the matched groups.
func serveSaying(t *testing.T, pattern string, args ...string) []string {
	t.Helper()
	cmd := exec.Command(rig.ProgramPath(t), append([]string{"serve"}, args...)...)
	cmd.Env = append(os.Environ(), "ENGINE_API_KEY=engine-secret")
	p := rig.StartCommand(t, cmd)
	t.Cleanup(func() {
		p.Signal(syscall.SIGTERM)
		p.WantExit(2*rig.WaitTimeout, 0)
	})
	return p.WaitOutput(pattern)
}

// TestInitToServing checks the quick start for new users: init writes a file for the engines that
// contains a new key, and serve uses this file unchanged.
func TestInitToServing(t *testing.T) {
	t.Parallel()
	one := rig.StartEngine(t, sim.Options{Profile: "llamacpp", Models: []string{"tiny"}, Slots: 3, APIKey: "engine-secret", TokenRate: 10})
	two := rig.StartEngine(t, sim.Options{Profile: "llamacpp", Models: []string{"tiny"}, Slots: 5, TokenRate: 10})
	file := filepath.Join(t.TempDir(), "edge.yaml")

	out, _ := command(t, 0, "init", one.Addr(), two.URL()+"/v1", two.URL()+"/v1/", "--output", file)
	key := regexp.MustCompile(`pstk_\S+`).FindString(out)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if key == "" || strings.Contains(string(text), key) || strings.Contains(string(text), "engine-secret") {
		t.Errorf("the key is printed and no key is in the file:\n%s\n%s", out, text)
	}
	if info, _ := os.Stat(file); info.Mode().Perm()&0o007 != 0 {
		t.Errorf("others may read it: %v", info.Mode())
	}
	if !strings.Contains(string(text), "queue: { depth: 32, wait: 20s }") {
		t.Errorf("there is no short queue for 8 slots:\n%s", text)
	}
	if out, errs := command(t, 0, "check", file); out+errs != file+": ok\n" {
		t.Errorf("check = %s%s, want %s: ok", out, errs, file)
	}
	free := strings.NewReplacer("127.0.0.1:4000", "127.0.0.1:0", "127.0.0.1:9090", "127.0.0.1:0").Replace(string(text))
	if err := os.WriteFile(file, []byte(free), 0o600); err != nil {
		t.Fatal(err)
	}
	public, admin := serveProgram(t, file)
	token := regexp.MustCompile(`export PENSTOCK_ADMIN_TOKEN=(\S+)`).FindStringSubmatch(out)
	if token == nil {
		t.Fatalf("no token for the next commands:\n%s", out)
	}
	// an engine receives no calls until it is up
	rig.WaitFor(t, rig.WaitTimeout, "both engines are up", func() bool {
		out, _ := command(t, 0, "top", "--once", "--admin", admin, "--token", token[1])
		return strings.Contains(out, "2 of 2 upstreams take calls")
	})
	_, errs := command(t, 1, "drain", "*", "--admin", admin, "--token", token[1])
	if !strings.Contains(errs, "No engine would be left that takes calls for tiny: ") || !strings.Contains(errs, "--force") {
		t.Errorf("drain of all: %s", errs)
	}
	p := rig.Connect(t, public, key)
	var calls sync.WaitGroup
	for range 8 { // as many calls as there are slots, so that both engines serve some
		calls.Go(func() {
			if res := p.Post(chatPath, rig.ChatBody("tiny", "")); res.Status != 200 {
				t.Errorf("status = %d, want 200", res.Status)
			}
		})
	}
	calls.Wait()
	if one.Stats().Requests == 0 || two.Stats().Requests == 0 {
		t.Errorf("one engine served %d calls, the other %d", one.Stats().Requests, two.Stats().Requests)
	}

	if _, errs := command(t, 1, "init", one.Addr(), "-o", file); !strings.Contains(errs, "left as it is") {
		t.Errorf("a file that is there: %s", errs)
	}
	if again, _ := os.ReadFile(file); string(again) != free {
		t.Error("it was overwritten")
	}
	other := file + ".other"
	if _, errs := command(t, 1, "init", "127.0.0.1:1", "-o", other); !strings.Contains(errs, "no engine answers: upstream http://127.0.0.1:1") {
		t.Errorf("an engine that is not there: %s", errs)
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("a file without an engine was written")
	}
	if out, _ := command(t, 0, "init", one.Addr(), "127.0.0.1:1", two.Addr(), "-o", other); !strings.Contains(out, "Left out  no engine answers: upstream http://127.0.0.1:1") || !strings.Contains(out, "2 upstreams") {
		t.Errorf("one of three is not there: %s", out)
	}
	if out, errs := command(t, 1, "doctor", "127.0.0.1:1", two.Addr()); !strings.Contains(errs, "no engine answers: upstream http://127.0.0.1:1") || !strings.Contains(out, "url: "+two.URL()+"\n") {
		t.Errorf("one of two is not there: %s%s", out, errs)
	}
	shown, notes := command(t, 0, "init", two.Addr(), "-o", "-")
	if !strings.Contains(shown, "models:") || strings.Contains(shown, "pstk_") || !strings.Contains(notes, "pstk_") {
		t.Errorf("to standard output:\n%s\n%s", shown, notes)
	}
}

// TestServeEngine checks that the program serves an engine without a configuration file, and prints
// a new key.
func TestServeEngine(t *testing.T) {
	t.Parallel()
	engine := rig.StartEngine(t, sim.Options{Profile: "llamacpp", Models: []string{"tiny"}, APIKey: "engine-secret"})
	found := serveSaying(t, `Base URL\s+(\S+)/v1\s+API key\s+(\S+)`, "--engine", engine.Addr())
	p := rig.Connect(t, found[1], found[2])
	rig.WaitFor(t, rig.WaitTimeout, "a chat", func() bool { return p.Post(chatPath, rig.ChatBody("tiny", "")).Status == 200 })
	if _, errs := command(t, 2, "serve", "--engine", engine.Addr(), "-c", "x.yaml"); !strings.Contains(errs, "without a file") {
		t.Errorf("with a file: %s", errs)
	}
	command(t, 1, "serve", "--engine", "127.0.0.1:1")
}

// TestServeEngine_Addresses checks that the operator can choose the addresses and the key, and that
// a stored key is used again at the next start.
func TestServeEngine_Addresses(t *testing.T) {
	t.Parallel()
	engine := rig.StartEngine(t, sim.Options{Models: []string{"tiny"}})
	file := filepath.Join(t.TempDir(), "key")
	start := func(t *testing.T, key string) string {
		found := serveSaying(t, `Base URL\s+(\S+)/v1\s+API key\s+(.*)\s+Status\s+(\S+)/`,
			"--engine", engine.Addr(), "--listen", "127.0.0.2:0", "--admin-listen", "127.0.0.3:0", "--key-file", file)
		if !strings.HasPrefix(found[1], "http://127.0.0.2:") || !strings.HasPrefix(found[3], "http://127.0.0.3:") {
			t.Errorf("the edge is at %s and %s", found[1], found[3])
		}
		if key == "" {
			key, _, _ = strings.Cut(found[2], " ")
		} else if found[2] != "that of "+file {
			t.Errorf("the key is told as %q", found[2])
		}
		p := rig.Connect(t, found[1], key)
		rig.WaitFor(t, rig.WaitTimeout, "a chat", func() bool { return p.Post(chatPath, rig.ChatBody("tiny", "")).Status == 200 })
		return key
	}
	var key string
	t.Run("first", func(t *testing.T) { key = start(t, "") })
	t.Run("again", func(t *testing.T) { start(t, key) })
}

// TestDoctorToServing checks the steps of a new user, who pastes the output of doctor into a file,
// checks the file, serves it, changes it and reloads it.
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
	rig.WaitFor(t, rig.WaitTimeout, "a chat", func() bool { return p.Post(chatPath, rig.ChatBody("tiny", "")).Status == 200 })

	if _, errs := command(t, 1, "reload", "--admin", admin); !strings.Contains(errs, "--token") {
		t.Errorf("without the token: %s", errs)
	}
	write("    aliases: [small]\n")
	out, _ := command(t, 0, "reload", "--admin", admin, "--token", "operator-secret")
	// the file watcher may have been faster
	if !strings.Contains(out, "aliases") && !strings.Contains(out, "unchanged") {
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

// TestDoctorKnowsAnotherEdge checks that another edge is not detected as an engine. Otherwise, an
// edge that is started without a configuration would serve the models of the other edge.
func TestDoctorKnowsAnotherEdge(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	profiles, err := engine.LoadProfiles(nil)
	if err != nil {
		t.Fatal(err)
	}
	// Discovery calls the same function, with the same short timeout.
	for address, edge := range map[string]bool{p.Engines[0].Addr(): false, p.Addr: true} {
		if d, err := engine.Detect(t.Context(), address, "", profiles); err != nil || !d.Recognised || (d.Engine == engine.PenstockProfile) != edge {
			t.Errorf("%s is taken for %q, recognised %t: %v", address, d.Engine, d.Recognised, err)
		}
	}
	if out, _ := command(t, 0, "doctor", p.URL+"/v1"); !strings.Contains(out, "another Penstock (penstock)") {
		t.Errorf("the doctor says:\n%s", out)
	}
}

// TestCheckForEditors checks that every line about a problem, including the first, starts with the
// position of the problem.
func TestCheckForEditors(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(path, []byte("listn: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs := command(t, 1, "check", path); !strings.HasPrefix(errs, path+":") || !strings.Contains(errs, "\n"+path+":1:1: ") {
		t.Errorf("check = %q, want a problem at %s:1:1", errs, path)
	}
}

// TestReloadDiff checks that a new file can be compared with the running configuration before it
// replaces the old file.
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
	if _, errs := command(t, 1, "reload", "--diff", write("bad.yaml", "    polcy: x\n"), "--admin", admin); !strings.Contains(errs, filepath.Join(dir, "bad.yaml")+":10:5: ") || strings.Contains(errs, "candidate") {
		t.Errorf("a wrong one: %q", errs)
	}
	large := "#" + strings.Repeat(" a large file", 5<<20/13) + "\n"
	if out, _ := command(t, 0, "reload", "--diff", write("large.yaml", large), "--admin", admin); !strings.Contains(out, "unchanged") {
		t.Errorf("a file of 5 MB: %q", out)
	}
	if _, errs := command(t, 1, "reload", "--diff", write("large.yaml", large+large), "--admin", admin); !strings.Contains(errs, "larger than 8MiB") {
		t.Errorf("a file of 10 MB: %q", errs)
	}
	if _, errs := command(t, 2, "reload", next, "--admin", admin); !strings.Contains(errs, "--diff") {
		t.Errorf("without --diff: %q", errs)
	}
	write("edge.yaml", "    aliases: [small]\n")
	time.Sleep(2 * time.Second) // long enough for a few checks of a watcher
	if out, _ := command(t, 0, "reload", "--diff", "--admin", admin); !strings.Contains(out, "not applied: version 1") || !strings.Contains(out, "aliases") {
		t.Errorf("the file in place, not watched: %q", out)
	}
	if out, _ := command(t, 0, "reload", "--admin", admin); !strings.Contains(out, "version 2") {
		t.Errorf("reload = %q, want version 2", out)
	}
	if out, _ := command(t, 0, "reload", "--back", "--admin", admin); !strings.Contains(out, "version 3") || !strings.Contains(out, "aliases") ||
		!strings.Contains(out, "correct it first") {
		t.Errorf("reload --back = %q, want version 3, aliases and the advice", out)
	}
	if _, errs := command(t, 1, "reload", "--back", "--admin", admin); !strings.Contains(errs, "no configuration to go back to") {
		t.Errorf("back twice: %q", errs)
	}
	command(t, 2, "reload", "--back", next, "--admin", admin)
}

// TestAdminAtThePublicPort checks the error of a command that is given the address of the API, or a
// URL with a path. The error must name the address that the command needs.
func TestAdminAtThePublicPort(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	for _, line := range []string{"top --once", "top --format json", "reload", "reload --diff", "drain up-0", "maintenance up-0", "ready up-0", "ready", "canary sim", "usage", "usage --fleet"} {
		for at, want := range map[string]string{
			p.URL:          p.URL + " is the address of an edge's API: --admin (or PENSTOCK_ADMIN) is that of its admin listener",
			p.Admin + "/x": "--admin (or PENSTOCK_ADMIN) is the address alone, " + p.Admin,
		} {
			if _, errs := command(t, 1, append(strings.Fields(line), "--admin", at)...); !strings.Contains(errs, want) {
				t.Errorf("%s: %q, want %q", line, errs, want)
			}
		}
	}
	command(t, 0, "ready", "--admin", p.Admin+"/")
}

// TestModeCommands checks the commands that drain an upstream, put it into maintenance and make it
// ready again. They must require nothing but the token.
func TestModeCommands(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: []sim.Options{{}, {}, {}}, Upstream: "tags: [h100]", Top: "admin: { token: " + rig.AdminToken + " }"})
	read := func() (names, modes []string) {
		var s struct{ Upstreams []struct{ Name, Mode string } }
		if err := json.NewDecoder(p.adminDo("GET", "/status", "", rig.AdminToken).Body).Decode(&s); err != nil {
			t.Fatal(err)
		}
		for _, u := range s.Upstreams {
			names, modes = append(names, u.Name), append(modes, u.Mode)
		}
		return names, modes
	}
	admin := []string{"--admin", p.Admin, "--token", rig.AdminToken}
	names, _ := read()
	name, was := names[0], "ready"
	for _, mode := range []string{"drain", "maintenance", "ready"} {
		out, _ := command(t, 0, append([]string{mode, name}, admin...)...)
		if want := name + ": " + mode + " (was " + was + ")\n"; out != want {
			t.Errorf("it says %q, want %q", out, want)
		}
		if _, modes := read(); modes[0] != mode || modes[1] != "ready" {
			t.Errorf("%s: the upstreams are in modes %q", mode, modes)
		}
		was = mode
	}
	if out, _ := command(t, 0, append([]string{"ready", name}, admin...)...); out != name+": ready, as it was\n" {
		t.Errorf("once more: %q", out)
	}
	if _, errs := command(t, 1, append([]string{"drain", name[:1] + "*"}, admin...)...); !strings.Contains(errs, "takes calls for sim: add --force") {
		t.Errorf("the last engines of a model: %s", errs)
	}
	if _, modes := read(); slices.Contains(modes, "drain") {
		t.Errorf("refused, and the upstreams are in modes %q", modes)
	}
	s := p.OpenStream(chatPath, rig.ChatBody("sim", `"stream":true,"sim":{"tokens":100000,"delay_ms":20}`))
	s.Next()
	waits := rig.StartProcess(t, append([]string{"drain", name[:1] + "*", "--force", "--wait"}, admin...)...)
	waits.WaitOutput(`waiting for the calls at up-\d\n`)
	s.Disconnect()
	waits.WantExit(rig.WaitTimeout, 0)
	out := waits.Out.String()
	if !strings.HasSuffix(out, "no call is left there\n") {
		t.Errorf("it does not say that it is done: %s", out)
	}
	for i, mode := range secondValue(read()) {
		if mode != "drain" || !strings.Contains(out, names[i]+": drain (was ready)\n") {
			t.Errorf("of the group %s is in mode %s:\n%s", names[i], mode, out)
		}
	}
	out, _ = command(t, 0, append([]string{"ready", "tag:h100"}, admin...)...)
	for i, mode := range secondValue(read()) {
		if mode != "ready" || !strings.Contains(out, names[i]+": ready (was drain)\n") {
			t.Errorf("of the tag %s is in mode %s:\n%s", names[i], mode, out)
		}
	}
	for asked, want := range map[string]string{"tag:h10": "did you mean \"tag:h100\"", "nobody-at-all": "no upstream of that name: choose ", name + "x": "did you mean", "zz*": "no upstream of that name"} {
		if _, errs := command(t, 1, append([]string{"drain", asked}, admin...)...); !strings.Contains(errs, want) {
			t.Errorf("drain %s = %s, want %s", asked, errs, want)
		}
	}
	if _, errs := command(t, 1, "drain", name, "--admin", p.Admin); !strings.Contains(errs, "--token") {
		t.Errorf("without the token: %s", errs)
	}
	command(t, 0, "ready", "--admin", p.Admin)
}

func secondValue[A, B any](_ A, b B) B { return b }

// TestCheckForms checks that check reads standard input, prints problems as JSON and in GitHub's
// format, and lists problems in referenced files.
func TestCheckForms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "bad.yaml")
	text := `listn: x
issuers: [{ issuer: "https://a.example", name: a, audience: a, jwks: "file:set.json", claims: { key: sub, templates: [{ claim: g, value: a, key: k }] } }]
keys: [{ id: k, hash: "sha256:` + strings.Repeat("ab", 32) + `" }]
upstreams: [{ name: u, url: "http://127.0.0.1:1" }]
models: [{ id: m, deployments: [{ upstream: v }] }]
`
	for name, text := range map[string]string{"bad.yaml": text, "set.json": "[]", "good.yaml": "auth: none\nupstreams: [{ name: u, url: \"http://127.0.0.1:1\" }]\nmodels: [{ id: m, deployments: [{ upstream: u }] }]\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, errs := command(t, 1, "check", path)
	for _, part := range []string{"listn", "set.json", `upstream "v"`} {
		if !strings.Contains(errs, part) {
			t.Errorf("%s is not told with the others:\n%s", part, errs)
		}
	}
	out, errs := command(t, 1, "check", path, filepath.Join(dir, "good.yaml"), "--format", "json")
	var found []struct {
		File, Level, Setting, Message string
		Line, Column                  int
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil || errs != "" || len(found) < 3 {
		t.Fatalf("check --format json: %v, want 3 problems or more: %s%s", err, out, errs)
	}
	if f := found[0]; f.File != path || f.Line != 1 || f.Column != 1 || f.Level != "error" || !strings.Contains(f.Message, "listn") {
		t.Errorf("problem = %+v, want an error about listn at %s:1:1", f, path)
	}
	if out, _ := command(t, 0, "check", filepath.Join(dir, "good.yaml"), "--format", "json"); out != "[]\n" {
		t.Errorf("nothing is wrong: %q", out)
	}
	out, _ = command(t, 1, "check", path, "--format", "github")
	if !strings.HasPrefix(out, "::error file="+path+",line=1,col=1::") || strings.Count(out, "\n") != len(found) {
		t.Errorf("check for GitHub = %s, want %d lines, the first at 1:1", out, len(found))
	}
	for name, want := range map[string]int{"good.yaml": 0, "bad.yaml": 1} {
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		cmd := rig.Command(t, "check", "-")
		cmd.Stdin = file
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want || !strings.Contains(string(out), "(standard input)") {
			t.Errorf("%s: exit code %d, %s", name, got, out)
		}
		file.Close()
	}
}

// TestKeyFile checks that the command appends keys with their limits to a file and lists them, and
// that the edge accepts this file.
func TestKeyFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys, edge := filepath.Join(dir, "keys.yaml"), filepath.Join(dir, "edge.yaml")
	first, _ := command(t, 0, "key", "new", "--name", "a", "--append", keys)
	command(t, 0, "key", "new", "--name", "b", "--append", keys, "--rpm", "600", "--tpm", "7", "--concurrency", "5", "--operations", "chat,messages", "--models", "m")
	if _, errs := command(t, 1, "key", "new", "--name", "b", "--append", keys); !strings.Contains(errs, "already") {
		t.Errorf("a name twice: %s", errs)
	}
	// An unset variable in a script results in an empty value.
	for _, flag := range []string{"--expires", "--rpm", "--tpm", "--concurrency"} {
		if _, errs := command(t, 2, "key", "new", "--name", "e", flag, ""); !strings.Contains(errs, flag+": the value is empty") {
			t.Errorf("an empty %s: %s", flag, errs)
		}
	}
	if _, errs := command(t, 2, "key", "new", "--operations", "chta"); !strings.Contains(errs, "chat") {
		t.Errorf("a wrong operation: %s", errs)
	}
	text, err := os.ReadFile(keys)
	if err != nil {
		t.Fatal(err)
	}
	key := regexp.MustCompile(`pstk_\S+`).FindString(first)
	if key == "" || strings.Contains(string(text), "pstk_") || strings.Contains(first, "sha256") ||
		!strings.Contains(string(text), "limits: { concurrency: 5, requests_per_minute: 600, tokens_per_minute: 7 }") {
		t.Errorf("key new = %s, want a key; the file = %s, want its hash and limits", first, text)
	}
	if err := os.WriteFile(edge, []byte("keys_file: keys.yaml\nupstreams: [{ name: u, url: \"http://127.0.0.1:1\" }]\nmodels: [{ id: m, deployments: [{ upstream: u }] }]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := command(t, 0, "key", "list", "--config", edge); out != "a  in force  models *\nb  in force  models m\n" {
		t.Errorf("key list = %q, want a and b in force", out)
	}
	whole := filepath.Join(dir, "whole.yaml")
	if err := os.WriteFile(whole, []byte("upstreams: [{ name: u, url: \"http://127.0.0.1:1\" }]\nmodels: [{ id: m, aliases: [llama], deployments: [{ upstream: u }] }]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs := command(t, 0, "key", "new", "--name", "c", "--append", whole, "--models", "llama"); !strings.Contains(errs, `"llama" is an alias`) || !strings.Contains(errs, `write "m"`) {
		t.Errorf("a key for an alias: %s", errs)
	}
	if _, errs := command(t, 0, "key", "new", "--name", "d", "--append", whole, "--models", "m"); errs != "" {
		t.Errorf("a key for a model: %s", errs)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
		t.Errorf("something is left: %v", entries)
	}
}

// TestCheckReportsDiscovery checks that check reports how an upstream's engines are found if the
// URL is not that of an engine.
func TestCheckReportsDiscovery(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "edge.yaml")
	text := "auth: none\nupstreams: [{ name: gpu, url: \"http://vllm:8000\", resolve: \"srv:_http._tcp.vllm\" }, { name: one, url: \"http://127.0.0.1:1\", tags: [cpu, eu] }, { name: two, url: \"http://127.0.0.1:2\", tags: [eu] }]\n" +
		"models: [{ id: m, deployments: [{ upstream: gpu }, { upstream: \"tag:eu\" }] }]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := file + ": ok\nupstream gpu: its engines are the SRV records of _http._tcp.vllm, looked up every 30s\ntag cpu: one\ntag eu: one, two\n"
	if out, errs := command(t, 0, "check", file); out+errs != want {
		t.Errorf("%s%s, want %s", out, errs, want)
	}
}
