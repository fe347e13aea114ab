package e2e

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/config"
	"penstock/proxy/e2e/rig"
)

// TestDeployBenchmark runs the edge with the configuration that is submitted to a public benchmark.
// The configuration must be valid. The edge must answer in the dialects, for the model and with the
// key in the benchmark definition. Each setting must have a reason.
func TestDeployBenchmark(t *testing.T) {
	t.Parallel()
	var entry struct {
		Auth, Model, Path string
		Port              int
		Matrix            []string
	}
	if err := json.Unmarshal([]byte(deployFile(t, "benchmark/penstock/definition.json")), &entry); err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("{GW_PORT}", "8080", "{MOCK_PORT}", "8081").Replace(deployFile(t, "benchmark/penstock/config.gen.yaml.tmpl"))
	if _, err := config.Parse("config.gen.yaml", []byte(text)); err != nil || entry.Port != 8080 || entry.Path != chatPath {
		t.Fatalf("%v, %+v", err, entry)
	}
	why := deployFile(t, "benchmark/penstock/why")
	for _, name := range regexp.MustCompile(`(\w+): `).FindAllStringSubmatch(text, -1) {
		if !regexp.MustCompile(`(?m)^` + name[1] + ` +(boot|upstream|ingress|bind)\b`).MatchString(why) {
			t.Errorf("no reason for %s", name[1])
		}
	}
	// removes the setting of the listener, because the rig sets a different one
	_, text, _ = strings.Cut(text, "\n")
	p := start(t, rig.Setup{
		Engines: []sim.Options{{Profile: "openai", Models: []string{entry.Model}}},
		Config:  strings.Replace(text, `"http://127.0.0.1:8081"`, `"{{up-0}}"`, 1) + "timeouts: { linger: 0s, connect: 10s }\n",
	})
	for i, w := range []rig.RequestType{rig.Chat, rig.Responses, rig.Messages} {
		r := p.Post(w.Path, w.RequestBody(entry.Model, "Hello", ""), "Authorization: Bearer "+entry.Auth)
		if want := entry.Matrix[i] == "100000"; (r.Status == 200) != want || !want {
			t.Errorf("%s: %d %s", w.Path, r.Status, r.Body)
		}
	}
}
