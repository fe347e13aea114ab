package tiers

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"penstock/proxy/e2e/rig"
)

// TestRetirement checks that every answer from a retiring model, the catalog and the pages show the
// model's dates. The model must still be served after these dates. If another model answers
// instead, the answer must contain only the requested model's dates.
func TestRetirement(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, rig.Setup{
		Config: `timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams:
  - { name: a, url: "{{up-0}}", engine: sim, probe: { timeout: 15s } }
  - { name: gone, url: "http://127.0.0.1:1", engine: sim, probe: { timeout: 15s, fall: 1 } }
models:
  - { id: sim, deployments: [{ upstream: a }] }
  - { id: old, aliases: ["old-*"], deprecated: 2020-02-01, sunset: 2020-03-01T12:00:00+02:00, deployments: [{ upstream: a, served: sim }] }
  - { id: leaves, deprecated: 2999-01-01, deployments: [{ upstream: gone }], fallback: [sim] }
  - { id: away, sunset: 2999-01-01, deployments: [{ upstream: gone }] }
  - { id: stays, deployments: [{ upstream: gone }], fallback: [old] }
`, Cold: true,
	})
	rig.WaitFor(t, rig.WaitTimeout, "one engine is up and one is down", func() bool {
		return p.Upstream("a").State == "up" && p.Upstream("gone").State == "down"
	})
	dates := func(r *rig.Reply) string {
		return strings.Join(append(r.Header["Deprecation"], r.Header["Sunset"]...), " ")
	}
	const old, leaves, away = "@1580515200 Sun, 01 Mar 2020 10:00:00 GMT", "@32472144000", "Tue, 01 Jan 2999 00:00:00 GMT"
	for path, body := range prompts {
		ask := func(model, more string) *rig.Reply {
			return p.Post(path, strings.Replace(fmt.Sprintf(body, more), `"model":"sim"`, `"model":"`+model+`"`, 1))
		}
		for model, want := range map[string]string{"sim": "", "old": old, "old-2": old, "leaves": leaves, "away": away, "stays": "", "nothing": ""} {
			// The edge itself counts these tokens.
			if strings.HasSuffix(path, "count_tokens") && (model == "leaves" || model == "stays" || model == "away") {
				continue
			}
			for _, more := range []string{"", `,"stream":true`} {
				r := ask(model, more)
				if got := dates(r); got != want {
					t.Errorf("%s %s%s (%d): the dates are %q, want %q", path, model, more, r.Status, got, want)
				}
				if r.WantConforming("POST", path); (r.Status == 200) == (model == "nothing" || model == "away") {
					t.Errorf("%s %s%s: %d", path, model, more, r.Status)
				}
			}
		}
	}
	for name, want := range map[string][2]float64{"sim": {}, "old": {1580515200, 1583056800}, "leaves": {32472144000}} {
		var entry struct {
			Info struct{ Deprecated, Sunset float64 } `json:"model_info"`
		}
		r := p.Get("/v1/models/"+name).WantStatus(200).WantConforming("GET", "/v1/models/"+name)
		if err := json.Unmarshal([]byte(r.Body), &entry); err != nil || entry.Info.Deprecated != want[0] || entry.Info.Sunset != want[1] {
			t.Errorf("the catalog says of %s %+v, %v, want %v", name, entry.Info, err, want)
		}
		if strings.Contains(r.Body, "deprecated") != (want[0] != 0) || strings.Contains(r.Body, "sunset") != (want[1] != 0) ||
			strings.Contains(r.Body, "model_info") != (want[0] != 0) || strings.Contains(r.Body, "supported_reasoning_efforts") {
			t.Errorf("the catalog has empty dates: %s", r.Body)
		}
	}
	page := p.Fetch("GET", p.Admin+"/", "Accept: text/html").Body
	for _, text := range []string{"deprecated as of 2020-02-01, meant to be served until 2020-03-01", "deprecated as of 2999-01-01<"} {
		if strings.Count(page, text) != 1 {
			t.Errorf("the page does not say %q once", text)
		}
	}
	if state := p.Fetch("GET", p.Admin+"/status").Body; !strings.Contains(state, `"deprecated": "2999-01-01T00:00:00Z"`) || strings.Count(state, `"deprecated"`) != 2 {
		t.Errorf("the state page has other dates: %s", state)
	}
}
