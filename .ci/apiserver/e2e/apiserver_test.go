// Package e2e compares the fake API server in the tests of package kubernetes with a real one. The
// real server is apiextensions-apiserver, which serves custom resources with the storage, the watch
// cache and the framing of kube-apiserver. It needs etcd at 127.0.0.1:2379 or at
// KUBE_INTEGRATION_ETCD_URL. Pods cannot be custom resources, so a resource in a different group
// replaces them. InferencePools are also custom resources in real clusters.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apiextensions-apiserver/test/integration/fixtures"
	"k8s.io/client-go/rest"

	"penstock/config"
	"penstock/config/testkit/kubeapi"
	"penstock/upstreams/kubernetes"
)

// standIn is the path of the collection that replaces pods.
const standIn = "/apis/stand-in.example/v1/namespaces/llm/pods"

const patience = time.Minute

type server struct {
	t        *testing.T
	url      string
	client   *http.Client
	token    string
	put      func(collection string, o kubeapi.Object)
	deleting func(pod kubeapi.Object) // starts the deletion of a pod, which remains while it has a finalizer
	gone     func(name string)        // completes the deletion
	bookmark func()
	compact  func() // discards the history so far
	cut      func(away bool)
}

func fake(t *testing.T) *server {
	s := kubeapi.Start(t)
	return &server{
		t: t, url: s.URL, client: s.Client(), token: "first", put: s.Put,
		deleting: func(pod kubeapi.Object) { s.Put(kubeapi.Pods, kubeapi.Deleting(pod)) },
		gone:     func(name string) { s.Delete(kubeapi.Pods, name) },
		bookmark: s.Bookmark, compact: s.Compact, cut: s.Away,
	}
}

func definition(group, plural, singular, kind string) kubeapi.Object {
	free := kubeapi.Object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	return kubeapi.Object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": kubeapi.Object{
			"name":        plural + "." + group,
			"annotations": kubeapi.Object{"api-approved.kubernetes.io": "unapproved, for a test"},
		},
		"spec": kubeapi.Object{
			"group": group, "scope": "Namespaced",
			"names":    kubeapi.Object{"plural": plural, "singular": singular, "kind": kind, "listKind": kind + "List"},
			"versions": []kubeapi.Object{{"name": "v1", "served": true, "storage": true, "schema": kubeapi.Object{"openAPIV3Schema": free}}},
		},
	}
}

// real starts a server for custom resources. A proxy in front of it serves pods at their usual
// paths and can cut connections.
func real(t *testing.T) *server {
	end, cfg, _, err := fixtures.StartDefaultServer(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	var away atomic.Bool
	pass := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if rest, ok := strings.CutPrefix(r.Out.URL.Path, kubeapi.Pods); ok {
				r.Out.URL.Path = standIn + rest
			}
		},
		Transport: transport, FlushInterval: -1,
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			panic(http.ErrAbortHandler)
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { front.CloseClientConnections(); front.Close() })
	etcd, err := clientv3.New(clientv3.Config{Endpoints: fixtures.IntegrationEtcdServers(), DialTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { etcd.Close() })
	s := &server{t: t, url: front.URL, client: front.Client(), bookmark: func() {}}
	// Bypasses the proxy, so cut connections do not affect it.
	back := &server{t: t, url: cfg.Host, client: &http.Client{Transport: transport}}
	at := func(collection string) string { return strings.Replace(collection, kubeapi.Pods, standIn, 1) }
	s.put = func(collection string, o kubeapi.Object) { back.write(at(collection), o) }
	s.deleting = func(pod kubeapi.Object) {
		back.do("DELETE", at(kubeapi.Pods)+"/"+pod["metadata"].(kubeapi.Object)["name"].(string), nil)
	}
	s.gone = func(name string) {
		path := at(kubeapi.Pods) + "/" + name
		var held kubeapi.Object
		_, body := back.do("GET", path, nil)
		json.Unmarshal(body, &held)
		if metadata := held["metadata"].(kubeapi.Object); metadata["finalizers"] != nil {
			delete(metadata, "finalizers")
			back.do("PUT", path, held)
			return
		}
		back.do("DELETE", path, nil)
	}
	s.compact = func() {
		at, err := etcd.Get(t.Context(), "any")
		if err == nil {
			_, err = etcd.Compact(t.Context(), at.Header.Revision, clientv3.WithCompactPhysical())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.cut = func(gone bool) {
		if away.Store(gone); gone {
			front.CloseClientConnections()
		}
	}
	for _, d := range []kubeapi.Object{
		definition("stand-in.example", "pods", "pod", "Pod"),
		definition("inference.networking.k8s.io", "inferencepools", "inferencepool", "InferencePool"),
	} {
		if status, body := back.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", d); status != 201 {
			t.Fatalf("%d %s", status, body)
		}
	}
	for _, path := range []string{standIn, kubeapi.Pools} {
		waitFor(t, path, func() bool { status, _ := back.do("GET", path, nil); return status == 200 })
	}
	return s
}

func waitFor(t *testing.T, what string, f func() bool) {
	t.Helper()
	for began := time.Now(); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("never: %s", what)
		}
	}
}

func (s *server) request(ctx context.Context, method, path string, object kubeapi.Object) *http.Response {
	s.t.Helper()
	body, err := json.Marshal(object)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return res
}

func (s *server) do(method, path string, object kubeapi.Object) (status int, body []byte) {
	s.t.Helper()
	res := s.request(s.t.Context(), method, path, object)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, body
}

// write creates or replaces an object at the real server, which assigns its UID.
func (s *server) write(collection string, o kubeapi.Object) {
	s.t.Helper()
	text, _ := json.Marshal(o)
	var own kubeapi.Object
	json.Unmarshal(text, &own)
	metadata := own["metadata"].(kubeapi.Object)
	delete(metadata, "uid")
	if collection == standIn {
		own["apiVersion"] = "stand-in.example/v1"
	}
	path := collection + "/" + metadata["name"].(string)
	status, body := s.do("GET", path, nil)
	method := "POST"
	if status == 200 {
		var before kubeapi.Object
		json.Unmarshal(body, &before)
		metadata["resourceVersion"], method = before["metadata"].(kubeapi.Object)["resourceVersion"], "PUT"
	} else {
		path = collection
	}
	if status, body = s.do(method, path, own); status >= 300 {
		s.t.Fatalf("%s %s: %d %s", method, path, status, body)
	}
}

// page contains those parts of a list, an event's object or a status that are compared.
type page struct {
	Kind     string
	Reason   string
	Code     int
	Metadata struct {
		Name, UID, ResourceVersion, Continue, DeletionTimestamp string
		RemainingItemCount                                      int
	}
	Items []page
}

func (p *page) String() string {
	out := p.Metadata.Name
	if p.Metadata.DeletionTimestamp != "" {
		out += " (deleting)"
	}
	if p.Code != 0 {
		out = fmt.Sprintf("%s %d", p.Reason, p.Code)
	}
	if p.Code == 0 && (p.Metadata.ResourceVersion == "" || p.Metadata.UID == "" && p.Metadata.Name != "") {
		out += " without a UID or a version"
	}
	return out
}

// transcript records a server's responses without the parts that differ from run to run.
type transcript struct {
	*server
	lines []string
}

func (r *transcript) note(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// list records a list. It returns the list's version and its continuation token.
func (r *transcript) list(what, path, query string) (version, more string) {
	r.t.Helper()
	status, body := r.do("GET", path+"?"+query, nil)
	var p page
	if status == 200 || status == 410 {
		if err := json.Unmarshal(body, &p); err != nil {
			r.t.Fatal(err)
		}
	}
	var names []string
	for i := range p.Items {
		names = append(names, p.Items[i].String())
	}
	r.note("%s: %d %s, %q, more: %v (%d), a version: %v", what, status, p.Reason, names, p.Metadata.Continue != "",
		p.Metadata.RemainingItemCount, p.Metadata.ResourceVersion != "")
	return p.Metadata.ResourceVersion, p.Metadata.Continue
}

// watch calls change and records n events that follow a version. If n is 0, it records until the
// watch ends.
func (r *transcript) watch(what, path, query, version string, n int, change func()) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	res := r.request(ctx, "GET", path+"?watch=1&allowWatchBookmarks=true&resourceVersion="+version+"&"+query, nil)
	defer res.Body.Close()
	r.note("%s: %d", what, res.StatusCode)
	change()
	events := json.NewDecoder(res.Body)
	for i := 0; n == 0 || i < n; i++ {
		var e struct {
			Type   string
			Object page
		}
		if err := events.Decode(&e); err != nil {
			r.note("  end: %v", err)
			return
		}
		line := fmt.Sprintf("  %s %s", e.Type, &e.Object)
		if e.Type == "BOOKMARK" && r.lines[len(r.lines)-1] == line {
			continue // the number of bookmarks depends on the server's clock
		}
		r.note("%s", line)
	}
}

// record sends every kind of request that package kubernetes may send.
func record(s *server) []string {
	r := &transcript{server: s}
	pod := func(name string, marks ...string) kubeapi.Object {
		return kubeapi.Pod(name, "uid-"+name, "10.0.0.1", marks...)
	}
	b := pod("b")
	// Otherwise the pod would disappear immediately.
	b["metadata"].(kubeapi.Object)["finalizers"] = []string{"example.com/hold"}
	for _, p := range []kubeapi.Object{pod("a"), b, pod("c")} {
		s.put(kubeapi.Pods, p)
	}
	s.put(kubeapi.Pods, pod("x", "app=other"))
	s.put(kubeapi.Pools, kubeapi.Pool("llama", "app", "vllm", 8000))
	s.put(kubeapi.Pools, kubeapi.Pool("other", "app", "vllm", 8000))
	const app = "labelSelector=app%3Dvllm"
	version, more := r.list("the first page", kubeapi.Pods, app+"&limit=2")
	next, _ := r.list("the second page", kubeapi.Pods, app+"&limit=2&continue="+url.QueryEscape(more))
	r.note("both are of one version: %v", version == next)
	r.list("one pool", kubeapi.Pools, "fieldSelector=metadata.name%3Dllama&limit=100")
	r.list("of no such collection", strings.Replace(kubeapi.Pools, "inferencepools", "others", 1), "limit=1")

	r.watch("events", kubeapi.Pods, app+"&timeoutSeconds=300", version, 7, func() {
		s.put(kubeapi.Pods, pod("d"))
		s.put(kubeapi.Pods, kubeapi.Unready(pod("a")))
		s.put(kubeapi.Pods, pod("y", "app=other"))
		s.put(kubeapi.Pods, pod("c", "app=other"))
		s.put(kubeapi.Pods, pod("c"))
		s.deleting(b)
		s.gone("b")
		s.gone("d")
	})
	after, _ := r.list("after them", kubeapi.Pods, app+"&limit=100")
	s.gone("c")
	r.watch("what came while nobody watched", kubeapi.Pods, app+"&timeoutSeconds=300", after, 1, func() {})
	version, _ = r.list("a page", kubeapi.Pods, "limit=1")
	r.watch("a watch to its end", kubeapi.Pods, app+"&timeoutSeconds=5", version, 0, func() {
		// Not selected, so the watch gets a bookmark instead of the event.
		s.put(kubeapi.Pods, kubeapi.Unready(pod("x", "app=other")))
		s.bookmark()
	})
	s.put(kubeapi.Pods, pod("e"))
	s.compact()
	r.watch("a version that has expired", kubeapi.Pods, app+"&timeoutSeconds=300", "1", 0, func() {})
	return r.lines
}

// TestTranscript checks that the fake server answers like a real API server.
func TestTranscript(t *testing.T) {
	got, want := record(fake(t)), record(real(t))
	t.Log("\n" + strings.Join(want, "\n"))
	if !slices.Equal(got, want) {
		t.Errorf("the fake answers\n%s", strings.Join(got, "\n"))
	}
}

// TestWatcher checks that a Watcher follows a real pool and its pods through all changes that the
// fake server simulates.
func TestWatcher(t *testing.T) {
	s := real(t)
	pod := func(name string) kubeapi.Object { return kubeapi.Pod(name, "", "10.0.0.1") }
	for i := range 250 {
		s.put(kubeapi.Pods, kubeapi.Pod(fmt.Sprintf("other-%d", i), "", "10.0.0.2", "app=next"))
	}
	a := pod("a")
	a["metadata"].(kubeapi.Object)["finalizers"] = []string{"example.com/hold"}
	s.put(kubeapi.Pods, a)
	s.put(kubeapi.Pods, pod("b"))
	s.put(kubeapi.Pools, kubeapi.Pool("llama", "app", "vllm", 8000))
	w := kubernetes.New(&config.Kubernetes{Pool: "llama", Namespace: "llm", Server: s.url}, 80, kubernetes.Options{Log: zap.NewNop()})
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{}, 2)
	go func() { w.Run(ctx, func() {}); ended <- struct{}{} }()
	go func() { w.RunPool(ctx); ended <- struct{}{} }()
	t.Cleanup(func() { stop(); <-ended; <-ended })
	pods := func() string {
		endpoints, _ := w.Endpoints()
		var out []string
		for _, e := range endpoints {
			out = append(out, e.Pod)
		}
		return strings.Join(out, " ")
	}
	has := func(want string) {
		t.Helper()
		began := time.Now()
		waitFor(t, want, func() bool { return pods() == want })
		t.Logf("%q after %v", want, time.Since(began))
	}
	has("a b")
	s.put(kubeapi.Pods, pod("c"))
	has("a b c")
	s.deleting(a)
	has("b c")
	s.gone("a")
	s.put(kubeapi.Pods, kubeapi.Pod("c", "", "10.0.0.1", "app=other"))
	has("b")
	s.cut(true)
	waitFor(t, "trouble", func() bool { return w.Status().Trouble != "" })
	s.gone("b")
	s.put(kubeapi.Pods, pod("d"))
	s.compact()
	if got := pods(); got != "b" {
		t.Errorf("without an API server there is %s", got)
	}
	s.cut(false)
	has("d")
	waitFor(t, "no trouble", func() bool { return w.Status().Trouble == "" })
	s.put(kubeapi.Pools, kubeapi.Pool("llama", "app", "vllm", 8000, 8001))
	has("d:8000 d:8001")
	s.put(kubeapi.Pools, kubeapi.Pool("llama", "app", "next", 9000))
	waitFor(t, "250 pods of three pages", func() bool { e, _ := w.Endpoints(); return len(e) == 250 && e[0].Pod == "other-0" })
}
