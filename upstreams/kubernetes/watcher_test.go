package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/config/testkit/kubeapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is the maximum time that a test waits for a state. The state is usually reached within
// milliseconds.
const patience = 20 * time.Second

func newWatcher(api *kubeapi.Server, spec config.Kubernetes) *PodWatcher {
	if spec.Pool == "" {
		spec.Selector = "app=vllm"
	}
	spec.Server, spec.Account = api.URL, api.Account
	return New(&spec, 8000, Options{Log: zap.NewNop()})
}

// run runs the watcher in the background until the test ends.
func run(t *testing.T, w *PodWatcher) (changes *atomic.Int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	changes = new(atomic.Int64)
	done := make(chan struct{}, 2)
	go func() {
		w.Run(ctx, func() { changes.Add(1) })
		done <- struct{}{}
	}()
	go func() {
		if w.HasPool() {
			w.RunPool(ctx)
		}
		done <- struct{}{}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		<-done
	})
	return changes
}

func waitFor(t *testing.T, what string, f func() bool) {
	t.Helper()
	for began := time.Now(); !f(); time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("this never happened: %s", what)
		}
	}
}

func keys(w *PodWatcher) string {
	endpoints, listed := w.Endpoints()
	if !listed {
		return "not listed"
	}
	var out []string
	for _, e := range endpoints {
		out = append(out, e.Key)
	}
	return strings.Join(out, " ")
}

func waitKeys(t *testing.T, w *PodWatcher, want string) {
	t.Helper()
	waitFor(t, "endpoints "+want, func() bool { return keys(w) == want })
}

// waitForWatch waits until the number of watch requests that the server has received exceeds
// before.
func waitForWatch(t *testing.T, api *kubeapi.Server, before int) {
	t.Helper()
	waitFor(t, "a watch", func() bool { return len(api.RequestedPaths("watch=1")) > before })
}

func TestListInPages(t *testing.T) {
	api := kubeapi.Start(t)
	for i := range 250 {
		api.PutObject(kubeapi.PodsPath, kubeapi.NewPod(fmt.Sprintf("vllm-%03d", i), fmt.Sprintf("u%d", i), "10.0.0.1"))
	}
	api.PutObject(kubeapi.PodsPath, kubeapi.NewPod("other", "other", "10.0.0.1", "app=other"))
	w := newWatcher(api, config.Kubernetes{})
	if err := w.ListOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	endpoints, listed := w.Endpoints()
	if len(endpoints) != 250 || !listed || endpoints[7].Key != "u7:8000" || w.String() != "pods llm/app=vllm:8000" {
		t.Errorf("%d endpoints of %s, listed %v", len(endpoints), w, listed)
	}
	if pages := api.RequestedPaths("limit=100"); len(pages) != 3 || !strings.Contains(pages[2], "continue=") {
		t.Errorf("the pages were %q", pages)
	}
}

// TestEvents checks that pods are added, changed and removed. A pod that is being deleted counts as
// removed.
func TestEvents(t *testing.T) {
	api := kubeapi.Start(t)
	w := newWatcher(api, config.Kubernetes{})
	changes := run(t, w)
	waitKeys(t, w, "")
	waitForWatch(t, api, 0)
	if changes.Load() == 0 {
		t.Error("the first list is no change, although it has no pods")
	}
	a, b := kubeapi.NewPod("a", "ua", "10.0.0.1"), kubeapi.NewPod("b", "ub", "10.0.0.2")
	api.PutObject(kubeapi.PodsPath, a)
	api.PutObject(kubeapi.PodsPath, b)
	waitKeys(t, w, "ua:8000 ub:8000")
	so := changes.Load()
	api.PutObject(kubeapi.PodsPath, a)
	api.SendBookmark()
	api.PutObject(kubeapi.PodsPath, kubeapi.UnreadyPod(b))
	waitFor(t, "not ready", func() bool { e, _ := w.Endpoints(); return len(e) == 2 && !e[1].Ready })
	if n := changes.Load(); n != so+1 {
		t.Errorf("%d changes: a pod that is as before counts", n-so)
	}
	api.PutObject(kubeapi.PodsPath, kubeapi.DeletingPod(a))
	waitKeys(t, w, "ub:8000")
	api.DeleteObject(kubeapi.PodsPath, "a")
	api.PutObject(kubeapi.PodsPath, kubeapi.NewPod("b", "ub", "10.0.0.2", "app=other"))
	waitKeys(t, w, "")
	if n := len(api.RequestedPaths("watch=1")); n != 1 {
		t.Errorf("there were %d watches", n)
	}
	if st := w.Status(); st.Trouble != "" || st.Failed != 0 || st.Listed.IsZero() {
		t.Errorf("Status = %+v, want a list without trouble", st)
	}
}

// TestGap checks that changes that happened while no watch was open are found by the next list.
func TestGap(t *testing.T) {
	for name, gap := range map[string]struct {
		change func(*kubeapi.Server)
		want   string
	}{
		"a pod is gone": {func(s *kubeapi.Server) { s.DeleteObject(kubeapi.PodsPath, "a") }, "ub:8000"},
		"a pod is being deleted": {func(s *kubeapi.Server) {
			s.PutObject(kubeapi.PodsPath, kubeapi.DeletingPod(kubeapi.NewPod("a", "ua", "10.0.0.1")))
		}, "ub:8000"},
		"a pod has another label": {func(s *kubeapi.Server) {
			s.PutObject(kubeapi.PodsPath, kubeapi.NewPod("a", "ua", "10.0.0.1", "app=other"))
		}, "ub:8000"},
		"a pod was replaced under its name": {func(s *kubeapi.Server) {
			s.DeleteObject(kubeapi.PodsPath, "a")
			s.PutObject(kubeapi.PodsPath, kubeapi.NewPod("a", "uc", "10.0.0.1"))
		}, "uc:8000 ub:8000"},
		"a pod has come":                {func(s *kubeapi.Server) { s.PutObject(kubeapi.PodsPath, kubeapi.NewPod("c", "uc", "10.0.0.3")) }, "ua:8000 ub:8000 uc:8000"},
		"events are gone with it (410)": {func(s *kubeapi.Server) { s.DeleteObject(kubeapi.PodsPath, "b"); s.DropEvents() }, "ua:8000"},
		"nothing: every pod stays":      {func(*kubeapi.Server) {}, "ua:8000 ub:8000"},
		"another pod has its address": {func(s *kubeapi.Server) {
			s.DeleteObject(kubeapi.PodsPath, "a")
			s.PutObject(kubeapi.PodsPath, kubeapi.NewPod("z", "uz", "10.0.0.1"))
		}, "ub:8000 uz:8000"},
	} {
		t.Run(name, func(t *testing.T) {
			api := kubeapi.Start(t)
			api.PutObject(kubeapi.PodsPath, kubeapi.NewPod("a", "ua", "10.0.0.1"))
			api.PutObject(kubeapi.PodsPath, kubeapi.NewPod("b", "ub", "10.0.0.2"))
			w := newWatcher(api, config.Kubernetes{})
			run(t, w)
			waitKeys(t, w, "ua:8000 ub:8000")
			waitForWatch(t, api, 0)
			api.SetUnavailable(true)
			waitFor(t, "trouble", func() bool { return w.Status().Trouble != "" })
			if got := keys(w); got != "ua:8000 ub:8000" {
				t.Errorf("without an API server there is %s", got)
			}
			lists, watches := len(api.RequestedPaths("limit=")), len(api.RequestedPaths("watch=1"))
			gap.change(api)
			api.SetUnavailable(false)
			waitKeys(t, w, gap.want)
			waitForWatch(t, api, watches)
			if len(api.RequestedPaths("limit=")) == lists {
				t.Error("a watch was opened again without a list")
			}
			waitFor(t, "no trouble", func() bool { return w.Status().Trouble == "" })
			api.PutObject(kubeapi.PodsPath, kubeapi.NewPod("later", "ul", "10.0.0.9"))
			waitFor(t, "events go on", func() bool { return strings.Contains(keys(w), "ul:8000") })
		})
	}
}

// TestWatchExpires checks that an event about an expired version ends the watch, and that a new
// list follows.
func TestWatchExpires(t *testing.T) {
	api := kubeapi.Start(t)
	api.PutObject(kubeapi.PodsPath, kubeapi.NewPod("a", "ua", "10.0.0.1"))
	w := newWatcher(api, config.Kubernetes{})
	var late atomic.Bool
	api.SetHandler(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" && !late.Swap(true) { // between the first list and its watch
			api.DeleteObject(kubeapi.PodsPath, "a")
			api.DropEvents()
		}
		return false
	})
	run(t, w)
	waitKeys(t, w, "")
	waitForWatch(t, api, 1)
	if st := w.Status(); st.Failed != 1 {
		t.Errorf("Status = %+v, want 1 failure", st)
	}
}

// TestTokenRotates checks that a rotated token is read before the next list.
func TestTokenRotates(t *testing.T) {
	api := kubeapi.Start(t)
	w := newWatcher(api, config.Kubernetes{})
	run(t, w)
	waitForWatch(t, api, 0)
	api.RotateToken("second", false)
	api.SetUnavailable(true)
	api.SetUnavailable(false)
	waitFor(t, "the token is refused", func() bool { return w.Status().Trouble == statusError(401).Error() })
	api.RotateToken("second", true)
	api.PutObject(kubeapi.PodsPath, kubeapi.NewPod("a", "ua", "10.0.0.1"))
	waitKeys(t, w, "ua:8000")
}

// TestHostileServer checks that responses that no real API server would send do not change the
// endpoints and cause a retry.
func TestHostileServer(t *testing.T) {
	api := kubeapi.Start(t)
	a := kubeapi.NewPod("a", "ua", "10.0.0.1")
	api.PutObject(kubeapi.PodsPath, a)
	w := newWatcher(api, config.Kubernetes{})
	run(t, w)
	waitKeys(t, w, "ua:8000")
	waitForWatch(t, api, 0)
	text := func(body string) func(http.ResponseWriter, *http.Request) bool {
		return func(rw http.ResponseWriter, _ *http.Request) bool {
			io.WriteString(rw, body)
			return true
		}
	}
	onWatch := func(f func(http.ResponseWriter, *http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
		return func(rw http.ResponseWriter, r *http.Request) bool {
			return r.URL.Query().Get("watch") != "" && f(rw, r)
		}
	}
	large := `{"a":"` + strings.Repeat("x", maxPageBytes)
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"a page of another server": text("<html>welcome</html>"),
		"an empty object":          text("{}"),
		"no list at all":           text(""),
		"items that are no pods":   text(`{"metadata":{"resourceVersion":"1"},"items":[1,{},null]}`),
		"pages without end":        text(`{"metadata":{"resourceVersion":"1","continue":"x"},"items":[]}`),
		"a page that is too large": text(large + `"}`),
		"too many pods":            text(`{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"uid":"a"}}` + strings.Repeat(`,{"metadata":{"uid":"a"}}`, maxPods) + `]}`),
		"another status":           func(rw http.ResponseWriter, _ *http.Request) bool { rw.WriteHeader(500); return true },
		"a redirect": func(rw http.ResponseWriter, r *http.Request) bool {
			http.Redirect(rw, r, "http://127.0.0.1:1/", http.StatusFound)
			return true
		},
		"a watch of garbage":                            onWatch(text("}{")),
		"an event that is too large":                    onWatch(text(`{"type":"ADDED","object":` + large)),
		"an event of an unknown type":                   onWatch(text(`{"type":"RENAMED","object":{}}`)),
		"a deletion of no pod":                          onWatch(text(`{"type":"DELETED","object":{"metadata":{}}}`)),
		"an error event without code":                   onWatch(text(`{"type":"ERROR","object":{}}`)),
		"a watch that is closed at once, half an event": onWatch(text(`{"type":"DELETED","object":{"metadata":{"ui`)),
	} {
		t.Run(name, func(t *testing.T) {
			failed := w.Status().Failed
			api.SetHandler(answer)
			api.CloseClientConnections()
			seen := failed
			waitFor(t, "two failures", func() bool {
				now := w.Status().Failed
				if now > seen { // skip the pause before the retry
					seen = now
					w.podFeed.restart()
				}
				return now >= failed+2
			})
			if got := keys(w); got != "ua:8000" {
				t.Errorf("the endpoints are %s", got)
			}
		})
	}
	api.SetHandler(nil)
	api.PutObject(kubeapi.PodsPath, kubeapi.DeletingPod(a))
	waitKeys(t, w, "")
}

// TestFastEvents checks that the rate of handled events is limited. Once the limit for one second
// is reached, the next event is handled only after that second.
func TestFastEvents(t *testing.T) {
	api := kubeapi.Start(t)
	a, b := kubeapi.NewPod("a", "ua", "10.0.0.1"), kubeapi.NewPod("b", "ub", "10.0.0.2")
	api.PutObject(kubeapi.PodsPath, a)
	began := make(chan time.Time, 100)
	api.SetHandler(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" {
			return false
		}
		began <- time.Now()
		out := json.NewEncoder(rw)
		for range maxEventsPerSecond {
			out.Encode(kubeapi.Object{"type": "MODIFIED", "object": a})
		}
		out.Encode(kubeapi.Object{"type": "ADDED", "object": b})
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	})
	w := newWatcher(api, config.Kubernetes{})
	run(t, w)
	waitKeys(t, w, "ua:8000 ub:8000")
	if took := time.Since(<-began); took < time.Second {
		t.Errorf("%d events were taken in %v", maxEventsPerSecond+1, took)
	}
}

// TestSilentServer checks that Sync and Run return when their context is cancelled, even if the
// server does not respond.
func TestSilentServer(t *testing.T) {
	api := kubeapi.Start(t)
	release := make(chan struct{})
	api.SetHandler(func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return true
	})
	t.Cleanup(func() { close(release) })
	w := newWatcher(api, config.Kubernetes{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.ListOnce(ctx) }()
	waitFor(t, "a request", func() bool { return len(api.RequestedPaths("limit=")) > 0 })
	cancel()
	if err := <-ended; err == nil {
		t.Error("a list came from nowhere")
	}
	run(t, w) // if Run did not return, the test would not end
	waitFor(t, "a second request", func() bool { return len(api.RequestedPaths("limit=")) > 1 })
	if got := keys(w); got != "not listed" {
		t.Error(got)
	}
}

// TestPool checks that the endpoints change when the pool's selector or ports change.
func TestPool(t *testing.T) {
	api := kubeapi.Start(t)
	api.PutObject(kubeapi.PodsPath, kubeapi.NewPod("a", "ua", "10.0.0.1"))
	api.PutObject(kubeapi.PodsPath, kubeapi.NewPod("b", "ub", "10.0.0.2", "app=next"))
	api.PutObject(kubeapi.PoolsPath, kubeapi.NewPool("other", "app", "next", 1))
	w := newWatcher(api, config.Kubernetes{Pool: "llama"})
	if err := w.ListOnce(t.Context()); err == nil || !strings.Contains(err.Error(), "no InferencePool") {
		t.Errorf("a pool that is not there: %v", err)
	}
	run(t, w)
	waitFor(t, "a watch of pools, or another list", func() bool { return len(api.RequestedPaths("/inferencepools?")) > 1 })
	api.PutObject(kubeapi.PoolsPath, kubeapi.NewPool("llama", "app", "vllm", 8000))
	waitKeys(t, w, "ua:8000")
	waitFor(t, "a watch of the pool", func() bool {
		return slices.ContainsFunc(api.RequestedPaths("/inferencepools?"), func(s string) bool { return strings.Contains(s, "watch=1") })
	})
	api.PutObject(kubeapi.PoolsPath, kubeapi.NewPool("llama", "app", "vllm", 8000, 8001))
	waitKeys(t, w, "ua:8000 ua:8001")
	api.PutObject(kubeapi.PoolsPath, kubeapi.NewPool("llama", "app", "next", 9000))
	waitKeys(t, w, "ub:9000")
	api.PutObject(kubeapi.PoolsPath, kubeapi.NewPool("llama", "app", "next"))
	api.DeleteObject(kubeapi.PoolsPath, "llama")
	api.PutObject(kubeapi.PodsPath, kubeapi.DeletingPod(kubeapi.NewPod("b", "ub", "10.0.0.2", "app=next")))
	waitKeys(t, w, "")
	if w.String() != "InferencePool llm/llama" {
		t.Error(w)
	}
}

// TestPlainServer checks that a token is never sent over an unencrypted connection. Unencrypted
// connections are allowed, because kubectl proxy requires no token.
func TestPlainServer(t *testing.T) {
	var authorized atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		authorized.Store(authorized.Load() || r.Header.Get("Authorization") != "")
		io.WriteString(rw, `{"metadata":{"resourceVersion":"1"}}`)
	}))
	defer s.Close()
	account := t.TempDir()
	if err := os.WriteFile(filepath.Join(account, "token"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := New(&config.Kubernetes{Selector: "app=vllm", Server: s.URL, Account: account}, 80, Options{Log: zap.NewNop()})
	if err := w.ListOnce(t.Context()); err != nil || authorized.Load() {
		t.Errorf("Sync: %v, sent a credential: %v; want neither", err, authorized.Load())
	}
}

// TestNoCluster checks that the error suggests a remedy if the edge runs outside a cluster or the
// account is missing.
func TestNoCluster(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	w := New(&config.Kubernetes{Selector: "app=vllm", Account: t.TempDir()}, 80, Options{Log: zap.NewNop()})
	if err := w.ListOnce(t.Context()); err == nil || !strings.Contains(err.Error(), "kubernetes.server") {
		t.Error(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "::1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	if err := w.ListOnce(t.Context()); err == nil || !strings.Contains(err.Error(), "token") || w.String() != "pods default/app=vllm:80" {
		t.Error(err, w)
	}
}
