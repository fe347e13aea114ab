package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"penstock/proxy/e2e/rig"
)

const storeSecret = "0123456789abcdef0123456789abcdef"

// storeKeys returns a fleet section that enables keys in a store.
func storeKeys(address, more string) string {
	return "on_revoke: abort\nfleet: { edges: 2, store: { url: \"redis://" + address + "\", timeout: 1s }, keys: { secrets: [" + storeSecret + "]" + more + " } }"
}

// keyCommand runs `penstock key` for the store and returns the first line of the output.
func keyCommand(t *testing.T, address string, args ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "edge.yaml")
	text := storeKeys(address, "") + "\nupstreams: [{ name: u, url: \"http://127.0.0.1:1\" }]\nmodels: [{ id: m, deployments: [{ upstream: u }] }]\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code := rig.RunProgram(t, "", append(append([]string{"key"}, args...), "--store", "--config", name)...)
	if code != 0 {
		t.Fatalf("key %v = code %d, want 0: %s", args, code, errs)
	}
	line, _, _ := strings.Cut(out, "\n")
	return line
}

// TestKeysInTheStore checks that a key created in the store works at every edge, with its limits. A
// revoked key must be refused at every edge, and its streams must end. A reload of the file must
// not restore the key.
func TestKeysInTheStore(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	setup := rig.Setup{Top: storeKeys(store.Addr(), "")}
	a := start(t, setup)
	setup.Fakes = []string{a.Engines[0].URL()}
	b := start(t, setup)
	key := "Authorization: Bearer " + keyCommand(t, store.Addr(), "new", "--name", "guest", "--limits", "concurrency=2", "--models", "sim")
	for _, edge := range []*penstock{a, b} {
		rig.WaitFor(t, rig.WaitTimeout, "the key is known", func() bool { return edge.Post(chatPath, edge.ChatRequest(""), key).Status == 200 })
		if n := edge.Metric("penstock_fleet_keys"); n != 1 {
			t.Errorf("%v keys are shown", n)
		}
	}
	if line := keyCommand(t, store.Addr(), "list"); line != "guest  in force  models sim" {
		t.Errorf("the list: %q", line)
	}
	first, second := a.OpenStream(chatPath, a.ChatRequest(endlessStream), key), b.OpenStream(chatPath, b.ChatRequest(endlessStream), key)
	first.Next()
	second.Next()
	if r := a.Post(chatPath, a.ChatRequest(""), key).WantStatus(429); !strings.Contains(r.Body, "2 concurrent requests") {
		t.Errorf("a third call of the key: %s", r.Body)
	}
	keyCommand(t, store.Addr(), "revoke", "guest")
	for _, stream := range []*rig.Stream{first, second} {
		for ok := true; ok; {
			_, ok = stream.Next()
		}
	}
	for _, edge := range []*penstock{a, b} {
		edge.Post(chatPath, edge.ChatRequest(""), key).WantStatus(401)
		edge.Post(chatPath, edge.ChatRequest("")).WantStatus(200) // the key in the file still works
	}
	setup.Fakes = nil
	setup.Top += "\nstrict: true"
	a.Reload(setup)
	a.Post(chatPath, a.ChatRequest(""), key).WantStatus(401)
	again := "Authorization: Bearer " + keyCommand(t, store.Addr(), "new", "--name", "guest")
	rig.WaitFor(t, rig.WaitTimeout, "the new key of the id is known", func() bool { return a.Post(chatPath, a.ChatRequest(""), again).Status == 200 })
	a.Post(chatPath, a.ChatRequest(""), key).WantStatus(401)
	a.Reload(rig.Setup{Top: strings.TrimSuffix(setup.Top, "\nstrict: true")})
	a.Post(chatPath, a.ChatRequest(""), again).WantStatus(200) // keys in the store survive a reload
	store.Close()
	rig.WaitFor(t, rig.WaitTimeout, "the store is found lost", func() bool { return a.Metric("penstock_fleet_store_up") == 0 })
	a.Post(chatPath, a.ChatRequest(""), again).WantStatus(200) // the last known keys stay valid
	if text := a.Log.String() + b.Log.String(); strings.Contains(text, storeSecret) || strings.Contains(text, strings.TrimPrefix(key, "Authorization: Bearer ")) {
		t.Error("the log has the secret or a key")
	}
}

// TestStartWithoutTheStore checks that an edge that needs the keys in the store is not ready until
// it has read them. Until then, calls with these keys must receive a 503 and a Retry-After. An edge
// that has a copy of the keys must be able to start without the store.
func TestStartWithoutTheStore(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	address, copyFile := store.Addr(), filepath.Join(t.TempDir(), "keys.copy")
	key := "Authorization: Bearer " + keyCommand(t, address, "new", "--name", "guest")
	cached := rig.Setup{Top: storeKeys(address, fmt.Sprintf(", store: cached, cache: %q", copyFile))}
	first := start(t, cached)
	rig.WaitFor(t, rig.WaitTimeout, "the key is known", func() bool { return first.Post(chatPath, first.ChatRequest(""), key).Status == 200 })
	rig.WaitFor(t, rig.WaitTimeout, "the copy is written", func() bool { _, err := os.Stat(copyFile); return err == nil })
	store.Close()
	second := start(t, cached)
	second.Post(chatPath, second.ChatRequest(""), key).WantStatus(200)
	waits := start(t, rig.Setup{Top: storeKeys(address, "")})
	if r := waits.Fetch("GET", waits.Admin+"/-/ready").WantStatus(503); !strings.Contains(r.Body, `"starting"`) || !strings.Contains(r.Body, "have not been read") {
		t.Errorf("answer = %s, want starting and unread keys", r.Body)
	}
	for _, w := range rig.TextRequestTypes {
		waits.Post(w.Path, w.RequestBody("sim", "hello", ""), key).WantRefused(w, rig.Refusal{Status: 503, Kind: "api_error", Code: "keys_unavailable", After: "1"})
	}
	waits.Get("/v1/models", key).WantError(503, "api_error", "keys_unavailable")
	waits.Post(chatPath, waits.ChatRequest("")).WantStatus(200) // the key in the file works
	if err := store.Restart(); err != nil {
		t.Fatal(err)
	}
	rig.WaitFor(t, rig.WaitTimeout, "the edge is ready", func() bool { return waits.Fetch("GET", waits.Admin+"/-/ready").Status == 200 })
	waits.Post(chatPath, waits.ChatRequest(""), key).WantStatus(200)
}
