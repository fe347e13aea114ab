package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// withKeysFile returns an edge with a second key in a keys_file. It also returns this key.
func withKeysFile(t *testing.T, top string) (e *edge, key string, line func(more string) string) {
	t.Helper()
	key, hash, err := auth.NewKey()
	noError(t, err)
	line = func(more string) string { return fmt.Sprintf("keys:\n  - { id: second, hash: %q%s }\n", hash, more) }
	e = start(t, rig.Setup{Engines: []sim.Options{{}}, Top: "keys_file: keys.yaml\n" + top, Files: map[string]string{"keys.yaml": line("")}})
	return e, key, line
}

// TestFault70_KeyRevoked checks that a change of the keys_file takes effect within a second. A
// revoked key's streams must finish or, if the configuration says so, be aborted.
func TestFault70_KeyRevoked(t *testing.T) {
	t.Parallel()
	none := "keys: []\n"
	for name, row := range map[string]struct {
		top    string
		revoke func(line func(string) string) string
		cut    bool
	}{
		"removed":         {"", func(func(string) string) string { return none }, false},
		"inactive":        {"on_revoke: end\n", func(l func(string) string) string { return l(", active: false") }, false},
		"expired":         {"", func(l func(string) string) string { return l(", expires: 2020-01-01T00:00:00Z") }, false},
		"removed, abort":  {"on_revoke: abort\n", func(func(string) string) string { return none }, true},
		"inactive, abort": {"on_revoke: abort\n", func(l func(string) string) string { return l(", active: false") }, true},
		"another hash, abort": {"on_revoke: abort\n", func(func(string) string) string {
			return "keys:\n  - { id: second, hash: \"sha256:" + strings.Repeat("ab", 32) + "\" }\n"
		}, true},
		"still good, abort":  {"on_revoke: abort\n", func(l func(string) string) string { return l(", models: [sim]") + "" }, false},
		"other model, abort": {"on_revoke: abort\n", func(l func(string) string) string { return l(`, models: ["x*"]`) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, key, line := withKeysFile(t, row.top)
			header := "Authorization: Bearer " + key
			length := `"tokens":200,"delay_ms":20`
			if row.cut { // the stream must still be running when the change takes effect
				length = endless
			}
			own, other := e.OpenStream(rig.Chat.Path, rig.ChatStream.RequestBody("sim", rig.Prompt, length), header),
				e.OpenStream(rig.Chat.Path, rig.ChatStream.RequestBody("sim", rig.Prompt, `"tokens":100,"delay_ms":20`))
			own.Next()
			other.Next()
			written := rig.StartWatch()
			e.Write("keys.yaml", row.revoke(line))
			if strings.HasPrefix(name, "still good") {
				rig.WaitFor(t, rig.WaitTimeout, "the change counts", func() bool { return e.Metric("penstock_reloads_total", `result="ok"`) == 1 })
			} else {
				rig.WaitFor(t, rig.WaitTimeout, "new requests are refused", func() bool {
					status := e.Post(rig.Chat.Path, rig.Chat.RequestBody("sim", rig.Prompt, `"tokens":1`), header).Status
					return status == 401 || status == 403
				})
			}
			// On an idle machine, the change takes effect within a second. Other parts of this test
			// add to the measured time.
			if took := written.Elapsed(); took > 5*time.Second+written.MachineDelay() {
				t.Errorf("the change took %v to count", took)
			} else {
				t.Logf("the change counted after %v", took)
			}
			if got := isCompleteStream(own); got == row.cut {
				t.Errorf("the stream of the revoked key: whole %v, want %v", got, !row.cut)
			}
			if !isCompleteStream(other) {
				t.Error("the stream of another key was cut")
			}
			e.WaitIdle()
			rig.WaitFor(t, rig.WaitTimeout, "the log has the line of a revoked call only if one was cut", func() bool {
				return strings.Contains(e.Log.String(), `"revoked"`) == row.cut
			})
			// After that, the key is added again.
			if !strings.HasPrefix(name, "still good") {
				e.Write("keys.yaml", line(""))
				rig.WaitFor(t, rig.WaitTimeout, "the key is good again", func() bool {
					return e.Post(rig.Chat.Path, rig.Chat.RequestBody("sim", rig.Prompt, `"tokens":1`), header).Status == 200
				})
			}
		})
	}
}

// isCompleteStream reads a chat stream to the end and reports whether it is complete.
func isCompleteStream(s *rig.Stream) bool {
	var last rig.Event
	for {
		ev, ok := s.Next()
		if !ok {
			return last.Data == "[DONE]"
		}
		last = ev
	}
}

// TestFault70_KeyAdded checks that a key added to the keys_file can be used within a second.
func TestFault70_KeyAdded(t *testing.T) {
	t.Parallel()
	e, _, line := withKeysFile(t, "")
	third, hash, err := auth.NewKey()
	noError(t, err)
	e.Write("keys.yaml", line("")+fmt.Sprintf("  - { id: third, hash: %q }\n", hash))
	took := rig.WaitFor(t, 5*time.Second, "the new key is good", func() bool {
		return e.Post(rig.Chat.Path, rig.Chat.RequestBody("sim", rig.Prompt, `"tokens":1`), "Authorization: Bearer "+third).Status == 200
	})
	t.Logf("the key counted after %v", took)
	e.Write("keys.yaml", line("")+"  - { id: third, hash: nonsense }\n")
	rig.WaitFor(t, rig.WaitTimeout, "a wrong keys_file is reported, with its name and line", func() bool { return strings.Contains(e.Log.String(), "keys.yaml:3:") })
	e.Post(rig.Chat.Path, rig.Chat.RequestBody("sim", rig.Prompt, ""), "Authorization: Bearer "+third).WantStatus(200)
}

// TestFault70_RevocationWaits checks that a revocation in the keys_file waits while the other file is
// invalid, that the log and the state say so, and that it takes effect once the file is valid.
func TestFault70_RevocationWaits(t *testing.T) {
	t.Parallel()
	e, key, _ := withKeysFile(t, "")
	status := func() int {
		return e.Post(rig.Chat.Path, rig.Chat.RequestBody("sim", rig.Prompt, `"tokens":1`), "Authorization: Bearer "+key).Status
	}
	e.rewrite("models:", "modells: []\nmodels:")
	e.Write("keys.yaml", "keys: []\n")
	e.askReload("")
	if got := status(); got != 200 {
		t.Errorf("a call while the file is invalid: status %d, want 200", got)
	}
	rig.WaitFor(t, rig.WaitTimeout, "the log says it", func() bool { return strings.Contains(e.Log.String(), "stays in force, keys included") })
	if text := e.Status().Verdict.Text; !strings.Contains(text, "stays in force, keys included") {
		t.Errorf("the state says %q", text)
	}
	e.rewrite("modells: []\nmodels:", "models:")
	rig.WaitFor(t, rig.WaitTimeout, "the key is refused", func() bool { return status() == 401 })
}

// TestFault70_LastKeyRevoked checks that even the last key can be revoked by a keys_file that
// states that there are no keys. A truncated file must be ignored.
func TestFault70_LastKeyRevoked(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Config: `
timeouts: { linger: 0s }
keys_file: keys.yaml
upstreams: [{ name: a, url: "{{up-0}}", engine: sim }]
models: [{ id: sim, deployments: [{ upstream: a }] }]
`, Files: map[string]string{"keys.yaml": "keys: [{ id: only, hash: \"{{hash}}\" }]\n"}})
	e.SendRequest(rig.Chat, "").WantStatus(200)
	for _, half := range []string{"", "keys:\n", "# keys\n", "keys: [{ id: only"} {
		e.Write("keys.yaml", half)
		if r, status := e.askReload(""); status != 422 || !strings.Contains(strings.Join(r.Problems, ""), "keys.yaml") {
			t.Errorf("%q: reload = %d %+v, want 422 and keys.yaml", half, status, r)
		}
		e.SendRequest(rig.Chat, "").WantStatus(200)
	}
	e.Write("keys.yaml", "keys: []\n")
	rig.WaitFor(t, rig.WaitTimeout, "the key is refused", func() bool { return e.SendRequest(rig.Chat, "").Status == 401 })
}
