package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// surface is a generation endpoint and the form of its requests.
type surface struct {
	path, kind string
	engine     string // the engine profile; if empty, openai
	// request returns a body for a model, streamed or not, and its media type.
	request func(model string, stream bool) (body, media string)
	streams bool // clients may request streams
	// the edge answers without an engine, so engine failures do not affect the endpoint
	local  bool
	upload bool // the request is a form in which the file may precede the model
	drawn  bool // served by painter instead of the simulator
}

// asJSON returns a request function for a JSON format. In the format, %q stands for the model and
// %v for the stream flag.
func asJSON(format string) func(string, bool) (string, string) {
	return func(model string, stream bool) (string, string) {
		if strings.Contains(format, "%v") {
			return fmt.Sprintf(format, model, stream), "application/json"
		}
		return fmt.Sprintf(format, model), "application/json"
	}
}

// asForm returns a request function for a form with a file.
func asForm(name string) func(string, bool) (string, string) {
	return func(model string, stream bool) (string, string) {
		parts := []formPart{text("model", model), {name, "file.bin", "some bytes"}}
		if stream {
			parts = append(parts, text("stream", "true"))
		}
		body, header := form(parts...)
		return body, strings.TrimPrefix(header, "Content-Type: ")
	}
}

var surfaces = []surface{
	{path: chatPath, kind: "chat", streams: true, request: asJSON(`{"model":%q,"stream":%v,"messages":[{"role":"user","content":"` + rig.Canary + `"}]}`)},
	{path: "/v1/responses", kind: "chat", streams: true, request: asJSON(`{"model":%q,"stream":%v,"input":"` + rig.Canary + `"}`)},
	{path: "/v1/responses/compact", kind: "chat", request: asJSON(`{"model":%q,"input":"` + rig.Canary + `"}`)},
	{path: "/v1/responses/input_tokens", kind: "chat", local: true, request: asJSON(`{"model":%q,"input":"` + rig.Canary + `"}`)},
	{path: "/v1/messages", kind: "chat", streams: true, request: asJSON(`{"model":%q,"stream":%v,"max_tokens":64,"messages":[{"role":"user","content":"` + rig.Canary + `"}]}`)},
	{path: "/v1/messages/count_tokens", kind: "chat", local: true, request: asJSON(`{"model":%q,"messages":[{"role":"user","content":"` + rig.Canary + `"}]}`)},
	{path: "/v1/completions", kind: "chat", streams: true, request: asJSON(`{"model":%q,"stream":%v,"prompt":"` + rig.Canary + `"}`)},
	{path: "/v1/embeddings", kind: "embedding", request: asJSON(`{"model":%q,"input":"` + rig.Canary + `"}`)},
	{path: "/v1/rerank", kind: "rerank", request: asJSON(`{"model":%q,"query":"` + rig.Canary + `","documents":["a","b"]}`)},
	{path: "/v1/score", kind: "rerank", engine: "vllm", request: asJSON(`{"model":%q,"text_1":"` + rig.Canary + `","text_2":["a","b"]}`)},
	{path: "/v1/classify", kind: "rerank", engine: "vllm", request: asJSON(`{"model":%q,"input":"` + rig.Canary + `"}`)},
	{path: "/v1/pooling", kind: "embedding", engine: "vllm", request: asJSON(`{"model":%q,"input":"` + rig.Canary + `"}`)},
	{path: "/tokenize", kind: "chat", engine: "vllm", request: asJSON(`{"model":%q,"prompt":"` + rig.Canary + `"}`)},
	{path: "/detokenize", kind: "chat", engine: "vllm", request: asJSON(`{"model":%q,"tokens":[1,2]}`)},
	{path: "/v1/moderations", kind: "chat, supported_endpoints: [/v1/moderations]", request: asJSON(`{"model":%q,"input":"` + rig.Canary + `"}`)},
	{path: speech, kind: "audio-speech", request: asJSON(`{"model":%q,"input":"` + rig.Canary + `"}`)},
	{path: transcriptions, kind: "audio-transcription", upload: true, request: asForm("file")},
	{path: "/v1/images/generations", kind: "image", drawn: true, request: asJSON(`{"model":%q,"prompt":"` + rig.Canary + `"}`)},
	{path: "/v1/images/edits", kind: "image-edit", drawn: true, upload: true, request: asForm("image")},
}

// isMessages reports whether errors have the Messages shape, with 529 for engine failures.
func (s *surface) isMessages() bool { return rig.ErrorSchema(s.path) == "MessagesError" }

// sentStatuses records the statuses that the edge has sent in TestStatuses, by operation.
type sentStatuses struct {
	mu   sync.Mutex
	seen map[string]map[string]bool
}

func (p *sentStatuses) add(method, path string, status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := method + " " + path
	if p.seen[name] == nil {
		p.seen[name] = map[string]bool{}
	}
	p.seen[name][strconv.Itoa(status)] = true
}

// TestStatuses checks that the edge produces every status that the document lists for an operation,
// and no others.
func TestStatuses(t *testing.T) {
	fastset.SkipIfShort(t, "every status of every dialect")
	t.Parallel()
	seen := &sentStatuses{seen: map[string]map[string]bool{}}
	t.Run("all", func(t *testing.T) {
		for _, s := range surfaces {
			t.Run(s.path, func(t *testing.T) {
				t.Parallel()
				s.refusals(t, seen)
				s.checkHook(t, newHook(t), seen)
				if !s.local {
					s.failures(t, seen)
				}
			})
		}
		t.Run("memory", func(t *testing.T) {
			t.Parallel()
			memoryStatuses(t, seen)
		})
		t.Run("public pages", func(t *testing.T) {
			t.Parallel()
			publicStatuses(t, seen)
		})
		t.Run("websocket", func(t *testing.T) {
			t.Parallel()
			websocketStatuses(t, seen)
		})
		t.Run("realtime", func(t *testing.T) {
			t.Parallel()
			realtimeStatuses(t, seen)
		})
	})
	for _, op := range rig.PublishedContract(t).Operations {
		name := op.Method + " " + op.Path
		var missing []string
		for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
			// No client can cause a fault in the edge: see proxy.TestPanicIsAnInternalError.
			if status != "500" && !seen.seen[name][status] {
				missing = append(missing, status)
			}
		}
		if missing != nil {
			t.Errorf("%s: the document lists %v, which nothing here produces", name, missing)
		}
	}
}

// wantStatus checks an answer against the document and records its status.
func (s *surface) wantStatus(t *testing.T, seen *sentStatuses, r *rig.Reply, status int, kind, code string) {
	t.Helper()
	r.T = t
	r.WantConforming("POST", s.path)
	seen.add("POST", s.path, r.Status)
	if status == 200 {
		r.WantStatus(200)
		return
	}
	r.WantError(status, kind, code)
}

func (s *surface) ask(p *penstock, model string, stream bool, header ...string) *rig.Reply {
	body, media := s.request(model, stream)
	return p.Post(s.path, body, append([]string{"Content-Type: " + media}, header...)...)
}

// refusals produces 200 and the statuses that do not involve an engine.
func (s *surface) refusals(t *testing.T, seen *sentStatuses) {
	narrow, narrowHash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	once, onceHash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := "rerank"
	if s.kind == elsewhere {
		elsewhere = "embeddings"
	}
	p := s.start(t, rig.Setup{
		Limits: "request_body: 64KiB, upload_body: 64KiB", Timeouts: "client_body: 1s",
		Keys: `- { id: narrow, hash: "` + narrowHash + `", models: [other] }
- { id: deaf, hash: "` + auth.HashKey("deaf") + `", operations: [` + elsewhere + `] }
- { id: once, hash: "` + onceHash + `", limits: { requests_per_minute: 1 } }
`,
	}, "200")
	expect := func(r *rig.Reply, status int, kind, code string) {
		t.Helper()
		s.wantStatus(t, seen, r, status, kind, code)
	}
	expect(s.ask(p, "works", false), 200, "", "")
	if s.streams {
		expect(s.ask(p, "works", true), 200, "", "")
	}
	_, media := s.request("works", false)
	if s.upload {
		body, header := form(text("model", "works"))
		expect(p.Post(s.path, body, header), 400, "invalid_request_error", "missing_parameter")
	} else {
		expect(p.Post(s.path, "{"), 400, "invalid_request_error", "invalid_json")
	}
	expect(s.ask(p, "works", false, "Authorization: "), 401, "authentication_error", "invalid_api_key")
	expect(s.ask(p, "works", false, "Authorization: Bearer wrong"), 401, "authentication_error", "invalid_api_key")
	expect(s.ask(p, "works", false, "x-api-key: wrong"), 401, "authentication_error", "credential_conflict")
	query := *s
	query.path += "?key=wrong"
	expect(query.ask(p, "works", false), 401, "authentication_error", "credential_in_query")
	expect(s.ask(p, "works", false, "Authorization: Bearer "+narrow), 403, "permission_error", "model_not_allowed")
	expect(s.ask(p, "works", false, "Authorization: Bearer deaf"), 403, "permission_error", "operation_not_allowed")
	expect(s.ask(p, "nobody", false), 404, "not_found_error", "model_not_found")
	expect(p.Post(s.path, strings.Repeat(" ", 70<<10), "Content-Type: "+media), 413, "request_too_large", "request_too_large")
	expect(s.ask(p, "works", false, "Content-Type: text/plain"), 415, "invalid_request_error", "unsupported_media_type")
	expect(s.ask(p, "works", false, "Authorization: Bearer "+once), 200, "", "")
	expect(s.ask(p, "works", false, "Authorization: Bearer "+once), 429, "rate_limit_error", "rate_limited")

	slow := p.Dial()
	_ = slow.Send(p.RequestHead("POST", s.path, "Content-Type: "+media, "Content-Length: 100") + "{")
	expect(slow.ReadReply("POST"), 408, "invalid_request_error", "request_timeout")
}

// failures produces the statuses that involve an engine or the edge's memory.
func (s *surface) failures(t *testing.T, seen *sentStatuses) {
	rows := []struct {
		fault, kind, code string
		status            int
	}{
		{"status=500", "api_error", "upstream_failed", 502},
		{"status=502", "api_error", "upstream_failed", 502},
		{"status=401", "api_error", "upstream_auth", 502},
		{"html-200", "api_error", "upstream_bad_response", 502},
		{"status=503", "api_error", "no_healthy_route", 503},
		{"status=504", "timeout_error", "generation_timeout", 504},
		{"status=429", "rate_limit_error", "capacity_full", 429},
		{"status=413", "request_too_large", "request_too_large", 413},
		{"status=400", "invalid_request_error", "rejected_by_engine", 400},
	}
	faults := make([]string, len(rows))
	for i := range rows {
		faults[i] = rows[i].fault
	}
	p := s.start(t, rig.Setup{}, faults...)
	for i, row := range rows {
		status, kind := row.status, row.kind
		if s.isMessages() && status >= 500 {
			status, kind = 529, "overloaded_error"
		}
		s.wantStatus(t, seen, s.ask(p, "fails-"+strconv.Itoa(i), false), status, kind, row.code)
		if s.streams {
			s.wantStatus(t, seen, s.ask(p, "fails-"+strconv.Itoa(i), true), status, kind, row.code)
		}
	}
}

// start runs an edge with an engine for each fault. The models fails-0, fails-1 and so on each have
// one failing engine. The models works and other both use the first engine.
func (s *surface) start(t *testing.T, o rig.Setup, faults ...string) *penstock {
	t.Helper()
	var b strings.Builder
	for i, fault := range faults {
		url := "{{up-" + strconv.Itoa(i) + "}}"
		if s.drawn {
			url = painter(t, fault)
		}
		o.Engines = append(o.Engines, sim.Options{})
		fmt.Fprintf(&b, "- { name: up-%d, url: %q, engine: %s, probe: { timeout: 15s } }\n", i, url, cmp.Or(s.engine, "openai"))
	}
	o.Config = o.Top + "\nseal: { keys: [" + sealKeyA + "] }\ntimeouts: { linger: 0s, drain: 5s, " + strings.TrimPrefix(o.Timeouts+", idle: 60s", ", ") + " }\nlimits: { " + o.Limits + " }\n" +
		"keys:\n  - { id: tester, hash: \"{{hash}}\" }\n" + rig.IndentLines(o.Keys) + "upstreams:\n" + rig.IndentLines(b.String()) + "models:\n"
	for i := range faults {
		o.Config += fmt.Sprintf("  - { id: fails-%d, kind: %s, deployments: [{ upstream: up-%d, served: sim }] }\n", i, s.kind, i)
	}
	for _, id := range []string{"works", "other"} {
		o.Config += fmt.Sprintf("  - { id: %s, kind: %s, deployments: [{ upstream: up-0, served: sim }] }\n", id, s.kind)
	}
	p := start(t, o)
	for i, fault := range faults {
		if fault != "200" {
			p.Engines[i].SetFault(sim.Fault{Spec: fault})
		}
	}
	return p
}

// painter starts an image engine with the given fault, and returns its address.
func painter(t *testing.T, fault string) string {
	t.Helper()
	status, err := strconv.Atoi(strings.TrimPrefix(fault, "status="))
	media, answer := "application/json", `{"error":{"message":"it does not like that","type":"error"}}`
	switch {
	case err != nil:
		status, media, answer = 200, "text/html", "<html>"
	case status == 200:
		answer = `{"created":1,"data":[]}`
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", media)
		if r.Method == "POST" {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, answer)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"sim","object":"model"}]}`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// memoryStatuses produces the statuses of an edge without memory for bodies. It fills most of the
// memory, which is 1 MiB, with a body that does not end.
func memoryStatuses(t *testing.T, seen *sentStatuses) {
	p := start(t, rig.Setup{Limits: "body_memory: 0.1%"})
	first := p.Dial()
	_ = first.Send(p.RequestHead("POST", chatPath, "Content-Type: application/json", "Content-Length: 1000000") + strings.Repeat(" ", 999_999))
	rig.WaitFor(t, rig.WaitTimeout, "the first body has its bytes", func() bool { return p.Metric("penstock_body_memory_bytes") == 1_000_000 })
	for _, s := range surfaces {
		if s.upload {
			continue // transcriptions are streamed: see TestTranscriptions_Memory
		}
		status, kind := 503, "api_error"
		if s.isMessages() {
			status, kind = 529, "overloaded_error"
		}
		c := p.Dial()
		_ = c.Send(p.RequestHead("POST", s.path, "Content-Type: application/json", "Content-Length: 1000000") + "{")
		s.wantStatus(t, seen, c.ReadReply("POST"), status, kind, "no_body_memory")
	}
	first.Reset()
}

// publicStatuses produces the statuses of the pages that require no key.
func publicStatuses(t *testing.T, seen *sentStatuses) {
	p := start(t, rig.Setup{})
	for _, page := range []struct{ target, path string }{
		{"/v1/models", "/v1/models"}, {"/v1/models/sim", "/v1/models/{id}"}, {"/health", "/health"}, {"/openapi.json", "/openapi.json"}, {"/openapi.yaml", "/openapi.yaml"},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			ask := func(target string, header ...string) int {
				r := p.Do(method, target, "", append([]string{"Authorization: "}, header...)...).WantConforming(method, target)
				seen.add(method, page.path, r.Status)
				return r.Status
			}
			if got := ask(page.target); got != 200 {
				t.Errorf("%s %s = %d, want 200", method, page.target, got)
			}
			ask(page.target, "If-None-Match: *")
			ask(page.target + "?a=%zz")
			ask(page.target, "Authorization: Bearer wrong")
			if strings.HasSuffix(page.path, "{id}") {
				ask("/v1/models/nobody")
			}
		}
	}
	// This edge waits for keys from a store that does not exist.
	waits := start(t, rig.Setup{Top: storeKeys("127.0.0.1:1", "")})
	for target, path := range map[string]string{"/v1/models": "/v1/models", "/v1/models/sim": "/v1/models/{id}"} {
		for _, method := range []string{"GET", "HEAD"} {
			for want, version := range map[int]string{503: "X-Other: 1", 529: "Anthropic-Version: 2023-06-01"} {
				r := waits.Do(method, target, "", "Authorization: Bearer another", version).WantStatus(want).WantConforming(method, target)
				seen.add(method, path, r.Status)
			}
		}
	}
	r := p.Do("HEAD", "/", "", "Authorization: ").WantStatus(204).WantConforming("HEAD", "/")
	seen.add("HEAD", "/", r.Status)
	r = p.Do("GET", "/", "", "Authorization: ").WantStatus(200).WantConforming("GET", "/")
	seen.add("GET", "/", r.Status)
	var places map[string]string
	if err := json.Unmarshal([]byte(r.Body), &places); err != nil {
		t.Error(err)
	}
	for what, path := range places {
		if what != "service" && what != "base_url" {
			p.Do("GET", path, "", "Authorization: ").WantStatus(200)
		}
	}
	// Responses that do not belong to any operation also have the shape of an error.
	for _, c := range []struct {
		method, target string
		status         int
	}{
		{"POST", "/", 405}, {"GET", chatPath, 405}, {"DELETE", "/v1/models", 405}, {"GET", "/v1/messages", 405}, {"POST", "/v1/nothing", 404}, {"POST", "/v1/messages/nothing", 404}, {"GET", "/v1", 404},
	} {
		p.Do(c.method, c.target, "").WantStatus(c.status).WantConforming(c.method, c.target)
	}
}

// The headers of an upgrade.
const upgrade, version, key = "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="

// upgrade sends a GET that may request an upgrade, and checks and records the answer. It returns
// the connection.
func (p *sentStatuses) upgrade(edge *penstock, path, query string, want int, header ...string) *rig.RawConn {
	edge.T.Helper()
	c := edge.Dial()
	_ = c.Send(edge.RequestHead("GET", path+query, append([]string{"Connection: Upgrade"}, header...)...))
	if r := c.ReadReply("GET").WantStatus(want); want != 101 {
		r.WantConforming("GET", path)
	}
	p.add("GET", path, want)
	return c
}

// realtimeStatuses produces the statuses of a GET for a realtime session.
func realtimeStatuses(t *testing.T, seen *sentStatuses) {
	h := newHook(t)
	p := start(t, rig.Setup{
		Top: h.setting(""), Upstream: "concurrency: { text: 4, audio: 1 }", Retry: "budget: 100%", Timeouts: "first_event: 1s",
		Models: "- { id: ears, kind: audio-transcription, deployments: [{ upstream: up-0, served: sim }] }",
	})
	ask := func(query string, want int, header ...string) *rig.RawConn {
		t.Helper()
		return seen.upgrade(p, "/v1/realtime", query, want, append(header, version, key)...)
	}
	held := ask("?model=ears", 101, upgrade)
	ask("?model=ears", 429, upgrade)
	_ = held.Send(rig.WebSocketFrame(0x88, "\x03\xe8", true))
	rig.WaitFor(t, rig.WaitTimeout, "the slot is free", func() bool { return p.Metric("penstock_calls_inflight") == 0 })
	ask("?intent=conversation", 400, upgrade)
	ask("", 401, upgrade, "x-api-key: wrong")
	ask("", 403, upgrade, "Origin: https://elsewhere.example")
	ask("?model=nothing", 404, upgrade)
	ask("", 426)
	for _, status := range []int{422, 451} {
		h.setAnswer(fmt.Sprintf(`{"action":"refuse","status":%d}`, status))
		ask("?model=ears", status, upgrade)
	}
	h.setAnswer(`{"action":"allow"}`)
	for status, fault := range map[int]string{502: "status=500", 503: "status=503", 504: "blackhole"} {
		p.Engines[0].SetFault(sim.Fault{Spec: fault, Path: "/v1/realtime", Count: 1})
		ask("?model=ears", status, upgrade)
	}
}

// websocketStatuses produces the statuses of a GET with and without a WebSocket upgrade.
func websocketStatuses(t *testing.T, seen *sentStatuses) {
	p := start(t, rig.Setup{Timeouts: "linger: 3s", Top: "responses: { websocket: true }", Untidy: true})
	ask := func(p *penstock, want int, header ...string) {
		t.Helper()
		seen.upgrade(p, "/v1/responses", "", want, header...).Close()
	}
	ask(p, 101, upgrade, version, key)
	ask(p, 400, upgrade, key)
	ask(p, 401, upgrade, version, key, "x-api-key: wrong")
	ask(p, 403, upgrade, version, key, "Origin: https://elsewhere.example")
	ask(p, 405)
	ask(start(t, rig.Setup{}), 426, upgrade, version, key)
	// The stream delays the end of the drain.
	s := p.OpenStream(chatPath, rig.ChatBody("sim", `"stream":true,"sim":{"tokens":100000,"delay_ms":20}`))
	s.Next()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.End()
	}()
	rig.WaitFor(t, rig.WaitTimeout, "the edge drains", func() bool { return p.Metric("penstock_draining") == 1 })
	ask(p, 503, upgrade, version, key)
	s.Disconnect()
	<-ended
}
