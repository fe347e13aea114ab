package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"penstock/proxy/e2e/rig"
)

// This file contains the contract's rules about the service, its models, its limits, credentials
// and errors.

// checkModelMember returns a check for one member of the full model. want is JSON.
func checkModelMember(member, want string) func(*testing.T, *penstock) {
	return func(t *testing.T, p *penstock) {
		got, err := json.Marshal(p.entry("sim")[member])
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is %s, want %s", member, got, want)
		}
	}
}

var serviceRules = []rule{
	{line: "What the service does 1, JSON over HTTP, an upload, binary audio", good: []string{`"user":"u"`}, tests: []string{"proxy/e2e.TestTranscriptions", "proxy/e2e.TestSpeech"}},
	{line: "What the service does 2, surfaces", check: func(t *testing.T, p *penstock) {
		for _, path := range []string{chatPath, "/v1/responses", "/v1/messages"} {
			if r := p.Do("POST", path, "{"); r.Status != 400 {
				t.Errorf("POST %s {: status %d", path, r.Status)
			}
		}
		p.Get("/v1/models").WantStatus(200)
		p.Get("/health").WantStatus(200)
		p.Do("HEAD", "/", "", "Authorization: ").WantStatus(204)
	}, tests: []string{"proxy/e2e/faults.TestFault64_ImageURLs"}},
	{line: "What the service does 3, capabilities are published", check: checkModelMember("supported_features", `["tools","structured_outputs","reasoning"]`)},
	{line: "What the service does 4, kinds", check: func(t *testing.T, p *penstock) {
		for id, kind := range map[string]string{
			"sim": "chat", "hears": "audio-transcription", "speaks": "audio-speech", "paints": "image", "edits": "image-edit", "embeds": "embedding", "ranks": "rerank",
		} {
			if got := p.entry(id)["kind"]; got != kind {
				t.Errorf("%s is of kind %v, want %s", id, got, kind)
			}
		}
	}},
	{
		line:  "What the service does 5, vision and function tools only",
		good:  []string{rig.VisionBody(rig.PictureDataURL("png"), "")},
		bad:   []refused{{toolMembers(`{"type":"web_search"}`), "tools[0].type", false}},
		tests: []string{"translate/chat.TestCheck"},
	},
	{line: "What the service does 6, only ready models", tests: []string{"proxy/e2e.TestCatalogReadiness"}},
}

var modelRows = []rule{
	{line: "Model, id", check: checkModelMember("id", `"sim"`)},
	{line: "Model, object", check: checkModelMember("object", `"model"`)},
	{line: "Model, created", check: checkModelMember("created", `1700000000`)},
	{line: "Model, owned_by", check: checkModelMember("owned_by", `"acme"`)},
	{line: "Model, name", check: checkModelMember("name", `"Sim One"`)},
	{line: "Model, kind", check: checkModelMember("kind", `"chat"`)},
	{line: "Model, task", check: checkModelMember("task", `"chatting"`)},
	{line: "Model, supported_endpoints", check: func(t *testing.T, p *penstock) {
		for _, id := range p.list().ids() {
			for _, path := range p.entry(id)["supported_endpoints"].([]any) {
				method := "POST"
				if path == any("/v1/realtime") {
					method = "GET"
				}
				if rig.PublishedContract(t).Operation(method, path.(string)) == nil {
					t.Errorf("%s promises %v, which the document does not have", id, path)
				}
				if r := p.Do(method, path.(string), "{"); r.Status == 404 || r.Status == 405 {
					t.Errorf("%s promises %v, which is answered with %d", id, path, r.Status)
				}
			}
		}
		for _, path := range []string{chatPath, "/v1/messages", "/v1/responses"} {
			if !slices.Contains(p.entry("sim")["supported_endpoints"].([]any), any(path)) {
				t.Errorf("a chat model is not offered on %s", path)
			}
		}
	}},
	{line: "Model, input_modalities", check: checkModelMember("input_modalities", `["text","image"]`)},
	{line: "Model, output_modalities", check: checkModelMember("output_modalities", `["text"]`)},
	{line: "Model, context_length", check: checkModelMember("context_length", `32768`)},
	{line: "Model, modality_context_lengths", check: checkModelMember("modality_context_lengths", `{"image":8192}`)},
	{line: "Model, max_output_length", check: checkModelMember("max_output_length", `4096`)},
	{line: "Model, capacity_tpm", check: checkModelMember("capacity_tpm", `1000000`)},
	{line: "Model, capacity", check: func(t *testing.T, p *penstock) {
		if p.entry("sim")["capacity"] == nil {
			t.Error("no capacity")
		}
	}, tests: []string{"proxy/e2e.TestCatalogCapacity"}},
	{line: "Model, vision", check: checkModelMember("vision", `{"context_length":8192,"max_image_edge":2048,"max_pixels":1000000,"max_tokens":2048,"retry_after_seconds":7}`)},
	{line: "Model, pricing", check: checkModelMember("pricing", `{"input":"0.10"}`)},
	{line: "Model, supported_features", check: checkModelMember("supported_features", `["tools","structured_outputs","reasoning"]`)},
	{line: "Model, is_ready", check: checkModelMember("is_ready", `true`), tests: []string{"proxy/e2e.TestCatalogReadiness"}},
	{line: "Model, model_info.supported_reasoning_efforts", check: checkModelMember("model_info", `{"supported_reasoning_efforts":["none","low","medium","high","xhigh"]}`)},

	{line: "Capacity, available_concurrency", check: capacityMember("available_concurrency", "20")},
	{line: "Capacity, total_concurrency", check: capacityMember("total_concurrency", "20")},
	{line: "Capacity, active_requests", check: capacityMember("active_requests", "0")},
	{line: "Capacity, utilization_percent", check: capacityMember("utilization_percent", "0"), tests: []string{"routing.TestCapacity"}},
	{line: "Capacity, unit", check: capacityMember("unit", `"concurrent_requests"`)},
	{line: "Capacity, updated_at", check: func(t *testing.T, p *penstock) {
		asked := time.Now()
		at := time.Unix(int64(p.entry("sim")["capacity"].(map[string]any)["updated_at"].(float64)), 0)
		if at.Before(asked.Add(-2*time.Second)) || at.After(time.Now()) {
			t.Errorf("asked at %v, updated at %v", asked, at)
		}
	}},
	{line: "Capacity, modalities", check: capacityMember("modalities", `{"text":{"active_requests":0,"available_concurrency":16,"total_concurrency":16,"utilization_percent":0},`+
		`"vision":{"active_requests":0,"available_concurrency":4,"total_concurrency":4,"utilization_percent":0}}`), tests: []string{"proxy/e2e.TestCatalogSharedPool"}},

	{line: "Vision, max_image_edge", check: publishesVision("max_image_edge", "2048")},
	{line: "Vision, max_pixels", check: func(t *testing.T, p *penstock) {
		publishesVision("max_pixels", "1000000")(t, p)
		p.wantRejected(refused{rig.VisionBody(blank(1001, 1000), ""), "messages[0].content[1].image_url.url", true})
	}},
	{line: "Vision, max_tokens", check: func(t *testing.T, p *penstock) {
		publishesVision("max_tokens", "2048")(t, p)
		p.wantAccepted(rig.VisionBody(rig.PictureDataURL("png"), `"max_tokens":4000`))
	}, tests: []string{"translate/chat.TestCheck"}},
	{line: "Vision, context_length", check: publishesVision("context_length", "8192"), tests: []string{"translate/chat.TestCheck"}},
	{line: "Vision, retry_after_seconds", check: publishesVision("retry_after_seconds", "7"), tests: []string{"proxy/e2e.TestCatalogVisionFull"}},

	{line: "List of models, object", check: func(t *testing.T, p *penstock) {
		if l := p.list(); l.Object != "list" {
			t.Errorf("object is %q", l.Object)
		}
	}},
	{line: "List of models, data", check: func(t *testing.T, p *penstock) {
		if got := p.list().ids(); !slices.Equal(got, []string{"sim", "hears", "speaks", "paints", "edits", "embeds", "ranks", "other", "vendor/family/model"}) {
			t.Errorf("models %v", got)
		}
	}},
}

// capacityMember returns a check for one member of the full model's capacity object while the model
// is idle.
func capacityMember(member, want string) func(*testing.T, *penstock) {
	return func(t *testing.T, p *penstock) { wantMember(t, p.entry("sim")["capacity"], member, want) }
}

func publishesVision(member, want string) func(*testing.T, *penstock) {
	return func(t *testing.T, p *penstock) { wantMember(t, p.entry("sim")["vision"], member, want) }
}

// blank returns a data URL with an empty picture of the given size.
func blank(width, height int) string {
	var b bytes.Buffer
	_ = png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height)))
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
}

var authRules = []rule{
	{line: "Authentication 1, bearer", check: func(_ *testing.T, p *penstock) {
		p.Post(chatPath, p.ChatRequest(""), "Authorization: Bearer "+p.Key).WantStatus(200)
	}, tests: []string{"proxy/access/auth.TestExtractHeaders"}},
	{line: "Authentication 2, x-api-key", check: func(_ *testing.T, p *penstock) {
		p.Post(chatPath, p.ChatRequest(""), "Authorization: ", "x-api-key: "+p.Key).WantStatus(200)
	}},
	{line: "Authentication 3, both must be the same", check: func(_ *testing.T, p *penstock) {
		p.Post(chatPath, p.ChatRequest(""), "x-api-key: "+p.Key).WantStatus(200)
		p.Post(chatPath, p.ChatRequest(""), "x-api-key: "+p.Key+"x").WantError(401, "authentication_error", "credential_conflict")
	}, tests: []string{"proxy/e2e/faults.TestFault53_TwoCredentials"}},
	{line: "Authentication 4, public pages", check: func(t *testing.T, p *penstock) {
		for _, target := range []string{"/v1/models", "/v1/models/sim", "/health", "/openapi.json", "/openapi.yaml"} {
			p.Get(target).WantStatus(200)
		}
		p.Do("HEAD", "/", "", "Authorization: ").WantStatus(204)
	}, tests: []string{"proxy/e2e.TestCatalogByKey"}},
	{line: "Authentication 5, credentials in the query string", check: func(_ *testing.T, p *penstock) {
		p.Post(chatPath+"?api_key="+p.Key, p.ChatRequest("")).WantError(401, "authentication_error", "credential_in_query")
		p.Get("/v1/models?api_key="+p.Key).WantError(401, "authentication_error", "credential_in_query")
	}, tests: []string{"proxy/e2e/faults.TestFault54_CredentialInTheQuery", "proxy/access/auth.TestExtractQuery"}},
	{line: "Authentication 6, 401", tests: []string{"proxy/e2e/faults.TestFault52_BadCredentials", "proxy/e2e/faults.TestFault53_TwoCredentials"}},
	{line: "Authentication 7, 403", tests: []string{"proxy/e2e/faults.TestFault55_NoRightToTheModel", "proxy/e2e.TestStatuses"}},
	{line: "Authentication 8, a good key promises nothing more", tests: []string{"proxy/e2e.TestStatuses", "proxy/e2e.TestCatalogVisionFull"}},
	{line: "Authentication 9, keys stay in headers and secret storage", check: func(t *testing.T, p *penstock) {
		r := p.Post(chatPath, p.ChatRequest(""), "Origin: https://page.example").WantStatus(200)
		if got := r.Header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("pages may call without anybody having said so: %s", got)
		}
	}, tests: []string{"proxy/access/auth.TestCredentialNeverPrints"}}, // every test also checks at its end that the log contains no key
}

var errorRules = []rule{
	{line: "Error, message", check: checkErrorMember(func(e *rig.APIError) bool { return e.Message != "" })},
	{line: "Error, type", check: checkErrorMember(func(e *rig.APIError) bool { return e.Type == "invalid_request_error" })},
	{line: "Error, code", check: checkErrorMember(func(e *rig.APIError) bool { return e.Code == "invalid_value" })},
	{line: "Error, param", check: checkErrorMember(func(e *rig.APIError) bool { return e.Param != nil && *e.Param == "temperature" })},
	{line: "Error, metadata", check: checkErrorMember(func(e *rig.APIError) bool { return e.Metadata == nil }), tests: []string{"proxy/e2e.TestCatalogVisionFull"}},
	{line: "Error, metadata of a vision-capacity 429", tests: []string{"proxy/e2e.TestCatalogVisionFull", "proxy/e2e.TestVisionRefusedByEngine"}},
	{line: "Status 400", tests: []string{"proxy/e2e.TestStatuses"}},
	{line: "Status 401", tests: []string{"proxy/e2e.TestStatuses"}},
	{line: "Status 403", tests: []string{"proxy/e2e.TestStatuses"}},
	{line: "Status 404", tests: []string{"proxy/e2e.TestStatuses"}},
	{line: "Status 413", tests: []string{"proxy/e2e.TestStatuses"}},
	{line: "Status 429", tests: []string{"proxy/e2e.TestStatuses", "proxy/e2e.TestCatalogVisionFull"}},
	{line: "Status 500", tests: []string{"proxy.TestPanicIsAnInternalError"}},
	{line: "Status 502", tests: []string{"proxy/e2e.TestStatuses"}},
	{line: "Status 503", tests: []string{"proxy/e2e.TestStatuses", "proxy/e2e.TestCatalogReadiness"}},
	{line: "Status 504", tests: []string{"proxy/e2e.TestStatuses"}},
	{line: "Status 529", tests: []string{"proxy/e2e.TestStatuses"}},
	{line: "Errors, rule: Retry-After on 429, 503 and 504", tests: []string{"proxy/e2e.TestStatuses"}},
	{line: "Errors, rule: store true and previous_response_id are rejected", tests: []string{"proxy/e2e.TestResponsesContract"}},
}

// checkErrorMember returns a function that sends an invalid request and checks the error in the
// response.
func checkErrorMember(holds func(*rig.APIError) bool) func(*testing.T, *penstock) {
	return func(t *testing.T, p *penstock) {
		r := p.Post(chatPath, p.ChatRequest(`"temperature":9`)).WantStatus(400)
		if !holds(errorRecord(r)) {
			t.Errorf("the error record breaks the rule: %s", r.Body)
		}
	}
}

var limitRules = []rule{
	{line: "Limits 1, max_completion_tokens bounds reasoning too", check: func(t *testing.T, p *penstock) {
		r := p.wantAccepted(`"max_completion_tokens":6,"reasoning":{"effort":"high","max_tokens":100},"sim":{"reasoning":20}`)
		var c struct {
			Usage struct {
				Completion int `json:"completion_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(r.Body), &c); err != nil || c.Usage.Completion > 6 {
			t.Errorf("%d tokens were written, 6 allowed", c.Usage.Completion)
		}
	}, tests: []string{"translate/chat.TestAppendEngineRequest"}},
	// Also covered by the rows of the chat request.
	{line: "Limits 2, numeric ranges", tests: []string{"translate/chat.TestRequestRulesCoverContract"}},
	{line: "Limits 3, per-model limits are published", check: checkModelMember("max_output_length", "4096")},
	{line: "Limits 4, admission is by concurrency, vision apart", tests: []string{"proxy/e2e.TestCatalogVisionFull", "proxy/e2e.TestOneLedger"}},
	{line: "Limits 5, oversized bodies", tests: []string{"proxy/e2e/faults.TestFault59_BodyTooLarge", "proxy/e2e.TestStatuses"}},
	{line: "Limits 6, request rates", tests: []string{"proxy/access/limit.TestTake", "proxy/e2e.TestStatuses"}},
	{line: "Limits 7, discovery may be cached", tests: []string{"proxy/e2e.TestCatalogCaching"}},
}

// TestImagesWhereNothingIsDeclared checks that, if the model declares no modalities, the catalog
// and the edge rely on what the engines report about images.
func TestImagesWhereNothingIsDeclared(t *testing.T) {
	t.Parallel()
	modalities := func(p *penstock) string {
		var list struct {
			Data []struct {
				Input []string `json:"input_modalities"`
			}
		}
		if err := json.Unmarshal([]byte(p.Get("/v1/models").Body), &list); err != nil || len(list.Data) != 1 {
			t.Fatal(err, list)
		}
		return strings.Join(list.Data[0].Input, " ")
	}
	body := rig.VisionBody(rig.PictureDataURL("png"), "")
	p := start(t, rig.Setup{}) // an engine that reports nothing about images
	p.Post(chatPath, body).WantStatus(200)
	if got := modalities(p); got != "text image" {
		t.Errorf("images are passed on, and the catalog says %q", got)
	}
	p = start(t, rig.Setup{Model: "input_modalities: [text]"})
	p.Post(chatPath, body).WantError(400, "invalid_request_error", "unsupported_parameter")
	if got := modalities(p); got != "text" {
		t.Errorf("images are refused, and the catalog says %q", got)
	}

	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"sim"}]}`)
		case "/model_info":
			_, _ = io.WriteString(w, `{"served_model_name":"sim","has_image_understanding":false}`)
		case "/health":
		default:
			http.Error(w, "asked in spite of what it says", 500)
		}
	}))
	t.Cleanup(engine.Close)
	p = start(t, rig.Setup{Cold: true, Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: blind, url: "` + engine.URL + `", engine: sglang }]
models: [{ id: sim, deployments: [{ upstream: blind }] }]
`})
	rig.WaitFor(t, rig.WaitTimeout, "the catalog has what the engine says", func() bool { return modalities(p) == "text" })
	p.Post(chatPath, body).WantError(400, "invalid_request_error", "unsupported_parameter")
}

// TestMediaPartsReachTheEngine checks that audio reaches the engine unchanged if the model's
// input_modalities contain audio. Otherwise, or if the edge is strict, the request must be
// rejected.
func TestMediaPartsReachTheEngine(t *testing.T) {
	t.Parallel()
	const part = `{"type":"input_audio","input_audio":{"data":"aGVsbG8=","format":"wav"}}`
	body := `{"model":"sim","messages":[{"role":"user","content":[{"type":"text","text":"Listen."},` + part + `]}]}`
	p := start(t, rig.Setup{Engines: recordingEngine(), Model: "input_modalities: [text, audio]"})
	p.Post(chatPath, body).WantStatus(200)
	if got := p.Engines[0].Recorded(); !strings.Contains(string(got[len(got)-1].Body), part) {
		t.Errorf("the engine got %s", got[len(got)-1].Body)
	}
	p = start(t, rig.Setup{Model: "input_modalities: [text, image]"})
	p.Post(chatPath, body).WantError(400, "invalid_request_error", "unsupported_parameter")
	p = start(t, rig.Setup{Model: "input_modalities: [text, audio]", Top: "strict: true"})
	p.Post(chatPath, body).WantError(400, "invalid_request_error", "unsupported_parameter")
}
