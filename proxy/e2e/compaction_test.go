package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

const (
	compactPath = "/v1/responses/compact"
	sealKeyA    = "a-key-that-seals-with-forty-characters-a"
	sealKeyB    = "a-key-that-seals-with-forty-characters-b"
)

// withSeal returns a setup with two models and keys for sealing compactions.
func withSeal(keys, more string) rig.Setup {
	return rig.Setup{
		Engines: recordingEngine(), Top: "seal: { keys: [" + keys + "] }", Keys: more,
		Models: "- { id: second, deployments: [{ upstream: up-0, served: sim }] }",
	}
}

func compacted(t *testing.T, response string) string {
	t.Helper()
	var r struct {
		Output []struct {
			Type    string
			Content string `json:"encrypted_content"`
		}
	}
	if err := json.Unmarshal([]byte(response), &r); err != nil || len(r.Output) != 1 || r.Output[0].Type != "compaction" || r.Output[0].Content == "" {
		t.Fatalf("%v: no compaction: %s", err, response)
	}
	return r.Output[0].Content
}

func continuationBody(model, blob string) string {
	return `{"model":"` + model + `","input":[{"role":"user","content":"Kept"},{"type":"compaction","encrypted_content":"` + blob + `"},{"role":"user","content":"Go on"}]}`
}

// TestCompaction checks that the model writes a summary, both for the compaction endpoint and
// within a response. The compaction must count as an ordinary call. The engine that receives the
// next request must receive the summary, regardless of the model.
func TestCompaction(t *testing.T) {
	t.Parallel()
	p := start(t, withSeal(sealKeyA, ""))
	const input = `"input":[{"role":"user","content":"Remember ` + rig.Canary + `"},{"role":"assistant","content":"I do"}`
	const trigger = `{"model":"sim",` + input + `,{"type":"compaction_trigger"}]`
	sdk := p.sdk()
	byEndpoint, err := sdk.Responses.Compact(context.Background(), responses.ResponseCompactParams{
		Model: "sim", Input: responses.ResponseCompactParamsInputUnion{OfString: openai.String("Remember " + rig.Canary)},
	})
	if err != nil || byEndpoint.Usage.OutputTokens < 1 {
		t.Fatalf("compaction = %+v, %v; want a usage", byEndpoint, err)
	}
	streamed := p.Post("/v1/responses", trigger+`,"stream":true}`).WantStatus(200).Body
	last := streamed[strings.LastIndex(streamed, `{"type":"response.completed"`):]
	var completed struct{ Response json.RawMessage }
	if err := json.NewDecoder(strings.NewReader(last)).Decode(&completed); err != nil {
		t.Fatalf("last event = %s, %v; want JSON", last, err)
	}
	for how, response := range map[string]string{
		"endpoint": byEndpoint.RawJSON(),
		"history":  p.Post(compactPath, `{"model":"sim","stream":true,`+input+`]}`).WantStatus(200).Body,
		"whole":    p.Post("/v1/responses", trigger+`}`).WantStatus(200).Body,
		"streamed": string(completed.Response),
	} {
		blob := compacted(t, response)
		for _, model := range []string{"sim", "second"} {
			p.Post("/v1/responses", continuationBody(model, blob)).WantStatus(200)
			if _, sent := p.lastRequest(0); !strings.Contains(sent, "This is a summary of the conversation up to here.") || strings.Contains(sent, blob[:40]) {
				t.Errorf("%s: the engine of %s was sent %s", how, model, sent)
			}
		}
	}
	calls := p.AccessLines()
	for _, c := range calls {
		if c.Dialect != "responses" || c.Attempts != 1 || c.CompletionTokens == 0 {
			t.Errorf("the log says %+v", c)
		}
	}
	count, err := sdk.Responses.InputTokens.Count(context.Background(), responses.InputTokenCountParams{
		Model: param.NewOpt("sim"), Input: responses.InputTokenCountParamsInputUnion{OfString: openai.String(strings.Repeat("word ", 400))},
	})
	if err != nil || count.InputTokens < 200 || count.InputTokens > 1600 {
		t.Errorf("count = %+v, %v; want 200 to 1600 tokens", count, err)
	}
	if body := p.Post("/v1/responses/input_tokens", `{"model":"sim","stream":true,"input":"x"}`).WantStatus(200).Body; !strings.HasPrefix(body, `{"object":"response.input_tokens","input_tokens":`) {
		t.Errorf("count = %s, want a number of input tokens", body)
	}
}

// TestFault97_CompactionThatDoesNotOpen checks that a compaction that cannot be opened causes an
// error that names the item. The edge must not omit a compaction, because a compaction replaces the
// whole conversation.
func TestFault97_CompactionThatDoesNotOpen(t *testing.T) {
	t.Parallel()
	otherKey, otherHash, _ := auth.NewKey()
	other := `- { id: other, hash: "` + otherHash + `" }`
	p := start(t, withSeal(sealKeyA, other))
	blob := compacted(t, p.Post(compactPath, `{"model":"sim","input":"x"}`).WantStatus(200).Body)
	refused := func(what, blob string, header ...string) {
		t.Helper()
		before := p.Engines[0].Stats().Requests
		e := p.Post("/v1/responses", continuationBody("sim", blob), header...).WantError(400, "invalid_request_error", "compaction_unreadable")
		if e.Param == nil || *e.Param != "input[1]" || p.Engines[0].Stats().Requests != before {
			t.Errorf("%s: error = %+v, want input[1] and no request to the engine", what, e)
		}
	}
	refused("another client's key", blob, "Authorization: Bearer "+otherKey)
	refused("a byte changed", blob[:60]+"AAAA"+blob[64:])
	refused("cut", blob[:len(blob)-4])
	refused("empty", "")
	refused("of another provider", "gAAAAABpx")
	refused("garbage", "pst1"+strings.Repeat("!", 99))
	refused("too large", "pst1"+strings.Repeat("A", 1<<19))
	p.Reload(withSeal(sealKeyB+", "+sealKeyA, other))
	p.Post("/v1/responses", continuationBody("sim", blob)).WantStatus(200)
	p.Reload(withSeal(sealKeyB, other))
	refused("rotated out", blob)
	if log := p.Log.String(); strings.Contains(log, blob[:40]) {
		t.Error("a blob is in the log")
	}
}

// TestCompaction_NotServed checks that the edge refuses compactions if it has no persistent keys,
// because the compactions could not be opened after a restart. A strict edge must also refuse them.
func TestCompaction_NotServed(t *testing.T) {
	t.Parallel()
	const body = `{"model":"sim","input":"x"}`
	const trigger = `{"model":"sim","input":[{"role":"user","content":"x"},{"type":"compaction_trigger"}]}`
	p := start(t, rig.Setup{})
	p.Post(compactPath, body).WantError(404, "not_found_error", "not_found")
	p.Post("/v1/responses", trigger).WantError(400, "invalid_request_error", "unsupported_parameter")
	p.Post("/v1/responses", continuationBody("sim", "pst1x")).WantError(400, "invalid_request_error", "compaction_unreadable")

	narrow, hash, _ := auth.NewKey()
	with := withSeal(sealKeyA, `- { id: narrow, hash: "`+hash+`", operations: [responses] }`)
	p.Reload(with)
	p.Post(compactPath, body, "Authorization: Bearer "+narrow).WantError(403, "permission_error", "operation_not_allowed")
	with.Top += "\nstrict: true"
	p.Reload(with)
	for _, path := range []string{compactPath, "/v1/responses/input_tokens"} {
		p.Post(path, body).WantError(404, "not_found_error", "not_found")
	}
}
