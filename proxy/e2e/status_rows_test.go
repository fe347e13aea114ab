package e2e

import (
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// TestStatusRows checks that the state page shows the requested number of rows in each list, and
// the total number of rows.
func TestStatusRows(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: []sim.Options{{}, {}, {}}})
	get := func(path string) *rig.Reply {
		return p.Fetch("GET", p.Admin+path, "Authorization: Bearer "+rig.AdminToken)
	}
	for path, want := range map[string]string{
		"/status?limit=2":          `"upstreams":{"total":3,"offset":0,"rows":2}`,
		"/status?limit=2&offset=2": `"upstreams":{"total":3,"offset":2,"rows":1}`,
		"/?limit=1&offset=1":       "rows 2 to 2 of 3, those in trouble first",
	} {
		body := strings.NewReplacer("\n", "", " ", "").Replace(get(path).WantStatus(200).Body)
		if !strings.Contains(body, strings.ReplaceAll(want, " ", "")) {
			t.Errorf("%s lacks %s", path, want)
		}
	}
	if body := get("/status").WantStatus(200).Body; strings.Contains(body, "excerpts") {
		t.Error("the whole state says that it is a part")
	}
	for _, path := range []string{"/status?limit=0", "/status?limit=x", "/?offset=-1", "/status/events?limit=1.5"} {
		if body := get(path).WantStatus(400).Body; !strings.Contains(body, "limit=N") {
			t.Errorf("%s: answer = %s, want limit=N", path, body)
		}
	}
}
