package tiers

import (
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// hostedConfig is a configuration with an in-house engine and a hosted engine.
const hostedConfig = `keys:
  - { id: tester, hash: "{{hash}}", tiers: [0] }
upstreams:
  - { name: house, url: "{{up-0}}", engine: openai, concurrency: 16 }
  - { name: out, url: "{{up-1}}", engine: openai, external: true, concurrency: 16 }
models:
  - { id: house, deployments: [{ upstream: house, served: sim }] }
  - { id: out, deployments: [{ upstream: out, served: sim }] }
  - { id: dear, deployments: [{ upstream: out, served: sim }], allow_members: [service_tier] }
`

// dialectBodies contains request bodies without their first members, which each test adds.
var dialectBodies = map[string]string{
	"/v1/chat/completions": `"messages":[{"role":"user","content":"a"}],"max_tokens":2}`,
	"/v1/completions":      `"prompt":"a","max_tokens":2}`,
	"/v1/messages":         `"messages":[{"role":"user","content":"a"}],"max_tokens":2}`,
	"/v1/responses":        `"input":"a","max_output_tokens":16}`,
}

// TestHosted checks that no request member can give a client access to other models, to a more
// expensive tier, or to stored data.
func TestHosted(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, rig.Setup{Engines: []sim.Options{{Record: true}, {Record: true}}, Config: hostedConfig})
	send := func(path, model, member string) *rig.Reply {
		return p.Post(path, `{"model":"`+model+`",`+member+`,`+dialectBodies[path])
	}
	for path := range dialectBodies {
		for _, model := range []string{"house", "out"} {
			for _, member := range []string{
				`"models":["dear/model"]`, `"route":"fallback"`, `"provider":{"order":["x"]}`, `"plugins":[{"id":"web"}]`, `"transforms":[]`,
				`"preset":"p"`, `"fallbacks":["dear"]`, `"Models":["dear"]`, `"providerOptions":{}`, `"api_base":"http://x"`, `"m\u006fdels":["dear"]`,
			} {
				r := send(path, model, member)
				r.WantError(400, "invalid_request_error", "unsupported_parameter")
				if name := strings.ToLower(strings.Trim(strings.SplitN(member, ":", 2)[0], `"`)); !strings.Contains(name, `\`) &&
					!strings.Contains(strings.ToLower(r.Body), name) {
					t.Errorf("%s, %s: answer = %s, want the member's name", path, member, r.Body)
				}
			}
		}
		for _, member := range []string{`"store":false`, `"store":null`, `"service_tier":"auto"`, `"user":"u"`, `"metadata":{"a":"b"}`, `"models_of":1`} {
			send(path, "out", member).WantStatus(200)
		}
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/v1/messages"} {
		for _, member := range []string{
			`"store":true`, `"store":"true"`, `"service_tier":"priority"`, `"SERVICE_TIER":"scale"`, `"prompt_cache_retention":"24h"`,
			`"web_search_options":{}`, `"search_parameters":{"mode":"on"}`, `"speed":"fast"`, `"inference_geo":"us"`, `"store":false,"Store":true`,
		} {
			send(path, "out", member).WantError(400, "invalid_request_error", "unsupported_parameter")
			send(path, "house", member).WantStatus(200)
		}
	}
}

// TestHosted_Speech checks that speed in a speech request is passed on, because it is the speaking
// rate rather than a service tier.
func TestHosted_Speech(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, rig.Setup{Engines: []sim.Options{{}}, Config: `keys:
  - { id: tester, hash: "{{hash}}", tiers: [0] }
upstreams:
  - { name: out, url: "{{up-0}}", engine: openai, external: true, concurrency: 4 }
models:
  - { id: voice, kind: audio-speech, deployments: [{ upstream: out, served: sim }] }
`})
	p.Post("/v1/audio/speech", `{"model":"voice","input":"Hi","speed":1.5}`).WantStatus(200)
	p.Post("/v1/audio/speech", `{"model":"voice","input":"Hi","provider":"x"}`).WantStatus(400)
}

// TestHosted_Responses checks that a more expensive tier in a request is ignored and not passed on.
// It must not cause an error, because agents request it for every model.
func TestHosted_Responses(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, rig.Setup{Engines: []sim.Options{{Record: true}, {Record: true}}, Config: hostedConfig})
	for _, member := range []string{
		`"service_tier":"priority"`, `"prompt_cache_retention":"24h"`, `"web_search_options":{}`, `"service_tier":"flex"`,
	} {
		p.Post("/v1/responses", `{"model":"out",`+member+`,`+dialectBodies["/v1/responses"]).WantStatus(200)
		if sent := string(p.Engines[1].Stats().LastRequest.Body); strings.Contains(sent, member) {
			t.Errorf("%s: the engine was sent %s", member, sent)
		}
	}

	const dear = `"service_tier":"priority"`
	p.Post(chatPath, `{"model":"dear",`+dear+`,`+dialectBodies[chatPath]).WantStatus(200)
	if sent := string(p.Engines[1].Stats().LastRequest.Body); !strings.Contains(sent, dear) {
		t.Errorf("the operator lets it through, and the engine was sent %s", sent)
	}
}
