package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/auth"
)

// setup says what stands between the client and the engines. Its zero value is one engine and one model "sim".
type setup struct {
	// engines are the simulated engines to start; empty: one with everything at its default. Upstream i is called "up-i",
	// serves the model "sim" and is addressed by e.engines[i]. fakes are further upstreams, by URL, called "fake-i".
	engines []sim.Options
	fakes   []string

	// What is added to the configuration, each as members of a flow mapping without the braces:
	// upstream for every upstream ("concurrency: 4"), model for the model ("queue: { depth: 2, wait: 1s }"), key for the
	// key, limits, timeouts, stream and retry for those sections.
	upstream, model, key, limits, timeouts, stream, retry string

	// top is further YAML of the top level; keys, upstreams and models are further list entries ("- { id: … }" lines).
	top, keys, upstreams, models string

	// config replaces all of the above but engines: a whole configuration without listeners, in which {{up-0}}, {{up-1}}, …
	// stand for the URLs of the engines, {{hash}} for the hash of the key and {{dir}} for the configuration's directory.
	config string

	// files are written beside the configuration before the start, by name; {{hash}} is the hash of the key in them, too.
	files map[string]string

	// under is a command with its arguments that runs the program instead of being run by itself: the program and its
	// arguments are appended. ["sh", "-c", `ulimit -n 64; exec "$@"`, "sh"] runs it with few descriptors.
	under []string

	// stderr takes the log instead of e.log.
	stderr *os.File

	// cold skips the wait until every upstream is up: for upstreams that will not come up.
	cold bool

	// forgets says that a reload of the test takes upstreams or models away, whose series go with them: fewer calls are then
	// counted than told of.
	forgets bool

	// untidy switches off the checks at the end that a test breaks on purpose.
	untidy bool
}

// edge is the running program with its engines.
type edge struct {
	t       testing.TB
	engines []*sim.Engine
	client  *http.Client
	key     string // the API key of the setup

	dir  string // of the configuration
	path string // the configuration
	text string // what the configuration said at the start

	url   string // http://127.0.0.1:PORT, no /v1
	addr  string // 127.0.0.1:PORT
	admin string // base URL of the admin listener

	*process
	setup setup
	ended bool
}

// start runs engines and the program until the test ends.
func start(t testing.TB, s setup) *edge {
	t.Helper()
	if len(s.engines) == 0 && len(s.fakes) == 0 {
		s.engines = []sim.Options{{}}
	}
	e := &edge{t: t, setup: s, client: newClient(t), dir: t.TempDir()}
	for _, o := range s.engines {
		e.engines = append(e.engines, startEngine(t, o))
	}
	plain, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	e.key = plain
	for name, text := range s.files {
		e.write(name, strings.ReplaceAll(text, "{{hash}}", hash))
	}
	e.text = "listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\nlog: { level: debug }\n" + s.render(e.engines, hash, e.dir)
	e.path = e.write("penstock.yaml", e.text)
	e.launch()
	t.Cleanup(e.end)
	return e
}

// launch runs the program and waits until it serves and has seen its engines.
func (e *edge) launch() {
	e.t.Helper()
	e.process = startProcess(e.t, e.setup.under, e.setup.stderr, "serve", "--config", e.path)
	m := e.says(`serving (https?://(\S+))/v1 \(admin: (http://[^)]+)\)`)
	e.url, e.addr, e.admin = m[1], m[2], m[3]
	if !e.setup.cold {
		waitFor(e.t, patience, "all upstreams up", func() bool {
			for _, u := range e.status().Upstreams {
				if u.State != "up" {
					return false
				}
			}
			return true
		})
	}
}

// relaunch runs the program again, after it has ended, on the addresses it had.
func (e *edge) relaunch() {
	e.t.Helper()
	text := strings.Replace(e.text, "listen: 127.0.0.1:0", "listen: "+e.addr, 1)
	e.write("penstock.yaml", text)
	e.launch()
}

// write puts a file beside the configuration, in one step as a careful operator does, and returns its path.
func (e *edge) write(name, text string) string {
	e.t.Helper()
	path := filepath.Join(e.dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		e.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		e.t.Fatal(err)
	}
	return path
}

// reload makes the program read its configuration again and returns the answer's status, 200 or 422, and its body.
func (e *edge) reload() (status int, body string) {
	e.t.Helper()
	r := e.fetch("POST", e.admin+"/-/reload")
	return r.status, r.body
}

// render writes the configuration without its listeners.
func (s *setup) render(engines []*sim.Engine, hash, dir string) string {
	if s.config != "" {
		text := strings.ReplaceAll(s.config, "{{hash}}", hash)
		text = strings.ReplaceAll(text, "{{dir}}", dir)
		for i, e := range engines {
			text = strings.ReplaceAll(text, "{{up-"+strconv.Itoa(i)+"}}", e.URL())
		}
		return text
	}
	var b strings.Builder
	more := func(member string) string {
		if member == "" {
			return ""
		}
		return ", " + member
	}
	if !strings.Contains(s.timeouts, "connect:") { // as for the probes below
		s.timeouts = strings.TrimPrefix(s.timeouts+", connect: 10s", ", ")
	}
	fmt.Fprintf(&b, "timeouts: { linger: 0s, drain: 5s%s }\n", more(s.timeouts))
	for _, section := range [][2]string{{"limits", s.limits}, {"stream", s.stream}, {"retry", s.retry}} {
		if section[1] != "" {
			fmt.Fprintf(&b, "%s: { %s }\n", section[0], section[1])
		}
	}
	fmt.Fprintf(&b, "%s\nkeys:\n  - { id: tester, hash: %q%s }\n%s", s.top, hash, more(s.key), indent(s.keys))
	b.WriteString("upstreams:\n")
	switch { // on a busy machine even a good engine may be late
	case !strings.Contains(s.upstream, "probe:"):
		s.upstream = strings.TrimPrefix(s.upstream+", probe: { timeout: 15s }", ", ")
	case !strings.Contains(s.upstream, "timeout:"):
		s.upstream = strings.Replace(s.upstream, "probe: {", "probe: { timeout: 15s,", 1)
	}
	var deployments []string
	upstream := func(kind string, i int, url string) {
		name := kind + "-" + strconv.Itoa(i)
		fmt.Fprintf(&b, "  - { name: %s, url: %q, engine: sim%s }\n", name, url, more(s.upstream))
		deployments = append(deployments, "{ upstream: "+name+" }")
	}
	for i, e := range engines {
		upstream("up", i, e.URL())
	}
	for i, url := range s.fakes {
		upstream("fake", i, url)
	}
	fmt.Fprintf(&b, "%smodels:\n  - { id: sim, deployments: [%s]%s }\n%s",
		indent(s.upstreams), strings.Join(deployments, ", "), more(s.model), indent(s.models))
	return b.String()
}

// indent puts two blanks before every line.
func indent(entries string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(entries, "\n")) {
		b.WriteString("  " + strings.TrimRight(line, "\n") + "\n")
	}
	return b.String()
}

// startEngine runs a simulated engine until the test ends.
func startEngine(t testing.TB, o sim.Options) *sim.Engine {
	t.Helper()
	anywhere := o.Listen == ""
	for tries := 0; ; tries++ {
		if anywhere {
			// Below the ports that the kernel gives to connections: an engine that goes away finds its port free when it comes back.
			o.Listen = fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(17000))
		}
		e := sim.New(o)
		err := e.Start()
		if err == nil {
			t.Cleanup(e.Close)
			return e
		}
		if !anywhere || tries == 20 {
			t.Fatal(err)
		}
	}
}

// end checks that the program is at rest, stops it and reads its log.
func (e *edge) end() {
	if e.ended {
		return
	}
	e.ended = true
	select {
	case <-e.done: // the test has ended it itself
	default:
		if !e.setup.untidy {
			e.rest()
			e.checkBooks()
		}
		e.client.CloseIdleConnections() // one that is kept has a second to say whether it goes on
		e.signal(syscall.SIGTERM)
		if !e.setup.untidy {
			e.exits(patience+5*time.Second, 0)
		}
	}
	if !e.setup.untidy {
		e.checkLog()
	}
}

// checkBooks checks the numbers of a program at rest.
func (e *edge) checkBooks() {
	text := e.metricsText()
	wantSecret(e.t, "the metrics", text, e.key)
	for name, v := range parseMetrics(text) {
		if v != 0 && (strings.HasPrefix(name, "penstock_panics_total") || strings.Contains(name, "double_release")) {
			e.t.Errorf("%s is %v", name, v)
		}
	}
	var lines, counted int
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) { // a call is counted, then told of
		lines, counted = len(e.calls()), int(e.metric("penstock_calls_total"))
		// More calls that end at once than the log takes are dropped and counted; without any line the log is off, or elsewhere.
		dropped := int(e.metric("penstock_log_dropped_total"))
		if lines == counted || lines == 0 || lines < counted && lines+dropped >= counted || e.setup.forgets && counted < lines {
			return
		}
	}
	e.t.Errorf("%d access lines, and %d calls were counted", lines, counted)
}

// checkLog checks that every call has been told of exactly once, and nothing that must not be told.
func (e *edge) checkLog() {
	wantSecret(e.t, "the log", e.log.String(), e.key)
	wantSecret(e.t, "standard output", e.out.String(), e.key)
	for line := range strings.Lines(e.log.String()) {
		if !json.Valid([]byte(line)) {
			e.t.Errorf("a line of the log is not JSON: %.2000s", line)
		}
	}
	ids := map[string]bool{}
	for _, l := range e.calls() {
		if ids[l.RequestID] {
			e.t.Errorf("two access lines for %s", l.RequestID)
		}
		ids[l.RequestID] = true
		if l.Outcome == "" || l.Outcome == "internal" {
			e.t.Errorf("a call ended as %q: %+v", l.Outcome, l)
		}
	}
}

// process is the program while it runs.
type process struct {
	t    testing.TB
	cmd  *exec.Cmd
	out  *buffer       // standard output
	log  *buffer       // standard error
	done chan struct{} // closed when it has ended
}

// startProcess starts the program with args; it is killed when the test ends, if it still runs then.
func startProcess(t testing.TB, under []string, stderr *os.File, args ...string) *process {
	t.Helper()
	command := append(append(append([]string(nil), under...), program), args...)
	p := &process{t: t, cmd: exec.Command(command[0], command[1:]...), out: new(buffer), log: new(buffer), done: make(chan struct{})}
	p.cmd.Env = cleanEnv()
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.log
	if stderr != nil {
		p.cmd.Stderr = stderr
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

// cleanEnv is the environment without what would configure the program.
func cleanEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PENSTOCK_") {
			env = append(env, v)
		}
	}
	return env
}

// says waits until standard output matches, and returns the submatches.
func (p *process) says(pattern string) []string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(2 * patience); ; time.Sleep(time.Millisecond) {
		if m := re.FindStringSubmatch(p.out.String()); m != nil {
			return m
		}
		select {
		case <-p.done:
			p.t.Fatalf("the program has ended with %v:\n%s%s", p.cmd.ProcessState, p.out, p.log)
		default:
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("the program does not say %s:\n%s%s", pattern, p.out, p.log)
		}
	}
}

// exits waits for the end and checks the code.
func (p *process) exits(limit time.Duration, code int) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		p.t.Errorf("still running after %v", limit)
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // shows where
		<-p.done
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("exit code %d, want %d\n%.4000s", got, code, p.log)
	}
}

func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// runProgram runs the program to its end.
func runProgram(t testing.TB, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = cleanEnv()
	var out, errs buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}
