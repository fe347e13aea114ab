package faults

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// These tests check which changes reloads apply, and which they reject.

// reloadResult is the answer to POST /-/reload.
type reloadResult struct {
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

// askReload requests a reload. query contains parameters, for example "?force=true".
func (e *edge) askReload(query string) (r reloadResult, status int) {
	e.T.Helper()
	res := e.Fetch("POST", e.Admin+"/-/reload"+query)
	if err := json.Unmarshal([]byte(res.Body), &r); err != nil {
		e.T.Fatalf("the answer is no JSON: %.500s", res.Body)
	}
	return r, res.Status
}

func (e *edge) rewrite(old, next string) {
	e.T.Helper()
	text, err := os.ReadFile(e.Path)
	noError(e.T, err)
	if !strings.Contains(string(text), old) {
		e.T.Fatalf("the configuration has no %q:\n%s", old, text)
	}
	e.Write(filepath.Base(e.Path), strings.Replace(string(text), old, next, 1))
}

// apply replaces a piece of the configuration and requests a reload. If the watcher is faster, the
// response reports no change.
func (e *edge) apply(old, next string) reloadResult {
	e.T.Helper()
	version := e.Status().Version
	e.rewrite(old, next)
	r, status := e.askReload("")
	if status != 200 || !r.OK || r.Version != version+1 {
		e.T.Fatalf("status %d after version %d: %+v", status, version, r)
	}
	return r
}

// TestFault66_InvalidOnReload checks that an invalid file leaves the running configuration
// unchanged. The response, the log and the state page name the position of the mistake, and a
// metric counts the failure.
func TestFault66_InvalidOnReload(t *testing.T) {
	t.Parallel()
	otherKey := auth.HashKey("another key of the tests")
	for name, row := range map[string]struct {
		spoil func(e *edge)
		says  []string
	}{
		"unknown field":  {func(e *edge) { e.rewrite("models:", "modles: []\nmodels:") }, []string{"penstock.yaml:", "modles"}},
		"torn in a word": {func(e *edge) { e.truncateConfig(`hash: "sha`) }, []string{"penstock.yaml"}},
		"torn in a list": {func(e *edge) { e.truncateConfig("deployments:") }, []string{"penstock.yaml"}},
		"empty":          {func(e *edge) { e.Write("penstock.yaml", "") }, []string{"penstock.yaml"}},
		"zeros":          {func(e *edge) { e.Write("penstock.yaml", strings.Repeat("\x00", 4096)) }, []string{"penstock.yaml"}},
		"a directory": {func(e *edge) {
			noError(e.T, os.Remove(e.Path))
			noError(e.T, os.Mkdir(e.Path, 0o700))
		}, []string{"penstock.yaml", "is a directory"}},
		"gone": {func(e *edge) { noError(e.T, os.Remove(e.Path)) }, []string{"penstock.yaml", "does not exist"}},
		"a link to itself": {func(e *edge) {
			noError(e.T, os.Remove(e.Path))
			noError(e.T, os.Symlink(e.Path, e.Path))
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
			e := start(t, rig.Setup{})
			version := e.Status().Version
			row.spoil(e)
			r, status := e.askReload("")
			if status != 422 || r.OK || r.Version != version || len(r.Problems) == 0 {
				t.Fatalf("reload = %d %+v, want 422 with problems and version %v", status, r, version)
			}
			page := e.Fetch("GET", e.Admin+"/status").Body
			for _, word := range row.says {
				if all := strings.Join(r.Problems, "\n"); !strings.Contains(all, word) {
					t.Errorf("the answer does not say %q:\n%s", word, all)
				}
				rig.WaitFor(t, rig.WaitTimeout, "the log says "+word, func() bool { return strings.Contains(e.Log.String(), word) })
				if !strings.Contains(page, word) {
					t.Errorf("the state page does not say %q", word)
				}
			}
			if e.Metric("penstock_reload_successful") != 0 || e.Metric("penstock_reloads_total", `result="bad"`) < 1 {
				t.Error("the metrics do not tell")
			}
			if e.Status().Version != version {
				t.Error("the version has changed")
			}
			e.SendRequest(rig.Chat, `"text":"Good."`).WantStatus(200)
			_ = os.RemoveAll(e.Path)
			e.Write("penstock.yaml", e.Text)
			if r, status := e.askReload(""); status != 200 || !r.Unchanged || r.Version != version || e.Metric("penstock_reload_successful") != 1 {
				t.Errorf("the good file again: status %d, %+v", status, r)
			}
		})
	}
}

// truncateConfig truncates the configuration file in place after the given text.
func (e *edge) truncateConfig(behind string) {
	e.T.Helper()
	i := strings.Index(e.Text, behind)
	if i < 0 {
		e.T.Fatalf("the configuration has no %q", behind)
	}
	noError(e.T, os.WriteFile(e.Path, []byte(e.Text[:i+len(behind)]), 0o600))
}

// TestFault66_MissingFileArrives checks that a file that was rejected because of a missing
// keys_file is read again by itself once the keys_file is written, and again when it changes.
func TestFault66_MissingFileArrives(t *testing.T) {
	t.Parallel()
	e, key, line := withKeysFile(t, "")
	status := func() int {
		return e.Post(rig.Chat.Path, rig.Chat.RequestBody("sim", rig.Prompt, `"tokens":1`), "Authorization: Bearer "+key).Status
	}
	e.rewrite("keys_file: keys.yaml", "keys_file: other.yaml")
	rig.WaitFor(t, rig.WaitTimeout, "the missing file is reported", func() bool { return strings.Contains(e.Log.String(), "other.yaml does not exist") })
	e.Write("other.yaml", "keys: [{ id: nonsense }]\n")
	rig.WaitFor(t, rig.WaitTimeout, "the mistake in it is reported", func() bool { return strings.Contains(e.Log.String(), "other.yaml:1:") })
	if got := status(); got != 200 {
		t.Errorf("a call with a key of the running configuration: status %d, want 200", got)
	}
	e.Write("other.yaml", "keys: []\n")
	rig.WaitFor(t, rig.WaitTimeout, "the key is refused", func() bool { return status() == 401 })
	e.Write("other.yaml", line(""))
	rig.WaitFor(t, rig.WaitTimeout, "the key is accepted", func() bool { return status() == 200 })
}

// TestFault66_NoPermission checks a file without read permission. Root can still read it, unless
// the process has dropped its capabilities.
func TestFault66_NoPermission(t *testing.T) {
	t.Parallel()
	var under []string
	if os.Getuid() == 0 {
		if _, err := exec.LookPath("setpriv"); err != nil {
			t.Skip("root may read every file, and there is no setpriv to take that away")
		}
		under = []string{"setpriv", "--bounding-set=-all", "--inh-caps=-all"}
	}
	e := start(t, rig.Setup{Under: under})
	noError(t, os.Chmod(e.Path, 0))
	if r, status := e.askReload(""); status != 422 || !strings.Contains(strings.Join(r.Problems, ""), "permission denied") {
		t.Errorf("reload = %d %+v, want 422 and permission denied", status, r)
	}
	e.SendRequest(rig.Chat, "").WantStatus(200)
}

// TestFault67_PartialWrite checks that a file written in pieces is reported once for each pause,
// and applied once it is complete.
func TestFault67_PartialWrite(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	next := strings.Replace(e.Text, "id: sim,", "id: sim, aliases: [whole],", 1)
	cut := strings.Index(next, "deployments:") + len("deploym")
	f, err := os.OpenFile(e.Path, os.O_WRONLY|os.O_TRUNC, 0o600)
	noError(t, err)
	defer f.Close()
	begun := time.Now()
	for i := 0; i < cut; i += 40 { // faster than the watcher's checks
		_, err = f.WriteString(next[i:min(i+40, cut)])
		noError(t, err)
		time.Sleep(5 * time.Millisecond)
	}
	// the watcher may have seen two incomplete states of the file
	slow := time.Since(begun) > 500*time.Millisecond
	reports := func() float64 { return e.Metric("penstock_reloads_total", `result="bad"`) }
	rig.WaitFor(t, rig.WaitTimeout, "the torn file is reported", func() bool { return reports() > 0 })
	if slow {
		time.Sleep(3 * time.Second)
	}
	told := reports()
	time.Sleep(3 * time.Second) // a periodic check must find no change
	e.SendRequest(rig.Chat, "").WantStatus(200)
	if n := reports(); n != told || !slow && n != 1 {
		t.Errorf("told of %v times, then %v", told, n)
	}
	_, err = f.WriteString(next[cut:])
	noError(t, err)
	rig.WaitFor(t, rig.WaitTimeout, "the whole file is in use", func() bool { return e.Post(rig.Chat.Path, rig.Chat.RequestBody("whole", rig.Prompt, "")).Status == 200 })
}

// TestFault68_Unchanged checks that a file without a relevant difference is reported as unchanged
// and does not create a new version. If an edit is followed by a signal, there must be only one
// reload.
func TestFault68_Unchanged(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	version := e.Status().Version
	if r, status := e.askReload(""); status != 200 || !r.OK || !r.Unchanged || r.Version != version {
		t.Errorf("the same file: status %d, %+v", status, r)
	}
	e.Write("penstock.yaml", "# a comment\n"+e.Text)
	if r, _ := e.askReload(""); !r.Unchanged || r.Version != version {
		t.Errorf("reload after a comment = %+v, want it unchanged at version %v", r, version)
	}
	out, errs, code := rig.RunProgram(t, "", "reload", "--admin", e.Admin)
	if code != 0 || !strings.Contains(out, "unchanged") {
		t.Errorf("the command says %q %q, exit code %d", out, errs, code)
	}
	e.rewrite("id: sim,", "id: sim, aliases: [edited],")
	e.Signal(syscall.SIGHUP)
	rig.WaitFor(t, rig.WaitTimeout, "the edit is in use", func() bool { return e.Status().Version > version })
	time.Sleep(time.Second) // long enough for the watcher to see the edit
	if v := e.Status().Version; v != version+1 {
		t.Errorf("version %d after %d and one edit", v, version)
	}
	if ok := e.Metric("penstock_reloads_total", `result="ok"`); ok != 1 {
		t.Errorf("%v reloads were counted", ok)
	}
}

// TestFault69_RestartOnly checks that the response to every reload names the changed settings that
// require a restart, and that the other settings are applied.
func TestFault69_RestartOnly(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Untidy: true}) // not every call has an access line
	e.rewrite("log: { level: debug }", "log: { level: error, format: console }")
	e.rewrite("id: sim,", "id: sim, aliases: [moved],")
	r, status := e.askReload("") // the watcher may already have applied the change
	if status != 200 || len(r.Restart) != 1 || !strings.Contains(r.Restart[0], "log.format") || !r.Unchanged && !strings.Contains(strings.Join(r.Changes, ""), "aliases") {
		t.Errorf("status %d: %+v", status, r)
	}
	before := len(e.Log.String())
	e.Post(rig.Chat.Path, rig.Chat.RequestBody("moved", rig.Prompt, "")).WantStatus(200)
	e.apply("level: error", "level: info")
	e.Post(rig.Chat.Path, rig.Chat.RequestBody("moved", rig.Prompt, "")).WantStatus(200)
	rig.WaitFor(t, rig.WaitTimeout, "the log speaks again", func() bool { return strings.Contains(e.Log.String()[before:], `"msg":"call"`) })
	if n := strings.Count(e.Log.String()[before:], `"msg":"call"`); n != 1 {
		t.Errorf("%d access lines, and one of the two calls was to be logged", n)
	}
	if r, _ := e.askReload(""); !r.Unchanged || len(r.Restart) != 1 {
		t.Errorf("the next one: %+v", r)
	}
}

// TestReloadCapacity checks that a dry run reports the effect of a reload on the slots of every
// model.
func TestReloadCapacity(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Forgets: true, Engines: []sim.Options{{}, {}, {}}, Upstream: "concurrency: 16", Models: "- { id: other, deployments: [{ upstream: up-0, served: sim }] }"})
	old := filepath.Join(e.Dir, "old.yaml")
	noError(t, os.WriteFile(old, []byte(e.Text), 0o600))
	// up-1 stays, because another model uses it, and up-2 is removed.
	want := []string{"sim: 48 -> 16 slots, 1 upstream draining, 1 upstream no longer used\n", "fresh: new, 16 slots\n", "other: removed, had 16 slots\n"}
	changed := strings.Replace(e.Text, ", { upstream: up-1 }, { upstream: up-2 }", "", 1)
	changed = strings.Replace(changed, "- { id: other, deployments: [{ upstream: up-0, served: sim }] }", "- { id: fresh, deployments: [{ upstream: up-1, served: sim }] }", 1)
	leaving := strings.Index(changed, "  - { name: up-2,")
	changed = changed[:leaving] + changed[leaving+strings.Index(changed[leaving:], "\n")+1:]
	next := filepath.Join(e.Dir, "next.yaml")
	noError(t, os.WriteFile(next, []byte(changed), 0o600))
	out, errs, code := rig.RunProgram(t, "", "check", next, "--against", old)
	for _, line := range want {
		if code != 0 || !strings.Contains(out, line) {
			t.Errorf("check --against does not say %q (exit code %d):\n%s%s", line, code, out, errs)
		}
	}
	// Otherwise, the watcher may reload before the command.
	e.rewrite("upstreams:\n", "watch: false\nupstreams:\n")
	rig.WaitFor(t, rig.WaitTimeout, "the file is not watched", func() bool { return e.Status().Version > 1 })
	changed = strings.Replace(changed, "upstreams:\n", "watch: false\nupstreams:\n", 1)
	noError(t, os.WriteFile(e.Path, []byte(changed), 0o600))
	out, errs, code = rig.RunProgram(t, "", "reload", "--diff", "--admin", e.Admin)
	for _, line := range append(want, "not applied") {
		if code != 0 || !strings.Contains(out, line) {
			t.Errorf("reload --diff does not say %q (exit code %d):\n%s%s", line, code, out, errs)
		}
	}
	if _, errs, code = rig.RunProgram(t, "", "reload", "--admin", e.Admin); code != 0 {
		t.Errorf("reload: exit code %d: %s", code, errs)
	}
	rig.WaitFor(t, rig.WaitTimeout, "the log tells of it", func() bool { return strings.Contains(e.Log.String(), strings.TrimSpace(want[0])) })
	fresh := func() int { return e.Post(rig.Chat.Path, rig.Chat.RequestBody("fresh", rig.Prompt, "")).Status }
	// the command returns before the reload is applied
	rig.WaitFor(t, rig.WaitTimeout, "it is applied", func() bool { return fresh() == 200 })
	e.Post(rig.Chat.Path, rig.Chat.RequestBody("other", rig.Prompt, "")).WantStatus(404)
}

// TestReloadLeavesNoModelWithoutSlots checks that a reload is refused if it would leave a serving
// model without slots. The operator must be able to force such a reload. The file watch and SIGHUP
// must not.
func TestReloadLeavesNoModelWithoutSlots(t *testing.T) {
	t.Parallel()
	const nobody = "127.0.0.1:1" // a port that was free may now belong to another test
	for name, change := range map[string]func(e *edge){
		"all its upstreams replaced by a dead one": func(e *edge) {
			e.rewrite("upstreams:\n", "upstreams:\n  - { name: dead, url: \"http://"+nobody+"\", engine: sim }\n")
			e.rewrite("deployments: [{ upstream: up-0 }]", "deployments: [{ upstream: dead }]")
		},
		"the URL moved to a dead one": func(e *edge) { e.rewrite(e.Engines[0].URL(), "http://"+nobody) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := start(t, rig.Setup{Untidy: true})
			version := e.Status().Version
			change(e)
			refused := func() { // requests a reload without force in every possible way
				t.Helper()
				if v := e.Status().Version; v != version {
					t.Fatalf("version %d is in use", v)
				}
				e.SendRequest(rig.Chat, "").WantStatus(200)
			}
			r, status := e.askReload("")
			if all := strings.Join(r.Problems, "\n"); status != 422 || !strings.Contains(all, "without a slot") || !strings.Contains(all, "penstock.yaml:") || !strings.Contains(all, "--force") {
				t.Errorf("reload = %d %s, want 422, the place of the slot's loss and --force", status, all)
			}
			refused()
			e.Signal(syscall.SIGHUP)
			// the watcher is also refused.
			rig.WaitFor(t, rig.WaitTimeout, "the refusals", func() bool { return e.Metric("penstock_reloads_total", `result="bad"`) >= 3 })
			refused()
			if out, errs, code := rig.RunProgram(t, "", "reload", "--diff", "--admin", e.Admin); code != 1 || !strings.Contains(errs, "without a slot") || !strings.Contains(out, " -> 0 slots") {
				t.Errorf("reload --diff: exit code %d\n%s%s", code, out, errs)
			}
			if _, errs, code := rig.RunProgram(t, "", "reload", "--admin", e.Admin); code != 1 || !strings.Contains(errs, "without a slot") {
				t.Errorf("reload: exit code %d\n%s", code, errs)
			}
			refused()
			if out, errs, code := rig.RunProgram(t, "", "reload", "--force", "--admin", e.Admin); code != 0 {
				t.Errorf("reload --force: exit code %d\n%s%s", code, out, errs)
			}
			if v := e.Status().Version; v != version+1 {
				t.Errorf("version %d after the forced reload of %d", v, version)
			}
			if res := e.SendRequest(rig.Chat, ""); res.Status == 200 {
				t.Error("and yet the model serves")
			}
		})
	}
	t.Run("a name that the engine does not list", func(t *testing.T) {
		t.Parallel()
		e := start(t, rig.Setup{Engines: []sim.Options{{}}, Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: a, url: "{{up-0}}", engine: vllm }]
models: [{ id: sim, deployments: [{ upstream: a }] }]
`})
		e.rewrite("{ upstream: a }", "{ upstream: a, served: nonsense }")
		if r, status := e.askReload(""); status != 422 || !strings.Contains(strings.Join(r.Problems, ""), "does not list") {
			t.Errorf("reload = %d %+v, want 422 and a model that no engine lists", status, r)
		}
		e.SendRequest(rig.Chat, "").WantStatus(200)
	})
	t.Run("a live replacement is no reason", func(t *testing.T) {
		t.Parallel()
		e := start(t, rig.Setup{Engines: []sim.Options{{}, {}}, Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: a, url: "{{up-0}}", engine: sim }]
models: [{ id: sim, deployments: [{ upstream: a }] }]
`})
		e.rewrite("url: \""+e.Engines[0].URL(), "url: \""+e.Engines[1].URL())
		if r, status := e.askReload(""); status != 200 || !r.OK {
			t.Errorf("reload = %d %+v, want 200 and ok", status, r)
		}
		for range 20 {
			e.SendRequest(rig.Chat, "").WantStatus(200)
		}
		if n := e.Engines[1].Stats().Requests; n == 0 {
			t.Error("the new engine got nothing")
		}
	})
	t.Run("nonsense in the query", func(t *testing.T) {
		t.Parallel()
		e := start(t, rig.Setup{})
		for _, query := range []string{"?force=perhaps", "?farce=true"} {
			if r := e.Fetch("POST", e.Admin+"/-/reload"+query); r.Status != 400 {
				t.Errorf("reload with %s = %d %s, want 400", query, r.Status, r.Body)
			}
		}
	})
}

// TestReloadConnectionLimit checks that a reload can raise and lower the connection limit, and that
// open connections stay open.
func TestReloadConnectionLimit(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Limits: "connections: 40", Upstream: "concurrency: 64", Engines: []sim.Options{{Slots: 64}}})
	e.Client.CloseIdleConnections()
	for _, step := range []struct{ from, to string }{{"connections: 40", "connections: 60"}, {"connections: 60", "connections: 50"}} {
		if r := e.apply(step.from, step.to); len(r.Restart) > 0 {
			t.Fatalf("%+v", r)
		}
		if n := e.Metric("penstock_client_connections_limit"); "connections: "+strconv.Itoa(int(n)) != step.to {
			t.Errorf("the limit is %v after %s", n, step.to)
		}
	}
	inside := e.fill(50)
	if r, err := e.Dial().TryReadReply("POST"); err != nil || r.Status != 503 {
		t.Errorf("one too many: %v, %v", r, err)
	}
	inside[49].Next()
	for _, s := range inside {
		s.Disconnect()
	}
	rig.WaitFor(t, rig.WaitTimeout, "they have left", func() bool { return e.Metric("penstock_client_connections") < 10 })
}

// TestLargeHead checks that a head with a large token and a browser's cookies is served with
// default settings.
func TestLargeHead(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	e.Post(rig.Chat.Path, rig.Chat.RequestBody("sim", rig.Prompt, ""), "Cookie: "+strings.Repeat("session=0123456789abcdef; ", 360), "X-Token: "+strings.Repeat("t", 6<<10)).WantStatus(200)
}
