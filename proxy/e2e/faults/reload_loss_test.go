package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/config/testkit/raced"
	"penstock/proxy/e2e/rig"
)

// These tests check that reloads never lose requests, regardless of how the file is replaced. If
// PENSTOCK_FULL=1 is set, they run fifty reloads at intervals of a second, and a minute of reloads
// without a pause.

// isFullLength reports whether to run the long form of a test, and logs the form.
func isFullLength(t testing.TB) bool {
	on := os.Getenv("PENSTOCK_FULL") != ""
	t.Logf("full length: %v (PENSTOCK_FULL=1 plays it)", on)
	return on
}

// rewritingEdge is an edge whose configuration is rewritten repeatedly. The variants differ in
// upstreams, weights, limits, aliases and policies.
type rewritingEdge struct {
	*edge
	n int
}

func startRewriting(t testing.TB, more string, under ...string) *rewritingEdge {
	t.Helper()
	r := &rewritingEdge{}
	r.edge = start(t, rig.Setup{Under: under, Forgets: true, Engines: []sim.Options{{Slots: 512}, {Slots: 512}, {Slots: 512}}, Config: rewritingConfig(0) + more})
	return r
}

// rewritingConfig returns variant n. Two of the three engines serve at any time, and each reload
// replaces one of them.
func rewritingConfig(n int) string {
	var ups, deployments []string
	for i := range 3 {
		if i == n%3 {
			continue
		}
		ups = append(ups, fmt.Sprintf("  - { name: up-%d, url: %q, engine: sim, weight: %d, concurrency: %d, probe: { timeout: 15s } }", i, "{{up-"+strconv.Itoa(i)+"}}", 1+n%4, 400+n%10))
		deployments = append(deployments, fmt.Sprintf("{ upstream: up-%d }", i))
	}
	policy := []string{"least_loaded", "round_robin", "two_choices", "prefix_affinity"}[n%4]
	return fmt.Sprintf(`
timeouts: { linger: 0s, drain: 20s, idle: %ds }
keys:
  - { id: tester, hash: "{{hash}}", limits: { requests_per_minute: %d } }
upstreams:
%s
models:
  - { id: sim, aliases: [variant-%d], policy: %s, deployments: [%s] }
`, 20+n%5, 1_000_000+n, strings.Join(ups, "\n"), n, policy, strings.Join(deployments, ", "))
}

func (r *rewritingEdge) writeNextConfig() string {
	r.n++
	head, _, _ := strings.Cut(r.Text, "\ntimeouts:")
	text := rewritingConfig(r.n)
	for i, e := range r.Engines {
		text = strings.ReplaceAll(text, "{{up-"+strconv.Itoa(i)+"}}", e.URL())
	}
	_, hash, _ := strings.Cut(r.Text, `hash: "`)
	hash, _, _ = strings.Cut(hash, `"`)
	return head + strings.ReplaceAll(text, "{{hash}}", hash)
}

func (r *rewritingEdge) waitApplied() {
	r.T.Helper()
	name := fmt.Sprintf("variant-%d", r.n)
	rig.WaitFor(r.T, 2*rig.WaitTimeout, "the reload "+name, func() bool {
		res := r.Post(rig.Chat.Path, rig.Chat.RequestBody(name, rig.Prompt, `"tokens":1`))
		return res.Status == 200
	})
}

// replacements are different ways to replace a configuration file.
var replacements = map[string]func(t testing.TB, r *rewritingEdge, text string){
	// Like vim: the old file becomes the backup.
	"editor save": func(t testing.TB, r *rewritingEdge, text string) {
		noError(t, os.Rename(r.Path, r.Path+"~"))
		noError(t, os.WriteFile(r.Path, []byte(text), 0o600))
		noError(t, os.Remove(r.Path+"~"))
	},
	"rename over": func(_ testing.TB, r *rewritingEdge, text string) { r.Write(filepath.Base(r.Path), text) },
	"ConfigMap": func(t testing.TB, r *rewritingEdge, text string) { // replaces the file like the kubelet
		dir := filepath.Join(r.Dir, fmt.Sprintf("..v%d", r.n))
		noError(t, os.Mkdir(dir, 0o700))
		noError(t, os.WriteFile(filepath.Join(dir, filepath.Base(r.Path)), []byte(text), 0o600))
		noError(t, os.Symlink(filepath.Base(dir), filepath.Join(r.Dir, "..data_tmp")))
		noError(t, os.Rename(filepath.Join(r.Dir, "..data_tmp"), filepath.Join(r.Dir, "..data")))
		// The first time, the file becomes a link.
		if info, err := os.Lstat(r.Path); err == nil && info.Mode()&os.ModeSymlink == 0 {
			noError(t, os.Symlink(filepath.Join("..data", filepath.Base(r.Path)), r.Path+".link"))
			noError(t, os.Rename(r.Path+".link", r.Path))
		}
		noError(t, os.RemoveAll(filepath.Join(r.Dir, fmt.Sprintf("..v%d", r.n-1))))
	},
	"in place": func(t testing.TB, r *rewritingEdge, text string) {
		noError(t, os.WriteFile(r.Path, []byte(text), 0o600))
	}, // writes to the same file, as with a bind mount
	"SIGHUP": func(_ testing.TB, r *rewritingEdge, text string) {
		r.Write(filepath.Base(r.Path), text)
		r.Signal(syscall.SIGHUP)
	},
	"POST": func(t testing.TB, r *rewritingEdge, text string) {
		r.Write(filepath.Base(r.Path), text)
		if status, body := r.Reload(); status != 200 {
			t.Errorf("reload = %d %s, want 200", status, body)
		}
	},
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestFault68_Replaced replaces the file in every way, repeatedly and under traffic, and checks
// that no request is lost.
func TestFault68_Replaced(t *testing.T) {
	t.Parallel()
	for name, replace := range replacements {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			times, pause := 4, 0*time.Second
			if isFullLength(t) {
				times, pause = 50, time.Second
			}
			r := startRewriting(t, "")
			tr := startTraffic(r.edge, defaultMix)
			for range times {
				begun := time.Now()
				replace(t, r, r.writeNextConfig())
				r.waitApplied()
				time.Sleep(pause - time.Since(begun))
			}
			tr.wantNothingLost()
			rig.WaitFor(t, rig.WaitTimeout, "only files that were truncated but not yet written are refused", func() bool {
				empty := 0
				if name == "in place" {
					empty = strings.Count(r.Log.String(), "the file is empty")
				}
				return int(r.Metric("penstock_reloads_total", `result="bad"`)) == empty
			})
			if ok := r.Metric("penstock_reloads_total", `result="ok"`); int(ok) != times {
				t.Errorf("%v reloads took place, %d were asked for\n%s", ok, times, r.Log)
			}
		})
	}
}

// TestFault73_ReloadStorm checks that reloads without a pause lose no request, and that the newest
// file is in use at the end.
func TestFault73_ReloadStorm(t *testing.T) {
	t.Parallel()
	length := 3 * time.Second
	if isFullLength(t) {
		length = time.Minute
	}
	r := startRewriting(t, "")
	tr := startTraffic(r.edge, defaultMix)
	done := make(chan struct{})
	var signals sync.WaitGroup
	signals.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				r.Signal(syscall.SIGHUP)
				time.Sleep(time.Millisecond)
			}
		}
	})
	reloads := 0
	const enough = 10 // a busy machine may need more time than planned
	for begun := time.Now(); time.Since(begun) < length || reloads < enough && time.Since(begun) < length+rig.WaitTimeout; reloads++ {
		replacements["POST"](t, r, r.writeNextConfig())
	}
	close(done)
	signals.Wait()
	r.waitApplied()
	tr.wantNothingLost()
	t.Logf("%d reloads in %v", reloads, length)
	if reloads < enough {
		t.Errorf("only %d reloads took place", reloads)
	}
}

// TestReloadsLeakNothing checks that hundreds of reloads do not leak goroutines, descriptors or
// memory.
func TestReloadsLeakNothing(t *testing.T) {
	t.Parallel()
	times, looks := 500, 40
	if raced.Enabled {
		times, looks = 100, 20
	}
	r := startRewriting(t, "", "env", "GOGC=100") // otherwise, up to 64 MiB of garbage may remain
	post := func(n int) {
		for range n {
			replacements["POST"](t, r, r.writeNextConfig())
		}
		r.waitApplied()
	}
	held := func() (goroutines, heap, descriptors float64) {
		heap = 1 << 40
		rig.WaitFor(t, rig.WaitTimeout, "upstreams that were removed are gone", func() bool { return len(r.Status().Upstreams) == 2 })
		for range looks { // use the lowest heap size, because uncollected garbage is not a leak
			m := r.Metrics()
			goroutines, descriptors = m["go_goroutines"], float64(r.DescriptorCount())
			heap = min(heap, m["go_memstats_heap_inuse_bytes"])
			for range 50 {
				r.SendRequest(rig.Chat, `"tokens":1`).WantStatus(200)
			}
		}
		return goroutines, heap, descriptors
	}
	post(50)
	g0, h0, d0 := held()
	post(times)
	g1, h1, d1 := held()
	t.Logf("after 50 and after %d more reloads: %v and %v goroutines, %.1f and %.1f MB, %v and %v descriptors", times, g0, g1, h0/1e6, h1/1e6, d0, d1)
	if g1 > g0+10 {
		t.Errorf("%v goroutines became %v", g0, g1)
	}
	if d1 > d0+10 {
		t.Errorf("%v descriptors became %v", d0, d1)
	}
	if h1 > h0+3e6 {
		t.Errorf("the heap grew from %.1f to %.1f MB", h0/1e6, h1/1e6)
	}
}

// TestReloadLarge checks that requests are hardly slower during a reload of 1,000 keys and 200
// upstreams than before it.
func TestReloadLarge(t *testing.T) {
	engine := rig.StartEngine(t, sim.Options{Listen: "0.0.0.0:0", Slots: 512})
	port := engine.Addr()[strings.LastIndexByte(engine.Addr(), ':')+1:]
	text := func(variant int) string {
		var b strings.Builder
		fmt.Fprintf(&b, "timeouts: { linger: 0s, drain: 20s, idle: %ds }\nkeys:\n  - { id: tester, hash: \"{{hash}}\" }\n", 20+variant)
		for i := range 1000 {
			fmt.Fprintf(&b, "  - { id: key-%d, hash: \"sha256:%064x\", limits: { requests_per_minute: %d } }\n", i, i+1, 600+variant)
		}
		b.WriteString("upstreams:\n")
		for i := range 200 {
			fmt.Fprintf(&b, "  - { name: up-%d, url: \"http://127.0.%d.%d:%s\", engine: sim, weight: %d }\n", i, i/100, i%100+1, port, 1+variant%3)
		}
		b.WriteString("models:\n")
		for i := range 20 {
			id := "sim"
			if i > 0 {
				id = fmt.Sprintf("sim-%d", i)
			}
			fmt.Fprintf(&b, "  - id: %s\n    deployments:\n", id)
			for j := range 10 {
				fmt.Fprintf(&b, "      - { upstream: up-%d, served: sim }\n", i*10+j)
			}
		}
		return b.String()
	}
	e := start(t, rig.Setup{Engines: []sim.Options{{}}, Config: text(0)})
	_, hash, _ := strings.Cut(e.Text, `hash: "`)
	hash, _, _ = strings.Cut(hash, `"`)
	head, _, _ := strings.Cut(e.Text, "timeouts:")
	tr := startTraffic(e, mix{kept: 4, fresh: 2, streams: 2})
	begun := rig.StartWatch()
	tr.latencies()
	time.Sleep(2 * time.Second)
	calm50, calm99 := tr.latencies()
	var took []float64
	for i := range 15 {
		e.Write("penstock.yaml", head+strings.ReplaceAll(text(i+1), "{{hash}}", hash))
		var r struct {
			OK      bool
			Seconds float64
		}
		status, body := e.Reload()
		if err := json.Unmarshal([]byte(body), &r); err != nil || status != 200 || !r.OK {
			t.Fatalf("reload = %d %.500s, want 200 and ok", status, body)
		}
		took = append(took, r.Seconds*1000)
		time.Sleep(100 * time.Millisecond)
	}
	busy50, busy99 := tr.latencies()
	t.Logf("reloads took %.0f ms; requests without them p50 %v p99 %v, with them p50 %v p99 %v", took, calm50, calm99, busy50, busy99)
	tr.wantNothingLost()
	if step := begun.StepDelay(); busy50 > 3*calm50+5*time.Millisecond+step || busy99 > 5*calm99+100*time.Millisecond+10*step {
		t.Error("reloads cost other requests too much")
	}
	slices.Sort(took)
	if half := took[len(took)/2]; half > 1000+float64(begun.MachineDelay().Milliseconds())/float64(len(took)) && !raced.Enabled {
		t.Errorf("half of the reloads took more than %.0f ms", half)
	}
}
