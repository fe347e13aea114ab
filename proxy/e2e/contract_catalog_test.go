package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// These tests check the live catalog: capacity, readiness, visibility by key, and caching.

type capacityState struct {
	slots
	Unit       string           `json:"unit"`
	UpdatedAt  int64            `json:"updated_at"`
	Modalities map[string]slots `json:"modalities"`
}

type slots struct {
	Available   int     `json:"available_concurrency"`
	Total       int     `json:"total_concurrency"`
	Active      int     `json:"active_requests"`
	Utilization float64 `json:"utilization_percent"`
}

func (p *penstock) capacity() (c capacityState, ready bool) {
	p.T.Helper()
	r := p.Get("/v1/models/sim").WantStatus(200)
	var m struct {
		Capacity capacityState
		IsReady  bool `json:"is_ready"`
	}
	if err := json.Unmarshal([]byte(r.Body), &m); err != nil {
		p.T.Fatal(err)
	}
	return m.Capacity, m.IsReady
}

// occupy opens n streams that last until the test closes them.
func (p *penstock) occupy(n int, body func(more string) string) []*rig.Stream {
	p.T.Helper()
	out := make([]*rig.Stream, n)
	for i := range out {
		out[i] = p.OpenStream(chatPath, body(`"stream":true,"sim":{"tokens":100000,"delay_ms":50}`))
		if _, ok := out[i].Next(); !ok {
			p.T.Fatal("the stream has no event")
		}
	}
	return out
}

func TestCatalogCapacity(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Upstream: "concurrency: { text: 4, vision: 2 }"})
	free := slots{4, 4, 0, 0}
	want := func(all, text, vision slots) {
		t.Helper()
		got, _ := p.capacity()
		if got.slots != all || got.Modalities["text"] != text || got.Modalities["vision"] != vision || len(got.Modalities) != 2 {
			t.Errorf("capacity %+v, want %+v, text %+v, vision %+v", got, all, text, vision)
		}
	}
	want(slots{6, 6, 0, 0}, free, slots{2, 2, 0, 0})
	texts := p.occupy(3, p.ChatRequest)
	want(slots{3, 6, 3, 50}, slots{1, 4, 3, 75}, slots{2, 2, 0, 0})
	images := p.occupy(2, func(more string) string { return rig.VisionBody(rig.PictureDataURL("png"), more) })
	text, full := slots{1, 4, 3, 75}, slots{0, 2, 2, 100}
	got, _ := p.capacity()
	if got.Active != 5 || got.Available != 1 || got.Modalities["text"] != text || got.Modalities["vision"] != full {
		t.Errorf("capacity = %+v, want text %+v and vision %+v", got, text, full)
	}
	if n := int(p.Metric("penstock_upstream_inflight")); n != 5 {
		t.Errorf("the metrics tell of %d in flight, the catalog of 5", n)
	}
	// The list is rendered once a second, so it may be out of date by a second.
	rig.WaitFor(t, rig.WaitTimeout, "the list shows 5 active requests", func() bool {
		return strings.Contains(p.Get("/v1/models").Body, `"active_requests":5`)
	})
	for _, s := range append(texts, images...) {
		s.Disconnect()
	}
	p.WaitIdle()
	want(slots{6, 6, 0, 0}, free, slots{2, 2, 0, 0})
}

// TestCatalogSharedPool checks that a single capacity number means one pool for all kinds of calls.
func TestCatalogSharedPool(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Upstream: "concurrency: 4", Models: "- { id: twin, deployments: [{ upstream: up-0, served: sim }] }"})
	held := append(p.occupy(1, p.ChatRequest), p.occupy(1, func(more string) string { return rig.VisionBody(rig.PictureDataURL("png"), more) })...)
	if got, _ := p.capacity(); (got.slots != slots{2, 4, 2, 50}) || got.Modalities != nil {
		t.Errorf("capacity = %+v, want 2 of 4 active and no modalities", got)
	}
	if twin := p.entry("twin")["capacity"].(map[string]any); twin["active_requests"] != 2.0 {
		t.Errorf("a model on the same engine publishes %v", twin)
	}
	for _, s := range held {
		s.Disconnect()
	}
}

// TestCatalogPoolsOfKinds checks that a model publishes only the pools that calls of its kind use.
func TestCatalogPoolsOfKinds(t *testing.T) {
	t.Parallel()
	models := ""
	for kind := range kindPools {
		models += fmt.Sprintf("- { id: the-%s, kind: %[1]s, deployments: [{ upstream: up-0, served: sim }] }\n", kind)
	}
	p := start(t, rig.Setup{Upstream: "concurrency: { text: 4, vision: 2, audio: 1 }", Models: models})
	for kind, want := range kindPools {
		capacity := p.entry("the-" + kind)["capacity"].(map[string]any)
		pools := slices.Sorted(maps.Keys(capacity["modalities"].(map[string]any)))
		if total := capacity["total_concurrency"]; total != want.total || !slices.Equal(pools, want.pools) {
			t.Errorf("%s: %v slots in the pools %v, want %v in %v", kind, total, pools, want.total, want.pools)
		}
	}
}

var kindPools = map[string]struct {
	total float64
	pools []string
}{
	"chat":                {6, []string{"text", "vision"}},
	"audio-transcription": {1, []string{"audio"}},
	"audio-speech":        {1, []string{"audio"}},
	"image":               {4, []string{"text"}},
	"image-edit":          {4, []string{"text"}},
	"embedding":           {4, []string{"text"}},
	"rerank":              {4, []string{"text"}},
}

// TestVisionRefusedByEngine checks that a refusal by an engine at capacity has the metadata of a full
// vision pool if the request contains an image.
func TestVisionRefusedByEngine(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Upstream: "concurrency: { text: 4, vision: 2 }"})
	p.Engines[0].SetFault(sim.Fault{Spec: "status=429;retry-after=9"})
	e := p.Post(chatPath, rig.VisionBody(rig.PictureDataURL("png"), "")).WantError(429, "rate_limit_error", "capacity_full")
	var got map[string]any
	if err := json.Unmarshal(e.Metadata, &got); err != nil {
		t.Fatalf("metadata = %s, %v; want JSON", e.Metadata, err)
	}
	want := map[string]any{"retry_after": 9.0, "modality": "vision", "state": "saturated", "active_requests": 0.0, "total_concurrency": 2.0, "available_concurrency": 0.0}
	if fmt.Sprint(got) != fmt.Sprint(want) || !strings.Contains(e.Message, "0 active of 2") || !strings.Contains(e.Message, "9 seconds") {
		t.Errorf("%s, metadata %v, want %v", e.Message, got, want)
	}
	if e := p.Post(chatPath, p.ChatRequest("")).WantError(429, "rate_limit_error", "capacity_full"); e.Metadata != nil {
		t.Errorf("the refusal of a text request has the metadata %s", e.Metadata)
	}
}

func TestCatalogVisionFull(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Upstream: "concurrency: { text: 4, vision: 2 }", Model: "vision: { retry_after_seconds: 7 }"})
	see := func(more string) string { return rig.VisionBody(rig.PictureDataURL("png"), more) }
	held := p.occupy(2, see)
	r := p.Post(chatPath, see(""))
	e := r.WantError(429, "rate_limit_error", "capacity_full")
	var got map[string]any
	if err := json.Unmarshal(e.Metadata, &got); err != nil {
		t.Fatalf("metadata = %s, %v; want JSON", e.Metadata, err)
	}
	want := map[string]any{"retry_after": 7.0, "modality": "vision", "state": "saturated", "active_requests": 2.0, "total_concurrency": 2.0, "available_concurrency": 0.0}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("metadata %v, want %v", got, want)
	}
	if r.Header.Get("Retry-After") != "7" {
		t.Errorf("Retry-After %q", r.Header.Get("Retry-After"))
	}
	for _, word := range []string{"2 active of 2", "7 seconds"} {
		if !strings.Contains(e.Message, word) {
			t.Errorf("the message does not say %q: %s", word, e.Message)
		}
	}
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200) // text has separate slots

	texts := p.occupy(4, p.ChatRequest)
	full := p.Post(chatPath, p.ChatRequest(""))
	if e := full.WantError(429, "rate_limit_error", "capacity_full"); e.Metadata != nil || !strings.Contains(e.Message, "Retry after") {
		t.Errorf("text is full: %s", full.Body)
	}
	for _, s := range append(held, texts...) {
		s.Disconnect()
	}
}

func TestCatalogReadiness(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Upstream: "probe: { interval: 100ms, fall: 1, rise: 1 }"})
	if c, ready := p.capacity(); !ready || c.Total == 0 {
		t.Fatalf("not ready: %+v", c)
	}
	p.Engines[0].SetHealthy(false)
	rig.WaitFor(t, rig.WaitTimeout, "not ready any more", func() bool { _, ready := p.capacity(); return !ready })
	if c, _ := p.capacity(); c.slots != (slots{}) {
		t.Errorf("a model without an engine has capacity %+v", c)
	}
	rig.WaitFor(t, rig.WaitTimeout, "the list says so too", func() bool { return strings.Contains(p.Get("/v1/models").Body, `"is_ready":false`) })
	p.Get("/health").WantStatus(200) // the edge is still healthy
	p.Post(chatPath, p.ChatRequest("")).WantError(503, "api_error", "no_healthy_route")
	p.Engines[0].SetHealthy(true)
	rig.WaitFor(t, rig.WaitTimeout, "ready again", func() bool { _, ready := p.capacity(); return ready })
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
}

func TestCatalogByKey(t *testing.T) {
	t.Parallel()
	narrow, narrowHash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, rig.Setup{
		Keys: `- { id: narrow, hash: "` + narrowHash + `", models: ["vendor/*"] }`,
		Models: `- { id: vendor/family/model, deployments: [{ upstream: up-0, served: sim }] }
- { id: "späte+1", deployments: [{ upstream: up-0, served: sim }] }
`,
	})
	for name, c := range map[string]struct {
		header []string
		ids    []string
	}{
		"no key":        {nil, []string{"sim", "vendor/family/model", "späte+1"}},
		"a wide key":    {[]string{"Authorization: Bearer " + p.Key}, []string{"sim", "vendor/family/model", "späte+1"}},
		"a narrow key":  {[]string{"Authorization: Bearer " + narrow}, []string{"vendor/family/model"}},
		"by x-api-key":  {[]string{"x-api-key: " + narrow}, []string{"vendor/family/model"}},
		"again, cached": {[]string{"x-api-key: " + narrow}, []string{"vendor/family/model"}},
	} {
		if got := p.list(c.header...).ids(); !slices.Equal(got, c.ids) {
			t.Errorf("%s: models %v, want %v", name, got, c.ids)
		}
	}
	for _, target := range []string{"/v1/models", "/v1/models/sim"} {
		for _, h := range [][]string{
			{"Authorization: Bearer wrong"}, {"x-api-key: wrong"}, {"Authorization: Basic eDp5"}, {"Authorization: Bearer " + narrow, "x-api-key: " + p.Key},
		} {
			r := p.Get(target, h...)
			r.WantStatus(401)
			if e := errorRecord(r); e.Type != "authentication_error" {
				t.Errorf("%v: answer = %s, want authentication_error", h, r.Body)
			}
			p.Do("HEAD", target, "", append([]string{"Authorization: "}, h...)...).WantStatus(401)
		}
	}
	// The response for a model that the key may not use is the same as for a model that does not
	// exist.
	hidden := p.Get("/v1/models/sim", "x-api-key: "+narrow)
	hidden.WantError(404, "not_found_error", "model_not_found")
	for _, name := range []string{"nobody", "%zz", "sim/"} {
		r := p.dialGet("/v1/models/" + name)
		if r.WantError(404, "not_found_error", "model_not_found"); r.Body != strings.Replace(hidden.Body, `\"sim\"`, `\"`+name+`\"`, 1) {
			t.Errorf("%s: %s, and of the hidden one: %s", name, r.Body, hidden.Body)
		}
	}
	for _, target := range []string{
		"/v1/models/vendor/family/model", "/v1/models/vendor%2Ffamily%2Fmodel", "/v1/models/vendor%2ffamily/model", "/v1/models/%76endor/family/model", "/v1/models/sp%C3%A4te%2B1", "/v1/models/sp%C3%A4te+1",
	} {
		if r := p.dialGet(target).WantStatus(200).WantConforming("GET", target); !strings.Contains(r.Body, `"id":"vendor/family/model"`) && !strings.Contains(r.Body, `"id":"späte+1"`) {
			t.Errorf("%s: answer = %s, want the model of the path", target, r.Body)
		}
	}
}

// dialGet sends a target unchanged, because client libraries would normalize it.
func (p *penstock) dialGet(target string) *rig.Reply {
	p.T.Helper()
	c := p.Dial()
	_ = c.Sendf("GET %s HTTP/1.1\r\nHost: edge\r\nConnection: close\r\n\r\n", target)
	return c.ReadReply("GET")
}

// TestCatalogCaching_Pages checks that Vary contains Origin. Otherwise, a cache could serve a list
// without CORS headers to a page that is allowed to read the list.
func TestCatalogCaching_Pages(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Top: `cors: { origins: ["https://app.example.com"] }`})
	for _, headers := range [][]string{nil, {"Origin: https://other.example.com"}, {"Origin: https://app.example.com"}} {
		if vary := p.Get("/v1/models", headers...).Header.Get("Vary"); vary != "Authorization, x-api-key, anthropic-version, Origin" {
			t.Errorf("%q: Vary = %q, want Origin at its end", headers, vary)
		}
	}
}

func TestCatalogCaching(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	key := "x-api-key: " + p.Key
	for _, target := range []string{"/v1/models", "/v1/models/sim"} {
		open, own := p.Get(target), p.Get(target, key)
		if got := open.Header.Get("Cache-Control") + ", " + open.Header.Get("Vary"); got != "public, max-age=15, Authorization, x-api-key, anthropic-version" {
			t.Errorf("%s without a key: %q", target, got)
		}
		if got := own.Header.Get("Cache-Control") + ", " + own.Header.Get("Vary"); got != "private, max-age=15, Authorization, x-api-key, anthropic-version" {
			t.Errorf("%s with a key: %q", target, got)
		}
		for _, match := range []string{"%s", "W/%s", `"x", %s`, "*"} {
			if strings.Contains(match, "%s") {
				match = fmt.Sprintf(match, strings.TrimPrefix(open.Header.Get("ETag"), "W/"))
			}
			if r := p.Get(target, "If-None-Match: "+match); r.Status != 304 {
				t.Errorf("%s: If-None-Match %s is answered with %d", target, match, r.Status)
			}
		}
		// The ETag stays the same if only updated_at has changed.
		rig.WaitFor(t, rig.WaitTimeout, "a page of another second", func() bool { return p.Get(target).Body != open.Body })
		if r := p.Get(target, "If-None-Match: "+open.Header.Get("ETag")); r.Status != 304 {
			t.Errorf("%s: the tag does not outlive its second: %d", target, r.Status)
		}
		p.Get(target, `If-None-Match: "other"`).WantStatus(200)
		whole := p.Get(target)
		head := p.Do("HEAD", target, "", "Authorization: ").WantStatus(200)
		if a, b := head.Header.Get("Content-Length"), fmt.Sprint(len(whole.Body)); a != b || head.Header.Get("Content-Type") != "application/json" {
			t.Errorf("HEAD %s: length %s, type %q; GET has %s", target, a, head.Header.Get("Content-Type"), b)
		}
	}
	for _, target := range []string{"/openapi.json", "/openapi.yaml"} {
		r := p.Get(target)
		if got := r.Header.Get("Cache-Control"); got != "public, max-age=3600" {
			t.Errorf("%s: Cache-Control = %q, want public, max-age=3600", target, got)
		}
		for _, method := range []string{"GET", "HEAD"} {
			p.Do(method, target, "", "If-None-Match: "+r.Header.Get("ETag")).WantStatus(304)
		}
	}
	if got := p.Post(chatPath, p.ChatRequest("")).Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("an answer may be kept: %q", got)
	}
}

// TestStrictKeepsPaths checks that strict affects only members and values of requests, not paths.
func TestStrictKeepsPaths(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Top: "strict: true"})
	for _, target := range []string{"/", "/health", "/openapi.json", "/v1/models", "/v1/models/sim"} {
		p.Do("GET", target, "", "Authorization: ").WantStatus(200)
	}
	p.Do("HEAD", "/", "", "Authorization: ").WantStatus(204)
	p.Post("/v1/completions", `{"model":"sim","prompt":"Hi"}`).WantStatus(200)
}

// TestCatalogAsksTheEngines checks that, if no context length is configured, the edge uses the
// smallest context length reported by the engines.
func TestCatalogAsksTheEngines(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: []sim.Options{{MaxModelLen: 4096}, {MaxModelLen: 2048}}, Top: "strict: true"})
	rig.WaitFor(t, rig.WaitTimeout, "the context of both engines is known", func() bool { return p.entry("sim")["context_length"] == 2048.0 })
	e := p.Post(chatPath, p.ChatRequest(`"max_tokens":3000`)).WantError(400, "invalid_request_error", "context_length_exceeded")
	if orNull(e.Param) != "max_tokens" {
		t.Errorf("the parameter is %s", orNull(e.Param))
	}
}
