package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/config"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// These tests use the real program like an operator at a terminal, or like a supervisor.

// writeConfig writes a configuration for one engine and returns its path and the key.
func writeConfig(t *testing.T, engine *sim.Engine, timeouts string) (path, key string) {
	t.Helper()
	key, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "penstock.yaml")
	text := fmt.Sprintf(`
listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0 }
timeouts: { %s }
keys: [{ id: tester, hash: %q }]
upstreams: [{ name: up-0, url: %q, engine: sim }]
models: [{ id: sim, deployments: [{ upstream: up-0 }] }]
`, timeouts, hash, engine.URL())
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, key
}

// TestStartWithoutConfig checks that, without a configuration, the program serves an engine and
// prints a working command line, even if the default port is in use.
func TestStartWithoutConfig(t *testing.T) {
	t.Parallel()
	if ln, err := net.Listen("tcp", "127.0.0.1:4000"); err == nil { // if this fails, the port is already in use
		t.Cleanup(func() { ln.Close() })
	}
	p := rig.StartProcess(t)
	base := p.WaitOutput(`Base URL\s+(http://127\.0\.0\.1:(\d+))/v1`)
	if base[2] == "4000" {
		t.Error("it says it serves on a port that is taken")
	}
	key := p.WaitOutput(`API key\s+(\S+)`)[1]
	admin := p.WaitOutput(`Status\s+(\S+)`)[1]
	rig.WaitFor(t, rig.WaitTimeout, "a line of the log", func() bool { return strings.Contains(p.Err.String(), "\n") })
	if log := p.Err.String(); !strings.Contains(strings.SplitN(log, "\n", 2)[0], "neither --config nor PENSTOCK_CONFIG names a file: serving 1 model of http://127.0.0.1:") {
		t.Errorf("the log begins with: %s", log)
	}
	line := p.WaitOutput(`(?s)(curl -N .*?\\\n.*?)\n\n`)[1]
	if !strings.Contains(line, key) || !strings.Contains(line, base[1]) {
		t.Errorf("the line lacks the key or the address: %s", line)
	}
	if _, err := exec.LookPath("curl"); err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		out, err := exec.CommandContext(ctx, "sh", "-c", line).Output()
		if err != nil {
			t.Fatalf("the printed line fails: %v\n%s", err, line)
		}
		if text, done := rig.StreamText(t, rig.ChatStream, rig.ParseEvents(string(out))); text == "" || !done {
			t.Errorf("the printed line gives %q", out)
		}
	} else {
		t.Log("curl is not installed: the printed line was read but not run")
	}
	for _, url := range []string{base[1] + "/v1/models", base[1] + "/health", admin} {
		res, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 200 {
			t.Errorf("%s = %d, want 200", url, res.StatusCode)
		}
	}
	if signal.Ignored(syscall.SIGHUP) { // the program also runs under nohup
		p.Signal(syscall.SIGTERM)
	} else { // if the terminal is closed, both the shell and the kernel send the signal
		p.Signal(syscall.SIGHUP)
		p.Signal(syscall.SIGHUP)
	}
	p.WantExit(rig.WaitTimeout, 0)
}

// TestServe checks that, after SIGTERM, running streams finish, new streams are served during the
// linger, and the exit is clean.
func TestServe(t *testing.T) {
	t.Parallel()
	engine := rig.StartEngine(t, sim.Options{})
	path, key := writeConfig(t, engine, "linger: 10s, drain: 20s") // the linger ends with the last call
	p := rig.StartProcess(t, "serve", "--config", path)
	m := p.WaitOutput(`serving (http://\S+)/v1 \(admin: (http://[^)]+)\)`)
	base, admin := m[1], m[2]
	get := func(url string) int {
		res, err := http.Get(url)
		if err != nil {
			return 0
		}
		res.Body.Close()
		return res.StatusCode
	}
	if got := get(admin + "/-/ready"); got != 200 {
		t.Errorf("ready = %d, want 200", got)
	}
	s := openProcessStream(t, base, key, `"tokens":30,"delay_ms":200`)
	s.Next()
	p.Signal(syscall.SIGTERM)
	rig.WaitFor(t, 5*time.Second, "readiness turns", func() bool { return get(admin+"/-/ready") == 503 })
	// While the edge lingers, it accepts connections and asks clients to close them.
	res, err := http.Get(base + "/health")
	if err != nil {
		t.Errorf("while lingering: %v", err)
	} else {
		res.Body.Close()
		if res.StatusCode != 200 || !res.Close {
			t.Errorf("while lingering: status %d, close %v", res.StatusCode, res.Close)
		}
	}
	var events []rig.Event
	for {
		e, ok := s.Next()
		if !ok {
			break
		}
		events = append(events, e)
	}
	if _, done := rig.StreamText(t, rig.ChatStream, events); !done {
		t.Error("the stream was cut by the shutdown")
	}
	p.WantExit(rig.WaitTimeout, 0)
	if log := p.Err.String(); strings.Contains(log, rig.Canary) || strings.Contains(log, key) || !strings.Contains(log, `"draining"`) {
		t.Errorf("the log:\n%s", log)
	}
}

func openProcessStream(t *testing.T, base, key, control string) *rig.Stream {
	t.Helper()
	return rig.Connect(t, base, key).OpenStream(chatPath, rig.ChatBody("sim", `"stream":true,"sim":{`+control+`}`))
}

// wantErrorAtEnd reads a stream to the end. The last event must be an error.
func wantErrorAtEnd(t *testing.T, s *rig.Stream) {
	t.Helper()
	var last rig.Event
	for e, ok := s.Next(); ok; e, ok = s.Next() {
		last = e
	}
	if !strings.Contains(last.Data, `"error"`) {
		t.Errorf("the stream ends without a word: %q", last.Data)
	}
}

// TestDrainLimit checks that a stream that is still running when the drain time is over ends with
// an error event, and that the exit is clean.
func TestDrainLimit(t *testing.T) {
	t.Parallel()
	engine := rig.StartEngine(t, sim.Options{})
	path, key := writeConfig(t, engine, "linger: 0s, drain: 300ms")
	p := rig.StartProcess(t, "serve", "--config", path)
	s := openProcessStream(t, p.WaitOutput(`serving (http://\S+)/v1`)[1], key, `"tokens":1000,"delay_ms":100`)
	s.Next()
	p.Signal(syscall.SIGTERM)
	wantErrorAtEnd(t, s)
	p.WantExit(rig.WaitTimeout, 0)
	rig.WaitFor(t, 5*time.Second, "the engine is free", func() bool { return engine.Stats().Running == 0 })
	if !strings.Contains(p.Err.String(), `"drained"`) {
		t.Errorf("the log:\n%s", p.Err)
	}
}

// TestSecondSignal checks that a second signal ends running calls with an error, and that there is
// a log line and a special exit code.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	for sig, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			engine := rig.StartEngine(t, sim.Options{})
			path, key := writeConfig(t, engine, "linger: 60s, drain: 60s")
			p := rig.StartProcess(t, "serve", "-c", path)
			s := openProcessStream(t, p.WaitOutput(`serving (http://\S+)/v1`)[1], key, `"tokens":1000,"delay_ms":100`)
			s.Next()
			p.Signal(syscall.SIGTERM)
			rig.WaitFor(t, 5*time.Second, "it drains", func() bool { return strings.Contains(p.Err.String(), "draining") })
			p.Signal(sig)
			wantErrorAtEnd(t, s)
			p.WantExit(rig.WaitTimeout, code)
			if log := p.Err.String(); !strings.Contains(log, `"msg":"call"`) || !strings.Contains(log, `"drained"`) {
				t.Errorf("the log:\n%s", log)
			} else if at := strings.LastIndexByte(strings.TrimSpace(log), '\n'); log[at+1] != '{' {
				t.Errorf("behind a log in JSON: %s", log[at+1:])
			}
		})
	}
}

// TestSecondSignalIsSoon checks that connected clients do not delay the exit after a second signal.
// Because the machine may be busy, only the best attempt counts.
func TestSecondSignalIsSoon(t *testing.T) {
	t.Parallel()
	engine := rig.StartEngine(t, sim.Options{})
	path, key := writeConfig(t, engine, "linger: 60s, drain: 60s")
	best := time.Hour
	for range 5 {
		p := rig.StartProcess(t, "serve", "-c", path)
		m := p.WaitOutput(`serving http://(\S+)/v1 \(admin: http://([^)]+)\)`)
		e := &rig.Edge{T: t, Addr: m[1], Key: key}
		admin := &rig.Edge{T: t, Addr: m[2]}
		s := openProcessStream(t, "http://"+m[1], key, `"tokens":1000,"delay_ms":100`)
		s.Next()
		unread := e.RequestBytes(chatPath, rig.ChatBody("sim", `"stream":true,"sim":{"tokens":50000000}`))
		for _, text := range []string{"", "GET /he", unread[:len(unread)-20], unread} {
			_ = e.Dial().Send(text)
			_ = admin.Dial().Send(text[:min(len(text), 20)])
		}
		rig.WaitFor(t, rig.WaitTimeout, "both streams run", func() bool { return engine.Stats().Running == 2 })
		p.Signal(syscall.SIGTERM)
		rig.WaitFor(t, rig.WaitTimeout, "it drains", func() bool { return strings.Contains(p.Err.String(), `"draining"`) })
		begun := rig.StartWatch()
		p.Signal(syscall.SIGTERM)
		p.WantExit(rig.WaitTimeout, 143)
		best = min(best, begun.Elapsed()-begun.MachineDelay())
		var last rig.Event
		for e, ok := s.Next(); ok; e, ok = s.Next() {
			last = e
		}
		if !strings.Contains(last.Data, `"error"`) {
			t.Errorf("the stream ends without a word: %q", last.Data)
		}
		if n := strings.Count(p.Err.String(), `"msg":"call"`); n != 3 {
			t.Errorf("%d calls are logged, want 3: two streams and half a body\n%s", n, p.Err)
		}
		if best < time.Second {
			return
		}
	}
	t.Errorf("the end takes %v", best)
}

// TestSilentAdmin checks that a silent connection to the admin listener does not make the exit
// fail.
func TestSilentAdmin(t *testing.T) {
	t.Parallel()
	path, _ := writeConfig(t, rig.StartEngine(t, sim.Options{}), "linger: 0s, drain: 1s")
	p := rig.StartProcess(t, "serve", "-c", path)
	admin := &rig.Edge{T: t, Addr: p.WaitOutput(`admin: http://([^)]+)\)`)[1]}
	_ = admin.Dial()
	_ = admin.Dial().Send("GET /met")
	p.Signal(syscall.SIGTERM)
	p.WantExit(rig.WaitTimeout, 0)
}

// TestQuitSignal checks that SIGQUIT prints the goroutines, but no call content.
func TestQuitSignal(t *testing.T) {
	t.Parallel()
	for sig, code := range map[syscall.Signal]int{syscall.SIGQUIT: 131, syscall.SIGABRT: 134} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			checkSignalExit(t, sig, code)
		})
	}
}

func checkSignalExit(t *testing.T, sig syscall.Signal, code int) {
	engine := rig.StartEngine(t, sim.Options{})
	path, key := writeConfig(t, engine, "drain: 20s")
	p := rig.StartProcess(t, "serve", "-c", path)
	e := &rig.Edge{T: t, Addr: p.WaitOutput(`serving http://(\S+)/v1`)[1], Key: key}
	for _, w := range rig.StreamRequestTypes {
		whole := e.RequestBytes(w.Path, w.RequestBody("sim", rig.Prompt, `"tokens":1000,"delay_ms":100`))
		c := e.Dial()
		_ = c.Send(whole)
		if _, err := c.In.ReadString('\n'); err != nil {
			t.Fatal(err) // if there is a status, the stream has started
		}
		_ = e.Dial().Send(whole[:len(whole)-2])
	}
	rig.WaitFor(t, rig.WaitTimeout, "the streams run", func() bool { return engine.Stats().Running == len(rig.StreamRequestTypes) })
	p.Signal(sig)
	p.WantExit(rig.WaitTimeout, code)
	dump := p.Err.String()
	if !strings.Contains(dump, "penstock/proxy/request/call.(*relay)") {
		t.Errorf("no stacks: %.2000s", dump)
	}
	rig.WantNoLeak(t, "the dump", dump, key)
	for _, secret := range []string{rig.Canary, key} {
		for i := range len(secret) - 7 { // a stack trace would print the secret as memory words
			if word := fmt.Sprintf("%#x", binary.LittleEndian.Uint64([]byte(secret[i:]))); strings.Contains(dump, word) {
				t.Errorf("the dump holds %q as %s", secret[i:i+8], word)
			}
		}
	}
}

func TestFault65_InvalidFileAtStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(path, []byte("listen: 127.0.0.1:0\nmodles: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs, code := rig.RunProgram(t, "", "serve", "--config", path)
	if code != 1 || !strings.Contains(errs, "bad.yaml:2") || !strings.Contains(errs, "modles") {
		t.Errorf("exit code %d:\n%s", code, errs)
	}
	if _, errs, code = rig.RunProgram(t, "", "serve", "--config", path+".not"); code != 1 || !strings.Contains(errs, "bad.yaml.not") {
		t.Errorf("a file that is not there: exit code %d:\n%s", code, errs)
	}
}

// TestCheck checks that five mistakes are reported as five problems, each with its line number.
func TestCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "five.yaml")
	_, hash, _ := auth.NewKey()
	text := `listen: 127.0.0.1:4000
timeouts: { idle: soon }
keys:
  - { id: a, hash: "` + hash + `" }
  - { id: a, hash: "` + auth.HashKey("another") + `" }
upstreams:
  - { name: up-0, url: "ftp://127.0.0.1:1" }
models:
  - id: sim
    deployments: [{ upstream: nowhere }]
    polcy: least_loaded
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code := rig.RunProgram(t, "", "check", path)
	all := out + errs
	for _, want := range []string{"five.yaml:2:", "five.yaml:5:", "five.yaml:7:", "five.yaml:10:", "five.yaml:11:"} {
		if !strings.Contains(all, want) {
			t.Errorf("no problem at %s\n%s", want, all)
		}
	}
	if n := len(regexp.MustCompile(`five\.yaml:\d+:\d+: `).FindAllString(all, -1)); n < 5 {
		t.Errorf("%d problems, want 5\n%s", n, all)
	}
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	good, _ := writeConfig(t, rig.StartEngine(t, sim.Options{}), "")
	if out, errs, code := rig.RunProgram(t, "", "check", good); code != 0 || !strings.Contains(out, "ok") {
		t.Errorf("a good file: exit code %d\n%s%s", code, out, errs)
	}
	if _, _, code := rig.RunProgram(t, "", "check", good, path); code != 1 {
		t.Errorf("one good, one bad: exit code %d", code)
	}
	if _, _, code := rig.RunProgram(t, "", "check"); code != 2 {
		t.Errorf("check of nothing: exit code %d", code)
	}
}

// TestCheckAndServeAgree checks that serve reports the same problems as check, and that `check
// --against` rejects the same files as an edge that runs the other configuration.
func TestCheckAndServeAgree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("no.pem", "no certificate\n")
	const (
		addresses = "listen: 127.0.0.1:0\nadmin: { listen: \"127.0.0.1:0\", token: operator-secret }\n"
		keys      = "keys: [{ id: a, hash: \"sha256:8675781084c10eecf43a30268bb4cbe7b56fff58d0842f0b848522de00bdb712\" }]\n"
		rest      = "upstreams: [{ name: up, url: \"http://127.0.0.1:1\" }]\nmodels: [{ id: m, deployments: [{ upstream: up }] }]\n"
	)
	for name, text := range map[string]string{
		"pair.yaml": addresses + keys + rest + "tls: { cert: no.pem, key: no.pem }\n",
		"ca.yaml":   addresses + keys + strings.Replace(rest, `"http://127.0.0.1:1"`, `"https://127.0.0.1:1", tls: { ca: no.pem }`, 1),
	} {
		path := write(name, text)
		_, checked, _ := rig.RunProgram(t, "", "check", path)
		_, served, code := rig.RunProgram(t, "", "serve", "--config", path)
		if code != 1 || served != checked || !strings.Contains(served, name+":") {
			t.Errorf("exit code %d; check says\n%s and serve\n%s", code, checked, served)
		}
	}
	public := write("public.yaml", strings.Replace(addresses, "127.0.0.1:0", "0.0.0.0:4000", 1)+keys+rest)
	keyless := write("keyless.yaml", addresses+"auth: none\n"+rest)
	if _, errs, code := rig.RunProgram(t, "", "check", keyless, "--against", public); code != 1 || !strings.Contains(errs, "keyless.yaml:3:7: none is allowed on loopback only") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if _, errs, code := rig.RunProgram(t, "", "check", public, "--against", keyless); code != 0 {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// TestKey checks that the output of `key new` fits into a configuration, and that `key hash` prints
// the same hash.
func TestKey(t *testing.T) {
	t.Parallel()
	out, errs, code := rig.RunProgram(t, "", "key", "new", "--name", "team-a", "--models", "sim", "--expires", "2099-01-01T00:00:00Z")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	key, lines, _ := strings.Cut(out, "\n")
	if !auth.HasValidChecksum(key) || strings.Contains(lines, key) {
		t.Errorf("printed a key without a checksum, or logged it:\n%s", out)
	}
	_, entry, ok := strings.Cut(lines, "  - id: team-a")
	if !ok || !strings.Contains(entry, auth.HashKey(key)) {
		t.Fatalf("printed an entry without the key's hash:\n%s", out)
	}
	p := start(t, rig.Setup{Config: "timeouts: { linger: 0s }\nkeys:\n  - id: team-a" + entry + `
upstreams: [{ name: up-0, url: "{{up-0}}", engine: sim }]
models: [{ id: sim, deployments: [{ upstream: up-0 }] }, { id: other, deployments: [{ upstream: up-0, served: sim }] }]
`})
	p.Post(chatPath, p.ChatRequest(""), "Authorization: Bearer "+key).WantStatus(200)
	p.Post(chatPath, rig.ChatBody("other", ""), "Authorization: Bearer "+key).WantStatus(403)
	for _, args := range [][]string{
		{"--name", "two words"},
		{"--name", ""},
		{"--name", "x\ny"},
		{"--models", ""},
		{"--models", "x*y"},
		{"--expires", "tomorrow"},
		{"--expires", "2020-01-01"},
		{"--expires", "2099-13-01"},
	} { // neither invalid lines nor the keys in them are printed
		if out, errs, code := rig.RunProgram(t, "", append([]string{"key", "new"}, args...)...); code != 2 || out != "" || !strings.Contains(errs, args[0]+": ") {
			t.Errorf("key new %q: exit code %d, %q, %q", args, code, out, errs)
		}
	}
	for _, name := range []string{"#1", "*", "null", "True", "false", "-", "~", "a:b", "a:", "клю'ч"} {
		out, errs, code := rig.RunProgram(t, "", "key", "new", "--name", name, "--models", "*,m", "--expires", "2099-01-01")
		_, lines, _ := strings.Cut(out, "configuration:\n")
		f, err := config.Parse("x", []byte("keys:\n"+lines))
		if code != 0 || err != nil || f.Keys[0].ID != name || f.Keys[0].Expires.Year() != 2099 {
			t.Errorf("key new --name %s: exit code %d, %s, %v\n%s", name, code, errs, err, out)
		}
	}
	out, _, code = rig.RunProgram(t, key+"\n", "key", "hash")
	if strings.TrimSpace(out) != auth.HashKey(key) || code != 0 {
		t.Errorf("key hash: %q, exit code %d", out, code)
	}
	for _, bad := range []string{"", "\n", "two words\n", "ключ-ключ-ключ-ключ-ключ\n", key[:len(key)-1] + "\n", key[:10] + "_" + key[11:] + "\n"} {
		if out, errs, code = rig.RunProgram(t, bad, "key", "hash"); code != 1 || out != "" || errs == "" {
			t.Errorf("key hash of %q: exit code %d, %q, %q", bad, code, out, errs)
		}
	}
	for plain, weak := range map[string]bool{"a": true, "sk-1234567890": true, strings.Repeat("ab", 20): true, key: false, "6c0a4f0e-9d0b-4a8b-8a11-0f6b4f1f7c52": false} {
		out, errs, code = rig.RunProgram(t, plain+"\n", "key", "hash")
		if strings.TrimSpace(out) != auth.HashKey(plain) || code != 0 || strings.Contains(errs, "can be guessed") != weak || strings.Contains(errs, plain) && len(plain) > 1 {
			t.Errorf("key hash of %q: exit code %d, %q, %q", plain, code, out, errs)
		}
	}
	if again, _, _ := rig.RunProgram(t, "", "key", "new"); strings.HasPrefix(again, key) {
		t.Error("the same key twice")
	}
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	if out, _, code := rig.RunProgram(t, "", "version"); code != 0 || !strings.HasPrefix(out, "penstock ") || !strings.Contains(out, "go1.") {
		t.Errorf("version: %q, exit code %d", out, code)
	}
	long, _, _ := rig.RunProgram(t, "", "version")
	if out, _, code := rig.RunProgram(t, "", "--version"); code != 0 || out != long {
		t.Errorf("--version: %q, exit code %d", out, code)
	}
	for _, args := range [][]string{{"serve", "--config", ""}, {"serve", "--config="}, {"sim", "--profile", "nope"}, {"sim", "--fault", "nope"}, {"sim", "--drill", "nope"}} {
		if out, errs, code := rig.RunProgram(t, "", args...); code != 2 || out != "" || errs == "" {
			t.Errorf("%v: exit code %d, %q, %q", args, code, out, errs)
		}
	}
	out, _, code := rig.RunProgram(t, "", "--help")
	if code != 0 {
		t.Errorf("--help: exit code %d", code)
	}
	for _, word := range []string{"serve", "check", "sim", "key", "version", "--config"} {
		if !strings.Contains(out, word) {
			t.Errorf("--help does not mention %s:\n%s", word, out)
		}
	}
	for _, args := range [][]string{{"nonsense"}, {"serve", "--nonsense"}, {"--nonsense"}, {"serve", "extra"}} {
		if _, errs, code := rig.RunProgram(t, "", args...); code == 0 || errs == "" {
			t.Errorf("%v: exit code %d, %q", args, code, errs)
		}
	}
}

// TestHeapFloor checks that a busy edge with enough memory rarely collects its small heap. If the
// edge has little memory, it must collect more often. If the operator sets GOGC, it must collect as
// GOGC specifies.
func TestHeapFloor(t *testing.T) {
	t.Parallel()
	collections := func(env ...string) float64 {
		p := rig.StartProgram(t, rig.Setup{Under: append([]string{"env"}, env...)})
		work := func(n int) {
			for range n {
				p.SendRequest(rig.Chat, "").WantStatus(200)
				p.MetricsText() // produces as much garbage as dozens of calls
			}
		}
		work(250)
		begin := p.Metric("go_gc_cycles_total")
		work(500)
		return p.Metric("go_gc_cycles_total") - begin
	}
	roomy := collections("GOMEMLIMIT=4GiB")
	small := collections("GOMEMLIMIT=256MiB")
	own := collections("GOMEMLIMIT=4GiB", "GOGC=100")
	t.Logf("collections: %v, %v with little memory, %v with GOGC=100", roomy, small, own)
	if roomy*2 > small {
		t.Errorf("%v collections with memory to spare, %v without", roomy, small)
	}
	if small*3 > own {
		t.Errorf("%v collections with GOGC=100, %v without it", own, small)
	}
}
