// Package kubeapi is a Kubernetes API server for tests. It serves paged lists of pods and
// InferencePools, and watches with bookmarks. Tests can make the server misbehave. .ci/apiserver
// compares it with a real API server.
package kubeapi

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Paths of the collections in the namespace llm.
const (
	PodsPath  = "/api/v1/namespaces/llm/pods"
	PoolsPath = "/apis/inference.networking.k8s.io/v1/namespaces/llm/inferencepools"
)

// Object is an object of the API.
type Object = map[string]any

// Server is an API server. It is safe for concurrent use.
type Server struct {
	*httptest.Server
	t       testing.TB
	Account string // folder with the files token, ca.crt and namespace

	mu          sync.Mutex
	changed     chan struct{} // closed at every change
	version     int
	compacted   int                          // version up to which events were dropped
	objects     map[string]map[string]Object // keyed by collection and name
	events      []event
	token       string
	unavailable bool                                          // whether to close connections without a response
	handler     func(http.ResponseWriter, *http.Request) bool // test handler; returns true if it has responded
	requests    []string
}

type event struct {
	version    int
	collection string
	bookmark   bool
	before     Object // nil if the object is new
	object     Object // the current state, or the last state before the deletion
	gone       bool
}

// watchType returns the type under which a watch with selectors sees the event. The type is DELETED
// if the object stops matching, and ADDED if it starts matching. If the watch does not see the
// event, watchType returns "".
func (e *event) watchType(q url.Values) string {
	was, is := e.before != nil && matchesSelectors(e.before, q), !e.gone && matchesSelectors(e.object, q)
	switch {
	case e.bookmark && q.Get("allowWatchBookmarks") != "":
		return "BOOKMARK"
	case e.bookmark:
		return ""
	case was && is:
		return "MODIFIED"
	case is:
		return "ADDED"
	case was:
		return "DELETED"
	}
	return ""
}

// Start starts a server that requires TLS and a token.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{
		t: t, Account: t.TempDir(), changed: make(chan struct{}), version: 100,
		objects: map[string]map[string]Object{PodsPath: {}, PoolsPath: {}},
	}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0) // aborted handshakes are expected
	s.StartTLS()
	s.writeAccountFile("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	s.writeAccountFile("namespace", "llm")
	s.RotateToken("first", true)
	t.Cleanup(func() {
		s.SetUnavailable(true)
		s.Close()
	})
	return s
}

func (s *Server) writeAccountFile(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.Account, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// RotateToken replaces the valid token. If write is true, it also writes the token to the account's
// folder.
func (s *Server) RotateToken(token string, write bool) {
	s.mu.Lock()
	s.token = token
	s.mu.Unlock()
	if write {
		s.writeAccountFile("token", token+"\n")
	}
}

// NewPod returns a ready pod. marks contains labels such as app=vllm, and annotations such as
// penstock/weight=2.
func NewPod(name, uid, ip string, marks ...string) Object {
	labels, annotations := Object{"app": "vllm"}, Object{}
	for _, mark := range marks {
		key, value, _ := strings.Cut(mark, "=")
		into := labels
		if strings.Contains(key, "active-ports") || strings.HasPrefix(key, "penstock/") {
			into = annotations
		}
		into[key] = value
	}
	return Object{
		"kind": "Pod", "apiVersion": "v1",
		"metadata": Object{"name": name, "namespace": "llm", "uid": uid, "labels": labels, "annotations": annotations},
		"status":   Object{"phase": "Running", "podIP": ip, "conditions": []Object{{"type": "Ready", "status": "True"}}},
	}
}

// UnreadyPod returns pod with the Ready condition set to False.
func UnreadyPod(pod Object) Object {
	status := maps.Clone(pod["status"].(Object))
	status["conditions"] = []Object{{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "False"}}
	return withMember(pod, "status", status)
}

// DeletingPod returns pod with a deletion timestamp.
func DeletingPod(pod Object) Object {
	metadata := maps.Clone(pod["metadata"].(Object))
	metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"] = "2026-01-02T03:04:05Z", 30
	return withMember(pod, "metadata", metadata)
}

// NewPool returns an InferencePool.
func NewPool(name, label, value string, ports ...int) Object {
	var targets []Object
	for _, port := range ports {
		targets = append(targets, Object{"number": port})
	}
	return Object{
		"kind": "InferencePool", "apiVersion": "inference.networking.k8s.io/v1",
		"metadata": Object{"name": name, "namespace": "llm", "uid": "pool-" + name},
		"spec":     Object{"selector": Object{"matchLabels": Object{label: value}}, "targetPorts": targets},
	}
}

func withMember(o Object, key string, value any) Object {
	o = maps.Clone(o)
	o[key] = value
	return o
}

// PutObject creates or replaces an object.
func (s *Server) PutObject(collection string, o Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := o["metadata"].(Object)["name"].(string)
	s.objects[collection][name] = s.appendEvent(event{collection: collection, before: s.objects[collection][name], object: o})
}

// DeleteObject removes an object.
func (s *Server) DeleteObject(collection, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[collection][name]
	delete(s.objects[collection], name)
	s.appendEvent(event{collection: collection, before: o, object: o, gone: true})
}

// appendEvent appends an event and returns its object with the new version. The caller must hold
// mu.
func (s *Server) appendEvent(e event) Object {
	s.version++
	metadata := maps.Clone(e.object["metadata"].(Object))
	metadata["resourceVersion"] = strconv.Itoa(s.version)
	e.version, e.object = s.version, withMember(e.object, "metadata", metadata)
	s.events = append(s.events, e)
	close(s.changed)
	s.changed = make(chan struct{})
	return e.object
}

// SendBookmark sends a bookmark to every watch.
func (s *Server) SendBookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, collection := range []string{PodsPath, PoolsPath} {
		s.appendEvent(event{collection: collection, bookmark: true, object: Object{"metadata": Object{}}})
	}
}

// DropEvents drops all events, so that a watch from an earlier version gets a 410.
func (s *Server) DropEvents() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted, s.events = s.version, nil
}

// SetUnavailable makes the server close all connections and refuse new ones. If away is false, the
// server accepts connections again.
func (s *Server) SetUnavailable(away bool) {
	s.mu.Lock()
	s.unavailable = away
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	if away {
		s.CloseClientConnections()
	}
}

// SetHandler sets a handler that is called before the server handles a request. If the handler
// returns true, it has responded. A nil f removes the handler.
func (s *Server) SetHandler(f func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = f
}

// RequestedPaths returns the requested paths, with their queries, that contain text.
func (s *Server) RequestedPaths(text string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.Contains(r, text) {
			out = append(out, r)
		}
	}
	return out
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.URL.RequestURI())
	away, token, answer, known := s.unavailable, s.token, s.handler, s.objects[r.URL.Path] != nil
	s.mu.Unlock()
	q := r.URL.Query()
	switch {
	case away:
		panic(http.ErrAbortHandler)
	case answer != nil && answer(w, r):
	case r.Header.Get("Authorization") != "Bearer "+token:
		respondStatus(w, 401, "Unauthorized")
	case !known:
		respondStatus(w, 404, "NotFound")
	case q.Get("watch") != "":
		s.serveWatch(w, r, q)
	default:
		s.serveList(w, r.URL.Path, q)
	}
}

func respondStatus(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(statusObject(code, reason))
}

func statusObject(code int, reason string) Object {
	return Object{
		"kind": "Status", "apiVersion": "v1", "metadata": Object{},
		"status": "Failure", "reason": reason, "code": code,
	}
}

// serveList responds with one page. The continue token in the page contains the next position and
// the version of the list.
func (s *Server) serveList(w http.ResponseWriter, path string, q url.Values) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, version := 0, s.version
	if token := q.Get("continue"); token != "" {
		if n, _ := fmt.Sscanf(token, "%d-%d", &version, &from); n != 2 || version < s.compacted {
			respondStatus(w, 410, "Expired")
			return
		}
	}
	var items []Object
	for _, name := range slices.Sorted(maps.Keys(s.objects[path])) {
		if o := s.objects[path][name]; matchesSelectors(o, q) {
			items = append(items, o)
		}
	}
	metadata := Object{"resourceVersion": strconv.Itoa(version)}
	items = items[min(from, len(items)):]
	if limit, _ := strconv.Atoi(q.Get("limit")); limit > 0 && len(items) > limit {
		metadata["continue"] = fmt.Sprintf("%d-%d", version, from+limit)
		// With a selector, the number is unknown.
		if q.Get("labelSelector") == "" && q.Get("fieldSelector") == "" {
			metadata["remainingItemCount"] = len(items) - limit
		}
		items = items[:limit]
	}
	w.Header().Set("Content-Type", "application/json")
	list := Object{"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": append([]Object{}, items...)}
	json.NewEncoder(w).Encode(list)
}

func matchesSelectors(o Object, q url.Values) bool {
	metadata := o["metadata"].(Object)
	if name, ok := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name="); ok && metadata["name"] != name {
		return false
	}
	labels, _ := metadata["labels"].(Object)
	for term := range strings.SplitSeq(q.Get("labelSelector"), ",") {
		if key, value, found := strings.Cut(term, "="); found && labels[key] != value {
			return false
		}
	}
	return true
}

// serveWatch sends the events that follow the requested version.
func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, q url.Values) {
	version, _ := strconv.Atoi(q.Get("resourceVersion"))
	seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	over := time.After(time.Duration(seconds) * time.Second)
	w.Header().Set("Content-Type", "application/json")
	w.(http.Flusher).Flush()
	out := json.NewEncoder(w)
	for {
		s.mu.Lock()
		away, wake, expired := s.unavailable, s.changed, version < s.compacted
		var send []Object
		for _, e := range s.events {
			if e.version <= version || e.collection != r.URL.Path {
				continue
			}
			if kind := e.watchType(q); kind != "" {
				send = append(send, Object{"type": kind, "object": e.object})
			}
		}
		version = max(version, s.version)
		s.mu.Unlock()
		if away {
			panic(http.ErrAbortHandler)
		}
		if expired {
			out.Encode(Object{"type": "ERROR", "object": statusObject(410, "Expired")})
			return
		}
		for _, o := range send {
			out.Encode(o)
		}
		w.(http.Flusher).Flush()
		select {
		case <-wake:
		case <-over:
			return
		case <-r.Context().Done():
			return
		}
	}
}
