package faults

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/auth"
)

// What a reload does and refuses to do.

// reloaded is the answer of POST /-/reload.
type reloaded struct {
	OK, Unchanged, Forced bool
	DryRun                bool `json:"dry_run"`
	Version               int64
	Changes, Problems     []string
	Restart               []string `json:"needs_restart"`
	Capacity              []struct {
		Model    string
		Kind     string
		Before   int `json:"slots_before"`
		After    int `json:"slots_after"`
		Added    int `json:"upstreams_added"`
		Draining int `json:"upstreams_draining"`
	}
}

// ask reloads with further parameters, "?force=true".
func (e *edge) askReload(query string) (r reloaded, status int) {
	e.t.Helper()
	res := e.fetch("POST", e.admin+"/-/reload"+query)
	if err := json.Unmarshal([]byte(res.body), &r); err != nil {
		e.t.Fatalf("the answer is no JSON: %.500s", res.body)
	}
	return r, res.status
}

// rewrite replaces one piece of the configuration by another.
func (e *edge) rewrite(old, next string) {
	e.t.Helper()
	text, err := os.ReadFile(e.path)
	must(e.t, err)
	if !strings.Contains(string(text), old) {
		e.t.Fatalf("the configuration has no %q:\n%s", old, text)
	}
	e.write(filepath.Base(e.path), strings.Replace(string(text), old, next, 1))
}

// TestFault66_InvalidOnReload: whatever is wrong with the file, the configuration in use stays, whole, and the message names
// the place, in the answer, the log, the metric and on the state page.
func TestFault66_InvalidOnReload(t *testing.T) {
	t.Parallel()
	otherKey := auth.Hash("another key of the tests")
	for name, row := range map[string]struct {
		spoil func(e *edge)
		says  []string
	}{
		"unknown field":  {func(e *edge) { e.rewrite("models:", "modles: []\nmodels:") }, []string{"penstock.yaml:", "modles"}},
		"torn in a word": {func(e *edge) { e.tear(`hash: "sha`) }, []string{"penstock.yaml"}},
		"torn in a list": {func(e *edge) { e.tear("deployments:") }, []string{"penstock.yaml"}},
		"empty":          {func(e *edge) { e.write("penstock.yaml", "") }, []string{"penstock.yaml"}},
		"zeros":          {func(e *edge) { e.write("penstock.yaml", strings.Repeat("\x00", 4096)) }, []string{"penstock.yaml"}},
		"a directory": {func(e *edge) {
			must(e.t, os.Remove(e.path))
			must(e.t, os.Mkdir(e.path, 0o700))
		}, []string{"penstock.yaml", "is a directory"}},
		"gone": {func(e *edge) { must(e.t, os.Remove(e.path)) }, []string{"penstock.yaml", "does not exist"}},
		"a link to itself": {func(e *edge) {
			must(e.t, os.Remove(e.path))
			must(e.t, os.Symlink(e.path, e.path))
		}, []string{"penstock.yaml"}},
		"duplicate model": {func(e *edge) {
			e.rewrite("models:\n", "models:\n  - { id: sim, deployments: [{ upstream: up-0 }] }\n")
		}, []string{"penstock.yaml:", "sim", "first"}},
		"duplicate upstream": {func(e *edge) {
			e.rewrite("upstreams:\n", "upstreams:\n  - { name: up-0, url: \"http://127.0.0.1:1\" }\n")
		}, []string{"penstock.yaml:", "up-0", "first"}},
		"duplicate key": {func(e *edge) {
			e.rewrite("keys:\n", "keys:\n  - { id: tester, hash: \""+otherKey+"\" }\n")
		}, []string{"penstock.yaml:", "tester", "first"}},
		"alias equal to an id": {func(e *edge) {
			e.rewrite("models:\n", "models:\n  - { id: other, aliases: [sim], deployments: [{ upstream: up-0 }] }\n")
		}, []string{"penstock.yaml:", "alias", "sim"}},
		"unknown upstream": {func(e *edge) { e.rewrite("{ upstream: up-0 }", "{ upstream: up-9 }") }, []string{"penstock.yaml:", "up-9"}},
		"no certificate":   {func(e *edge) { e.rewrite("models:", "tls: { cert: not.pem, key: not.key }\nmodels:") }, []string{"penstock.yaml:", "not.pem"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := start(t, setup{})
			version := e.status().Version
			row.spoil(e)
			r, status := e.askReload("")
			if status != 422 || r.OK || r.Version != version || len(r.Problems) == 0 {
				t.Fatalf("status %d: %+v", status, r)
			}
			page := e.fetch("GET", e.admin+"/status").body
			for _, word := range row.says {
				if all := strings.Join(r.Problems, "\n"); !strings.Contains(all, word) {
					t.Errorf("the answer does not say %q:\n%s", word, all)
				}
				waitFor(t, patience, "the log says "+word, func() bool { return strings.Contains(e.log.String(), word) })
				if !strings.Contains(page, word) {
					t.Errorf("the state page does not say %q", word)
				}
			}
			if e.metric("penstock_reload_successful") != 0 || e.metric("penstock_reloads_total", `result="bad"`) < 1 {
				t.Error("the metrics do not tell")
			}
			if e.status().Version != version {
				t.Error("the version has changed")
			}
			e.ask(chat, `"text":"Good."`).wantStatus(200)
			_ = os.RemoveAll(e.path)
			e.write("penstock.yaml", e.text)
			if r, status := e.askReload(""); status != 200 || !r.Unchanged || r.Version != version || e.metric("penstock_reload_successful") != 1 {
				t.Errorf("the good file again: status %d, %+v", status, r)
			}
		})
	}
}

// tear cuts the configuration off behind a piece of it, in place.
func (e *edge) tear(behind string) {
	e.t.Helper()
	i := strings.Index(e.text, behind)
	if i < 0 {
		e.t.Fatalf("the configuration has no %q", behind)
	}
	must(e.t, os.WriteFile(e.path, []byte(e.text[:i+len(behind)]), 0o600))
}

// TestFault66_NoPermission: a file that may not be read. Root may read everything, unless it is without its capabilities.
func TestFault66_NoPermission(t *testing.T) {
	t.Parallel()
	var under []string
	if os.Getuid() == 0 {
		if _, err := exec.LookPath("setpriv"); err != nil {
			t.Skip("root may read every file, and there is no setpriv to take that away")
		}
		under = []string{"setpriv", "--bounding-set=-all", "--inh-caps=-all"}
	}
	e := start(t, setup{under: under})
	must(t, os.Chmod(e.path, 0))
	if r, status := e.askReload(""); status != 422 || !strings.Contains(strings.Join(r.Problems, ""), "permission denied") {
		t.Errorf("status %d: %+v", status, r)
	}
	e.ask(chat, "").wantStatus(200)
}

// TestFault67_PartialWrite: a file that is written in pieces, with pauses in bad places, is told of once for each state that
// it rests in, and taken when it is whole.
func TestFault67_PartialWrite(t *testing.T) {
	t.Parallel()
	e := start(t, setup{})
	next := strings.Replace(e.text, "id: sim,", "id: sim, aliases: [whole],", 1)
	cut := strings.Index(next, "deployments:") + len("deploym")
	f, err := os.OpenFile(e.path, os.O_WRONLY|os.O_TRUNC, 0o600)
	must(t, err)
	defer f.Close()
	for i := 0; i < cut; i += 40 { // quicker than anybody looks
		_, err = f.WriteString(next[i:min(i+40, cut)])
		must(t, err)
		time.Sleep(5 * time.Millisecond)
	}
	waitFor(t, patience, "the torn file is told of", func() bool { return e.metric("penstock_reloads_total", `result="bad"`) == 1 })
	time.Sleep(3 * time.Second) // a look at the interval comes by, and says nothing new
	e.ask(chat, "").wantStatus(200)
	if bad := e.metric("penstock_reloads_total", `result="bad"`); bad != 1 {
		t.Errorf("told of %v times", bad)
	}
	_, err = f.WriteString(next[cut:])
	must(t, err)
	waitFor(t, patience, "the whole file is in use", func() bool { return e.post(chat.path, chat.body("whole", prompt, "")).status == 200 })
}

// TestFault68_Unchanged: the same file again, or one that differs in nothing that counts, is said to be unchanged and is no
// new version; an edit and a signal for it are one reload.
func TestFault68_Unchanged(t *testing.T) {
	t.Parallel()
	e := start(t, setup{})
	version := e.status().Version
	if r, status := e.askReload(""); status != 200 || !r.OK || !r.Unchanged || r.Version != version {
		t.Errorf("the same file: status %d, %+v", status, r)
	}
	e.write("penstock.yaml", "# a comment\n"+e.text)
	if r, _ := e.askReload(""); !r.Unchanged || r.Version != version {
		t.Errorf("a comment: %+v", r)
	}
	out, errs, code := runProgram(t, "reload", "--admin", e.admin)
	if code != 0 || !strings.Contains(out, "unchanged") {
		t.Errorf("the command says %q %q, exit code %d", out, errs, code)
	}
	e.rewrite("id: sim,", "id: sim, aliases: [edited],")
	e.signal(syscall.SIGHUP)
	waitFor(t, patience, "the edit is in use", func() bool { return e.status().Version > version })
	time.Sleep(time.Second) // the watcher has seen the edit as well by now
	if v := e.status().Version; v != version+1 {
		t.Errorf("version %d after %d and one edit", v, version)
	}
	if ok := e.metric("penstock_reloads_total", `result="ok"`); ok != 1 {
		t.Errorf("%v reloads were counted", ok)
	}
}

// TestFault69_RestartOnly: what a running process cannot change is named, in the answer of every reload until the restart,
// and the rest is applied.
func TestFault69_RestartOnly(t *testing.T) {
	t.Parallel()
	e := start(t, setup{untidy: true}) // not every call is told of
	e.rewrite("log: { level: debug }", "log: { level: error, format: console }")
	e.rewrite("id: sim,", "id: sim, aliases: [moved],")
	r, status := e.askReload("")
	if status != 200 || len(r.Restart) != 1 || !strings.Contains(r.Restart[0], "log.format") || !strings.Contains(strings.Join(r.Changes, ""), "aliases") {
		t.Errorf("status %d: %+v", status, r)
	}
	before := len(e.log.String())
	e.post(chat.path, chat.body("moved", prompt, "")).wantStatus(200)
	e.rewrite("level: error", "level: info")
	if r, status := e.askReload(""); status != 200 || r.Unchanged {
		t.Errorf("status %d: %+v", status, r)
	}
	e.post(chat.path, chat.body("moved", prompt, "")).wantStatus(200)
	waitFor(t, patience, "the log speaks again", func() bool { return strings.Contains(e.log.String()[before:], `"msg":"call"`) })
	if n := strings.Count(e.log.String()[before:], `"msg":"call"`); n != 1 {
		t.Errorf("%d access lines, and one of the two calls was to be told of", n)
	}
	if r, _ := e.askReload(""); !r.Unchanged || len(r.Restart) != 1 {
		t.Errorf("the next one: %+v", r)
	}
}

// TestReloadCapacity: the change of every model's slots is told before it is applied, and applied as it was told.
func TestReloadCapacity(t *testing.T) {
	t.Parallel()
	e := start(t, setup{forgets: true, engines: []sim.Options{{}, {}, {}}, upstream: "concurrency: 16", models: "- { id: other, deployments: [{ upstream: up-0, served: sim }] }"})
	old := filepath.Join(e.dir, "old.yaml")
	must(t, os.WriteFile(old, []byte(e.text), 0o600))
	// up-1 stays for another model, up-2 leaves.
	want := []string{"sim: 48 -> 16 slots, 1 upstream draining, 1 upstream no longer used\n", "fresh: new, 16 slots\n", "other: removed, had 16 slots\n"}
	changed := strings.Replace(e.text, ", { upstream: up-1 }, { upstream: up-2 }", "", 1)
	changed = strings.Replace(changed, "- { id: other, deployments: [{ upstream: up-0, served: sim }] }", "- { id: fresh, deployments: [{ upstream: up-1, served: sim }] }", 1)
	leaving := strings.Index(changed, "  - { name: up-2,")
	changed = changed[:leaving] + changed[leaving+strings.Index(changed[leaving:], "\n")+1:]
	next := filepath.Join(e.dir, "next.yaml")
	must(t, os.WriteFile(next, []byte(changed), 0o600))
	out, errs, code := runProgram(t, "check", next, "--against", old)
	for _, line := range want {
		if code != 0 || !strings.Contains(out, line) {
			t.Errorf("check --against does not say %q (exit code %d):\n%s%s", line, code, out, errs)
		}
	}
	for range 10 {
		version := e.status().Version
		must(t, os.WriteFile(e.path, []byte(changed), 0o600)) // the watcher waits 200 ms; the command should be quicker
		out, errs, code = runProgram(t, "reload", "--diff", "--admin", e.admin)
		if !strings.Contains(out, "unchanged") {
			break
		}
		must(t, os.WriteFile(e.path, []byte(e.text), 0o600))
		waitFor(t, patience, "the old file is in use again", func() bool { return e.status().Version > version+1 })
	}
	for _, line := range append(want, "not applied") {
		if code != 0 || !strings.Contains(out, line) {
			t.Errorf("reload --diff does not say %q (exit code %d):\n%s%s", line, code, out, errs)
		}
	}
	waitFor(t, patience, "the log tells of it", func() bool { return strings.Contains(e.log.String(), strings.TrimSpace(want[0])) })
	e.post(chat.path, chat.body("fresh", prompt, "")).wantStatus(200)
	e.post(chat.path, chat.body("other", prompt, "")).wantStatus(404)
}

// TestReloadLeavesNoModelWithoutSlots: a model that serves calls is not left with nobody to take them, unless the operator
// insists; the file watch and SIGHUP cannot insist.
func TestReloadLeavesNoModelWithoutSlots(t *testing.T) {
	t.Parallel()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	nobody := dead.Addr().String()
	dead.Close()
	for name, change := range map[string]func(e *edge){
		"all its upstreams replaced by a dead one": func(e *edge) {
			e.rewrite("upstreams:\n", "upstreams:\n  - { name: dead, url: \"http://"+nobody+"\", engine: sim }\n")
			e.rewrite("deployments: [{ upstream: up-0 }]", "deployments: [{ upstream: dead }]")
		},
		"the URL moved to a dead one": func(e *edge) { e.rewrite(e.engines[0].URL(), "http://"+nobody) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := start(t, setup{untidy: true})
			version := e.status().Version
			change(e)
			refused := func() { // by any way that does not insist
				t.Helper()
				if v := e.status().Version; v != version {
					t.Fatalf("version %d is in use", v)
				}
				e.ask(chat, "").wantStatus(200)
			}
			r, status := e.askReload("")
			if all := strings.Join(r.Problems, "\n"); status != 422 || !strings.Contains(all, "without a slot") || !strings.Contains(all, "penstock.yaml:") || !strings.Contains(all, "--force") {
				t.Errorf("status %d: %s", status, all)
			}
			refused()
			e.signal(syscall.SIGHUP)
			waitFor(t, patience, "the refusals", func() bool { return e.metric("penstock_reloads_total", `result="bad"`) >= 3 }) // the file's own, too
			refused()
			if out, errs, code := runProgram(t, "reload", "--diff", "--admin", e.admin); code != 1 || !strings.Contains(errs, "without a slot") || !strings.Contains(out, " -> 0 slots") {
				t.Errorf("reload --diff: exit code %d\n%s%s", code, out, errs)
			}
			if _, errs, code := runProgram(t, "reload", "--admin", e.admin); code != 1 || !strings.Contains(errs, "without a slot") {
				t.Errorf("reload: exit code %d\n%s", code, errs)
			}
			refused()
			if out, errs, code := runProgram(t, "reload", "--force", "--admin", e.admin); code != 0 {
				t.Errorf("reload --force: exit code %d\n%s%s", code, out, errs)
			}
			if v := e.status().Version; v != version+1 {
				t.Errorf("version %d after the forced reload of %d", v, version)
			}
			if res := e.ask(chat, ""); res.status == 200 {
				t.Error("and yet the model serves")
			}
		})
	}
	t.Run("a name that the engine does not list", func(t *testing.T) {
		t.Parallel()
		e := start(t, setup{engines: []sim.Options{{}}, config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: a, url: "{{up-0}}", engine: vllm }]
models: [{ id: sim, deployments: [{ upstream: a }] }]
`})
		e.rewrite("{ upstream: a }", "{ upstream: a, served: nonsense }")
		if r, status := e.askReload(""); status != 422 || !strings.Contains(strings.Join(r.Problems, ""), "does not list") {
			t.Errorf("status %d: %+v", status, r)
		}
		e.ask(chat, "").wantStatus(200)
	})
	t.Run("a live replacement is no reason", func(t *testing.T) {
		t.Parallel()
		e := start(t, setup{engines: []sim.Options{{}, {}}, config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: a, url: "{{up-0}}", engine: sim }]
models: [{ id: sim, deployments: [{ upstream: a }] }]
`})
		e.rewrite("url: \""+e.engines[0].URL(), "url: \""+e.engines[1].URL())
		if r, status := e.askReload(""); status != 200 || !r.OK {
			t.Errorf("status %d: %+v", status, r)
		}
		for range 20 {
			e.ask(chat, "").wantStatus(200)
		}
		if n := e.engines[1].Stats().Requests; n == 0 {
			t.Error("the new engine got nothing")
		}
	})
	t.Run("nonsense in the query", func(t *testing.T) {
		t.Parallel()
		e := start(t, setup{})
		for _, query := range []string{"?force=perhaps", "?farce=true"} {
			if r := e.fetch("POST", e.admin+"/-/reload"+query); r.status != 400 {
				t.Errorf("%s: status %d: %s", query, r.status, r.body)
			}
		}
	})
}

// TestReloadConnectionLimit: the bound on connections follows a reload, up and down; those who are in stay.
func TestReloadConnectionLimit(t *testing.T) {
	t.Parallel()
	e := start(t, setup{limits: "connections: 40"})
	e.client.CloseIdleConnections()
	for _, step := range []struct{ from, to string }{{"connections: 40", "connections: 60"}, {"connections: 60", "connections: 50"}} {
		e.rewrite(step.from, step.to)
		if r, status := e.askReload(""); status != 200 || r.Unchanged || len(r.Restart) > 0 {
			t.Fatalf("status %d: %+v", status, r)
		}
		if n := e.metric("penstock_client_connections_limit"); "connections: "+strconv.Itoa(int(n)) != step.to {
			t.Errorf("the limit is %v after %s", n, step.to)
		}
	}
	var inside []*raw
	for range 50 {
		c := e.dial()
		must(t, c.send(e.request(chat.path, chat.body("sim", prompt, `"tokens":1`))))
		if r, err := c.tryReply("POST"); err != nil || r.status != 200 {
			t.Fatalf("connection %d of 50: %v %v", len(inside), r, err)
		}
		inside = append(inside, c)
	}
	if r, err := e.dial().tryReply("POST"); err != nil || r.status != 503 {
		t.Errorf("one too many: %v, %v", r, err)
	}
	must(t, inside[49].send(e.request(chat.path, chat.body("sim", prompt, `"tokens":1`))))
	inside[49].reply("POST").wantStatus(200)
	for _, c := range inside {
		c.Close()
	}
	waitFor(t, patience, "they have left", func() bool { return e.metric("penstock_client_connections") < 10 })
}
