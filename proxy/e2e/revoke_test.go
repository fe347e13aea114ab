package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// resolver is a DNS resolver that never answers. Each lookup hangs until it is cancelled.
type resolver struct {
	mu      sync.Mutex
	asked   int
	running int
	peak    int
}

func (r *resolver) lookup(ctx context.Context, _ string) ([]string, error) {
	r.mu.Lock()
	r.asked++
	r.running++
	r.peak = max(r.peak, r.running)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.running--
		r.mu.Unlock()
	}()
	<-ctx.Done()
	return nil, ctx.Err()
}

// state returns the number of lookups that were started, the number that are running, and the
// maximum number that ran at the same time.
func (r *resolver) state() (asked, running, peak int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked, r.running, r.peak
}

// unresolvableUpstreams returns upstreams whose names must be resolved, and a model that they
// serve.
func unresolvableUpstreams(n int) (upstreams, models string) {
	var names []string
	for i := range n {
		upstreams += fmt.Sprintf("- { name: far-%d, url: \"http://far-%d.test:1\", engine: sim, resolve: 30s }\n", i, i)
		names = append(names, fmt.Sprintf("{ upstream: far-%d }", i))
	}
	return upstreams, "- { id: far, deployments: [" + strings.Join(names, ", ") + "] }\n"
}

// TestRevokedWhileNamesHang checks a key that a file removes while the file's names are still being
// resolved. The key must be refused immediately and, if on_revoke is abort, its streams must end.
// The same must apply to a key that the next file removes while these lookups are still hanging.
func TestRevokedWhileNamesHang(t *testing.T) {
	t.Parallel()
	r := new(resolver)
	var plain, line [2]string
	for i := range plain {
		key, hash, err := auth.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		plain[i], line[i] = "Authorization: Bearer "+key, fmt.Sprintf("- { id: second-%d, hash: %q }\n", i, hash)
	}
	const top = "on_revoke: abort"
	p := start(t, rig.Setup{Top: top, Keys: line[0] + line[1], Lookup: r.lookup, Forgets: true})
	var streams []*rig.Stream
	for _, key := range plain {
		s := p.OpenStream(chatPath, p.ChatRequest(endlessStream), key)
		s.Next()
		streams = append(streams, s)
	}
	upstreams, models := unresolvableUpstreams(4)
	next := rig.Setup{Top: top, Keys: line[1], Upstreams: upstreams, Models: models}
	revoked := func(i int) {
		t.Helper()
		asked := time.Now()
		p.RequestReload()
		rig.WaitFor(t, rig.WaitTimeout, "the key is refused", func() bool { return p.Post(chatPath, p.ChatRequest(""), plain[i]).Status == 401 })
		for ok := true; ok; {
			_, ok = streams[i].Next()
		}
		t.Logf("key %d was refused and its stream ended %v after the file", i, time.Since(asked))
		rig.WaitFor(t, rig.WaitTimeout, "the names are being looked up", func() bool { _, running, _ := r.state(); return running > 0 })
		if p.LastReload() != nil {
			t.Fatal("the names do not hang any more: this shows nothing")
		}
		p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	}
	p.SetNextConfig(next)
	revoked(0)
	next.Keys = ""
	p.SetNextConfig(next)
	revoked(1)
	rig.WaitFor(t, rig.WaitTimeout, "both reloads have ended", func() bool { return p.LastReload() != nil && p.Status().Version == 3 })
	if asked, _, peak := r.state(); peak < 4 {
		t.Errorf("%d of %d names were looked up side by side", peak, asked)
	}
	for _, key := range plain { // the older reload must not restore these keys
		p.Post(chatPath, p.ChatRequest(""), key).WantStatus(401)
	}
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	if l := p.LastReload(); !l.OK || l.KeysInForce {
		t.Errorf("the last reload says %+v", l)
	}
}

// TestKeysOfARefusedReload checks that, if a file is rejected, only its keys take effect. The
// status, the response, the log and the metrics must report this.
func TestKeysOfARefusedReload(t *testing.T) {
	t.Parallel()
	key, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	second := "Authorization: Bearer " + key
	base := rig.Setup{Keys: fmt.Sprintf("- { id: second, hash: %q }\n", hash)}
	base.Forgets = true
	p := start(t, base)
	p.Post(chatPath, p.ChatRequest(""), second).WantStatus(200)
	bad := rig.Setup{Config: `
timeouts: { linger: 0s, drain: 5s }
keys: [{ id: tester, hash: "{{hash}}", limits: { concurrency: 3 } }]
upstreams: [{ name: dead, url: "http://127.0.0.1:1", engine: sim }]
models: [{ id: sim, deployments: [{ upstream: dead }] }]
`}
	p.SetNextConfig(bad)

	dry := p.Fetch("POST", p.Admin+"/-/reload?dry_run=true").WantStatus(422)
	if !strings.Contains(dry.Body, `"keys_in_force": true`) {
		t.Errorf("a dry run does not say that keys would be in force: %s", dry.Body)
	}
	p.Post(chatPath, p.ChatRequest(""), second).WantStatus(200)

	answer := p.Fetch("POST", p.Admin+"/-/reload").WantStatus(422)
	if !strings.Contains(answer.Body, `"keys_in_force": true`) || !strings.Contains(answer.Body, "without a slot") {
		t.Errorf("the answer: %s", answer.Body)
	}
	if l := p.LastReload(); l.OK || !l.KeysInForce || l.Version != 1 || strings.Join(l.Changes, ",") == "" {
		t.Errorf("the last reload: %+v", l)
	}
	p.Post(chatPath, p.ChatRequest(""), second).WantStatus(401)
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	if s := p.Status(); s.Version != 1 || s.Verdict.Level != "degraded" || !strings.Contains(s.Verdict.Text, "its keys are in force, its models are not") || len(s.Upstreams) != 1 || s.Upstreams[0].Name != "up-0" {
		t.Errorf("the status: %+v", s)
	}
	if n := p.Metric("penstock_reloads_total", `result="keys_only"`); n != 1 {
		t.Errorf("%v reloads of keys alone are counted", n)
	}
	if n := p.Metric("penstock_reload_successful"); n != 0 {
		t.Errorf("the reload is a success: %v", n)
	}
	rig.WaitFor(t, rig.WaitTimeout, "the log says it", func() bool {
		return strings.Contains(p.Log.String(), "keys are in force, models are not")
	})

	// The same file must be rejected again, and its keys must stay valid. If the reload is forced,
	// the other settings must also be applied.
	if l := p.ReloadAndWait(); l.OK || !l.KeysInForce || l.Unchanged {
		t.Errorf("the same file again: %+v", l)
	}
	p.Fetch("POST", p.Admin+"/-/reload?force=true").WantStatus(200)
	if l := p.LastReload(); !l.OK || l.Version != 2 {
		t.Errorf("with force: %+v", l)
	}
	p.Reload(base)
	p.Post(chatPath, p.ChatRequest(""), second).WantStatus(200)
}

// TestDryRunLeavesKeys checks that a dry run reports key changes without applying them.
func TestDryRunLeavesKeys(t *testing.T) {
	t.Parallel()
	key, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	second := "Authorization: Bearer " + key
	p := start(t, rig.Setup{Keys: fmt.Sprintf("- { id: second, hash: %q }\n", hash)})
	p.SetNextConfig(rig.Setup{})
	if r := p.Fetch("POST", p.Admin+"/-/reload?dry_run=true").WantStatus(200); !strings.Contains(r.Body, "keys[second]") {
		t.Errorf("a dry run says: %s", r.Body)
	}
	p.Post(chatPath, p.ChatRequest(""), second).WantStatus(200)
	if l := p.LastReload(); l != nil {
		t.Errorf("a dry run is the last reload: %+v", l)
	}
}

// TestStartWhileNamesHang checks that a starting edge waits for all unresolvable names in parallel.
func TestStartWhileNamesHang(t *testing.T) {
	t.Parallel()
	r := new(resolver)
	upstreams, models := unresolvableUpstreams(4)
	begun := time.Now()
	p := start(t, rig.Setup{Upstreams: upstreams, Models: models, Lookup: r.lookup, Cold: true})
	t.Logf("serving after %v", time.Since(begun))
	if asked, _, peak := r.state(); peak < 4 {
		t.Errorf("%d of %d names were looked up side by side", peak, asked)
	}
	rig.WaitFor(t, rig.WaitTimeout, "the model is served", func() bool { return p.Post(chatPath, p.ChatRequest("")).Status == 200 })
}

// TestRefusedReloadGrantsNothing checks a rejected file that changes a model and grants a key
// access to it. The key must not get access to the running model of the same name.
func TestRefusedReloadGrantsNothing(t *testing.T) {
	t.Parallel()
	file := func(guest, small, chat, more string) rig.Setup {
		return rig.Setup{Engines: []sim.Options{{}, {}}, Config: `
timeouts: { linger: 0s, drain: 5s }
keys: [{ id: tester, hash: "{{hash}}", models: [` + guest + `] }]
upstreams: [{ name: public, url: "{{up-0}}", engine: sim }, { name: internal, url: "{{up-1}}", engine: sim }` + more + `]
models:
  - { id: small, deployments: [{ upstream: ` + small + `, served: sim }] }
  - { id: chat, deployments: [{ upstream: ` + chat + `, served: sim }] }
  - { id: tools, deployments: [{ upstream: public, served: sim }] }
`}
	}
	p := start(t, file("small", "public", "internal", ""))
	p.Post(chatPath, rig.ChatBody("small", "")).WantStatus(200)
	p.Post(chatPath, rig.ChatBody("chat", "")).WantStatus(403)
	p.SetNextConfig(file("chat, tools", "dead", "public", `, { name: dead, url: "http://127.0.0.1:1", engine: sim }`))
	if l := p.ReloadAndWait(); l.OK || !l.KeysInForce {
		t.Fatalf("reload = %+v, want a refusal with the keys in force", l)
	}
	p.Post(chatPath, rig.ChatBody("small", "")).WantStatus(403) // narrowed access takes effect immediately
	p.Post(chatPath, rig.ChatBody("chat", "")).WantStatus(403)  // widened access to a different model does not
	// Widened access to the same model takes effect immediately.
	p.Post(chatPath, rig.ChatBody("tools", "")).WantStatus(200)
	p.Fetch("POST", p.Admin+"/-/reload?force=true").WantStatus(200)
	p.Post(chatPath, rig.ChatBody("chat", "")).WantStatus(200)
}
