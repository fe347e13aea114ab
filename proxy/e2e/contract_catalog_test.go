package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/auth"
)

// The live catalog: capacity, readiness, what a key sees, and caching.

// room is the contract's capacity object.
type room struct {
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

// room reads the capacity of the model "sim".
func (p *penstock) room() (c room, ready bool) {
	p.t.Helper()
	r := p.get("/v1/models/sim").wantStatus(200)
	var m struct {
		Capacity room
		IsReady  bool `json:"is_ready"`
	}
	if err := json.Unmarshal([]byte(r.body), &m); err != nil {
		p.t.Fatal(err)
	}
	return m.Capacity, m.IsReady
}

// occupy opens n streams that go on until the test lets them go.
func (p *penstock) occupy(n int, body func(more string) string) []*stream {
	p.t.Helper()
	out := make([]*stream, n)
	for i := range out {
		out[i] = p.openStream(chatPath, body(`"stream":true,"sim":{"tokens":100000,"delay_ms":50}`))
		if _, ok := out[i].next(); !ok {
			p.t.Fatal("the stream has no event")
		}
	}
	return out
}

func TestCatalogCapacity(t *testing.T) {
	t.Parallel()
	p := start(t, setup{upstream: "concurrency: { text: 4, vision: 2 }"})
	free := slots{4, 4, 0, 0}
	want := func(all, text, vision slots) {
		t.Helper()
		got, _ := p.room()
		if got.slots != all || got.Modalities["text"] != text || got.Modalities["vision"] != vision || len(got.Modalities) != 2 {
			t.Errorf("capacity %+v, want %+v, text %+v, vision %+v", got, all, text, vision)
		}
	}
	want(slots{6, 6, 0, 0}, free, slots{2, 2, 0, 0})
	texts := p.occupy(3, p.chat)
	want(slots{3, 6, 3, 50}, slots{1, 4, 3, 75}, slots{2, 2, 0, 0})
	images := p.occupy(2, func(more string) string { return visionBody(picture("png"), more) })
	text, full := slots{1, 4, 3, 75}, slots{0, 2, 2, 100}
	got, _ := p.room()
	if got.Active != 5 || got.Available != 1 || got.Modalities["text"] != text || got.Modalities["vision"] != full {
		t.Errorf("capacity %+v", got)
	}
	if n := int(p.metric("penstock_upstream_inflight")); n != 5 {
		t.Errorf("the metrics tell of %d in flight, the catalog of 5", n)
	}
	// The list is rendered once a second, so it may lag by that, and no more.
	waitFor(t, patience, "the list shows 5 active requests", func() bool {
		return strings.Contains(p.get("/v1/models").body, `"active_requests":5`)
	})
	for _, s := range append(texts, images...) {
		s.leave()
	}
	p.rest()
	want(slots{6, 6, 0, 0}, free, slots{2, 2, 0, 0})
}

// TestCatalogSharedPool: one number is one pool for everything; there is nothing to split.
func TestCatalogSharedPool(t *testing.T) {
	t.Parallel()
	p := start(t, setup{upstream: "concurrency: 4", models: "- { id: twin, deployments: [{ upstream: up-0, served: sim }] }"})
	held := append(p.occupy(1, p.chat), p.occupy(1, func(more string) string { return visionBody(picture("png"), more) })...)
	if got, _ := p.room(); (got.slots != slots{2, 4, 2, 50}) || got.Modalities != nil {
		t.Errorf("capacity %+v", got)
	}
	if twin := p.entry("twin")["capacity"].(map[string]any); twin["active_requests"] != 2.0 {
		t.Errorf("a model on the same engine publishes %v", twin)
	}
	for _, s := range held {
		s.leave()
	}
}

func TestCatalogVisionFull(t *testing.T) {
	t.Parallel()
	p := start(t, setup{upstream: "concurrency: { text: 4, vision: 2 }", model: "vision: { retry_after_seconds: 7 }"})
	see := func(more string) string { return visionBody(picture("png"), more) }
	held := p.occupy(2, see)
	r := p.post(chatPath, see(""))
	e := r.wantError(429, "rate_limit_error", "capacity_full")
	var got map[string]any
	if err := json.Unmarshal(e.Metadata, &got); err != nil {
		t.Fatalf("metadata %s: %v", e.Metadata, err)
	}
	want := map[string]any{"retry_after": 7.0, "modality": "vision", "state": "saturated", "active_requests": 2.0, "total_concurrency": 2.0, "available_concurrency": 0.0}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("metadata %v, want %v", got, want)
	}
	if r.header.Get("Retry-After") != "7" {
		t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
	}
	for _, word := range []string{"2 active of 2", "7 seconds"} {
		if !strings.Contains(e.Message, word) {
			t.Errorf("the message does not say %q: %s", word, e.Message)
		}
	}
	p.post(chatPath, p.chat("")).wantStatus(200) // text has slots of its own

	texts := p.occupy(4, p.chat)
	full := p.post(chatPath, p.chat(""))
	if e := full.wantError(429, "rate_limit_error", "capacity_full"); e.Metadata != nil || !strings.Contains(e.Message, "Retry after") {
		t.Errorf("text is full: %s", full.body)
	}
	for _, s := range append(held, texts...) {
		s.leave()
	}
}

func TestCatalogReadiness(t *testing.T) {
	t.Parallel()
	p := start(t, setup{upstream: "probe: { interval: 100ms, fall: 1, rise: 1 }"})
	if c, ready := p.room(); !ready || c.Total == 0 {
		t.Fatalf("not ready: %+v", c)
	}
	p.engines[0].SetHealthy(false)
	waitFor(t, patience, "not ready any more", func() bool { _, ready := p.room(); return !ready })
	if c, _ := p.room(); c.slots != (slots{}) {
		t.Errorf("a model without an engine has capacity %+v", c)
	}
	waitFor(t, patience, "the list says so too", func() bool { return strings.Contains(p.get("/v1/models").body, `"is_ready":false`) })
	p.get("/health").wantStatus(200) // the host is well all the same
	p.post(chatPath, p.chat("")).wantError(503, "api_error", "no_healthy_route")
	p.engines[0].SetHealthy(true)
	waitFor(t, patience, "ready again", func() bool { _, ready := p.room(); return ready })
	p.post(chatPath, p.chat("")).wantStatus(200)
}

func TestCatalogByKey(t *testing.T) {
	t.Parallel()
	narrow, narrowHash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, setup{
		keys: `- { id: narrow, hash: "` + narrowHash + `", models: ["vendor/*"] }`,
		models: `- { id: vendor/family/model, deployments: [{ upstream: up-0, served: sim }] }
- { id: "späte+1", deployments: [{ upstream: up-0, served: sim }] }
`,
	})
	for name, c := range map[string]struct {
		header []string
		ids    []string
	}{
		"no key":        {nil, []string{"sim", "vendor/family/model", "späte+1"}},
		"a wide key":    {[]string{"Authorization: Bearer " + p.key}, []string{"sim", "vendor/family/model", "späte+1"}},
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
			{"Authorization: Bearer wrong"}, {"x-api-key: wrong"}, {"Authorization: Basic eDp5"}, {"Authorization: Bearer " + narrow, "x-api-key: " + p.key},
		} {
			r := p.get(target, h...)
			r.wantStatus(401)
			if e := r.errorRecord(); e.Type != "authentication_error" {
				t.Errorf("%v: %s", h, r.body)
			}
			p.do("HEAD", target, "", append([]string{"Authorization: "}, h...)...).wantStatus(401)
		}
	}
	// A model that the key may not use does not exist for it, and is told like one that does not exist for anybody.
	hidden := p.get("/v1/models/sim", "x-api-key: "+narrow)
	hidden.wantError(404, "not_found_error", "model_not_found")
	for _, target := range []string{"/v1/models/nobody", "/v1/models/%zz", "/v1/models/sim/"} {
		r := p.dialGet(target)
		if r.wantError(404, "not_found_error", "model_not_found"); r.body != hidden.body {
			t.Errorf("%s: %s, and of the hidden one: %s", target, r.body, hidden.body)
		}
	}
	for _, target := range []string{
		"/v1/models/vendor/family/model", "/v1/models/vendor%2Ffamily%2Fmodel", "/v1/models/vendor%2ffamily/model", "/v1/models/%76endor/family/model", "/v1/models/sp%C3%A4te%2B1", "/v1/models/sp%C3%A4te+1",
	} {
		if r := p.dialGet(target).wantStatus(200).conforms("GET", target); !strings.Contains(r.body, `"id":"vendor/family/model"`) && !strings.Contains(r.body, `"id":"späte+1"`) {
			t.Errorf("%s: %s", target, r.body)
		}
	}
}

// dialGet sends a target as it stands: client libraries tidy it up.
func (p *penstock) dialGet(target string) *reply {
	p.t.Helper()
	c := p.dial()
	_ = c.sendf("GET %s HTTP/1.1\r\nHost: edge\r\nConnection: close\r\n\r\n", target)
	return c.reply("GET")
}

func TestCatalogCaching(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	key := "x-api-key: " + p.key
	for _, target := range []string{"/v1/models", "/v1/models/sim"} {
		open, own := p.get(target), p.get(target, key)
		if got := open.header.Get("Cache-Control") + open.header.Get("Vary"); got != "public, max-age=15" {
			t.Errorf("%s without a key: %q", target, got)
		}
		if got := own.header.Get("Cache-Control") + ", " + own.header.Get("Vary"); got != "private, max-age=15, Authorization, x-api-key" {
			t.Errorf("%s with a key: %q", target, got)
		}
		for _, match := range []string{"%s", "W/%s", `"x", %s`, "*"} {
			if strings.Contains(match, "%s") {
				match = fmt.Sprintf(match, strings.TrimPrefix(open.header.Get("ETag"), "W/"))
			}
			if r := p.get(target, "If-None-Match: "+match); r.status != 304 {
				t.Errorf("%s: If-None-Match %s is answered with %d", target, match, r.status)
			}
		}
		// A page with a newer updated_at has the same tag, as long as nothing else has changed.
		waitFor(t, patience, "a page of another second", func() bool { return p.get(target).body != open.body })
		if r := p.get(target, "If-None-Match: "+open.header.Get("ETag")); r.status != 304 {
			t.Errorf("%s: the tag does not outlive its second: %d", target, r.status)
		}
		p.get(target, `If-None-Match: "other"`).wantStatus(200)
		whole := p.get(target)
		head := p.do("HEAD", target, "", "Authorization: ").wantStatus(200)
		if a, b := head.header.Get("Content-Length"), fmt.Sprint(len(whole.body)); a != b || head.header.Get("Content-Type") != "application/json" {
			t.Errorf("HEAD %s: length %s, type %q; GET has %s", target, a, head.header.Get("Content-Type"), b)
		}
	}
	for _, target := range []string{"/openapi.json", "/openapi.yaml"} {
		r := p.get(target)
		if got := r.header.Get("Cache-Control"); got != "public, max-age=3600" {
			t.Errorf("%s: %q", target, got)
		}
		for _, method := range []string{"GET", "HEAD"} {
			p.do(method, target, "", "If-None-Match: "+r.header.Get("ETag")).wantStatus(304)
		}
	}
	if got := p.post(chatPath, p.chat("")).header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("an answer may be kept: %q", got)
	}
}

// TestCatalogAsksTheEngines: where the configuration is silent, the engines say how long a context may be, and it is the
// smallest of them that counts.
func TestCatalogAsksTheEngines(t *testing.T) {
	t.Parallel()
	p := start(t, setup{engines: []sim.Options{{MaxModelLen: 4096}, {MaxModelLen: 2048}}})
	waitFor(t, patience, "the context of both engines is known", func() bool { return p.entry("sim")["context_length"] == 2048.0 })
	e := p.post(chatPath, p.chat(`"max_tokens":3000`)).wantError(400, "invalid_request_error", "context_length_exceeded")
	if show(e.Param) != "max_tokens" {
		t.Errorf("the parameter is %s", show(e.Param))
	}
}
