package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestEdgeShare checks that the sum of the parts exceeds the number only if a part would otherwise
// be less than one.
func TestEdgeShare(t *testing.T) {
	for _, c := range []struct{ n, edges, want int }{
		{0, 4, 0}, {600, 0, 600}, {600, 1, 600}, {600, 4, 150}, {10, 4, 2}, {4, 4, 1}, {3, 4, 1}, {-1, 4, -1},
	} {
		if got := EdgeShare(c.n, c.edges); got != c.want {
			t.Errorf("%d among %d: %d, want %d", c.n, c.edges, got, c.want)
		}
	}
}

func TestFleetChecks(t *testing.T) {
	src := func(fleet string) string {
		return fleet + `
keys: [{ id: a, hash: "sha256:` + strings.Repeat("ab", 32) + `", limits: { requests_per_minute: 2, tokens_per_minute: 4000 } }]
upstreams:
  - { name: one, url: "http://127.0.0.1:1", concurrency: 3 }
  - { name: two, url: "http://127.0.0.1:2", concurrency: { text: 8, vision: 1 } }
models: [{ id: m, deployments: [{ upstream: one }, { upstream: two }] }]
`
	}
	for fleet, want := range map[string][]string{
		"":                    nil,
		"fleet: { edges: 1 }": nil,
		"fleet: { edges: 4 }": {"fleet", "keys[0].limits.requests_per_minute", "upstreams[0].concurrency", "upstreams[1].concurrency.vision"},
		"seal: { keys: [" + strings.Repeat("s", 32) + "] }\nfleet: { edges: 2 }": {"upstreams[1].concurrency.vision"},
		"fleet: { edges: 0 }":  {"fleet.edges"},
		"fleet: { edges: -1 }": {"fleet.edges"},
	} {
		_, problems := ParseValid("edge.yaml", []byte(src(fleet)), KnownProfiles{})
		var got []string
		for _, p := range problems {
			got = append(got, p.Path)
			if p.Warning != (p.Path != "fleet.edges") {
				t.Errorf("fleet %q: got %s, want a warning unless it is at fleet.edges", fleet, p)
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%q: %q, want %q", fleet, got, want)
		}
	}
	for fleet, warned := range map[string]bool{`{ store: { url: "redis://h" } }`: true, `{ edges: 1, store: { url: "redis://h" } }`: false} {
		f, problems := ParseValid("edge.yaml", []byte(src("fleet: "+fleet)), KnownProfiles{})
		if got := strings.Contains(fmt.Sprint(problems), "fleet.edges"); got != warned {
			t.Errorf("fleet %q: got %v, want a warning about fleet.edges: %v", fleet, problems, warned)
		}
		if want := map[bool]int{true: 2, false: 1}[warned]; f.Keys[0].Edges != want || f.Upstreams[0].Edges != want {
			t.Errorf("%s: a key is divided by %d, an upstream by %d, want %d", fleet, f.Keys[0].Edges, f.Upstreams[0].Edges, want)
		}
	}
	for _, store := range []string{
		`{ url: "redis://me:sentinel-words@h" }`, `{ url: "redis://:sentinel-words@h:99999" }`, `{ url: "redis://h?password=sentinel-words" }`,
		`{ url: "http://h" }`, `{ url: "redis://h/5" }`, `{ url: "redis://" }`, `{ user: u }`, `{ cluster: true }`,
		`{ url: "redis://h", tls: { insecure: true } }`, `{ url: "redis://h", timeout: 2s }`, `{ url: "redis://h", prefix: "a{b" }`,
		`{ url: "redis://h", sentinel: { master: m } }`, `{ url: "redis://h", cluster: true, sentinel: { master: m, addresses: ["h:1"] } }`,
	} {
		_, problems := ParseValid("edge.yaml", []byte(src("fleet: { store: "+store+" }")), KnownProfiles{})
		if problems.Err() == nil || strings.Contains(problems.Err().Error(), "sentinel-words") || !strings.Contains(problems.Err().Error(), "fleet.store") {
			t.Errorf("store %q: got %s, want an error at fleet.store without the password", store, problems)
		}
	}
	if _, problems := ParseValid("edge.yaml", []byte(src(`fleet: { edges: 4, store: { url: "rediss://h:1", user: u, password: p } }`)), KnownProfiles{}); problems.Err() != nil {
		t.Errorf("ParseValid = %s, want no error", problems)
	}
	sentinel := `sentinel: { master: m, addresses: ["h:1"] }`
	for store, want := range map[string]struct{ warned, encrypted bool }{
		sentinel: {}, sentinel + `, user: u, password: p`: {}, sentinel + `, tls: { insecure: true }`: {encrypted: true},
		sentinel + `, url: "redis://h"`: {warned: true}, sentinel + `, url: "rediss://h"`: {encrypted: true},
	} {
		f, problems := ParseValid("edge.yaml", []byte(src("fleet: { edges: 4, store: { "+store+" } }")), KnownProfiles{})
		if f == nil || !f.Fleet.HasStore() {
			t.Errorf("%s: there is no store, %v", store, problems)
		} else if warned := strings.Contains(fmt.Sprint(problems), "fleet.store.url"); warned != want.warned || f.Fleet.Store.UsesTLS() != want.encrypted {
			t.Errorf("store %q: encrypted = %v, want %v; problems %v, want a warning: %v", store, f.Fleet.Store.UsesTLS(), want.encrypted, problems, want.warned)
		}
	}
	f, err := Parse("edge.yaml", []byte(src("fleet: { edges: 4 }")))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Keys[0].EdgeLimits(); got != (KeyLimits{RequestsPerMinute: 1, TokensPerMinute: 1000}) || f.Upstreams[1].Edges != 4 {
		t.Errorf("the shares are %+v and %d edges, want 1 request, 1000 tokens and 4 edges", got, f.Upstreams[1].Edges)
	}
}

// TestStoreKeys checks the settings that are required to store keys in the store, and a single
// entry.
func TestStoreKeys(t *testing.T) {
	secret := strings.Repeat("s", 32)
	for keys, want := range map[string]string{
		"{ secrets: [" + secret + "] }":                             "",
		"{ secrets: [" + secret + "], store: cached, cache: copy }": "",
		"{ secrets: [short] }":                                      "fleet.keys.secrets",
		"{ secrets: [" + secret + "], store: cached }":              "fleet.keys.cache",
		"{ secrets: [" + secret + "], cache: copy }":                "fleet.keys.cache",
		"{ secrets: [" + secret + "], store: other }":               "fleet.keys.store",
		"{ store: cached, cache: copy }":                            "fleet.keys.secrets",
		"{ secrets: [" + secret + "] } }\n#":                        "fleet.keys", // fleet.keys without a store
	} {
		store := "store: { url: \"redis://h\" }, "
		if want == "fleet.keys" {
			store = ""
		}
		_, problems := ParseValid("edge.yaml", []byte("fleet: { "+store+"keys: "+keys+" }\n"+
			"upstreams: [{ name: u, url: \"http://127.0.0.1:1\" }]\nmodels: [{ id: m, deployments: [{ upstream: u }] }]\n"), KnownProfiles{})
		if err := problems.Err(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("store keys %q: got the error %v, want %q", keys, err, want)
		}
	}
	hash := "sha256:" + strings.Repeat("ab", 32)
	k, err := ParseKeyEntry(`{"id":"a","hash":"` + hash + `","models":["m*"],"limits":{"concurrency":3}}`)
	if err != nil || k.ID != "a" || k.Limits.Concurrency != 3 || len(k.Operations) == 0 || k.Hash[0].Hash != hash {
		t.Errorf("ParseKeyEntry = %+v, %v, want the key a with 3 calls and its hash", k, err)
	}
	for _, entry := range []string{
		``, `{}`, `[]`, `{"id":"a"}`, `{"id":"a","hash":"sentinel-words"}`, `{"id":"a","hash":"` + hash + `","limit":{}}`,
		`{"id":"a","hash":"` + hash + `"}` + "\n- { id: b }", `{"id":"${HOME}","hash":"` + hash + `"}`,
		`{"id":"\u0024{HOME}","hash":"` + hash + `"}`, `{"id":"\x24{HOME}","hash":"` + hash + `"}`,
	} {
		if k, err := ParseKeyEntry(entry); err == nil || strings.Contains(err.Error(), "sentinel-words") {
			t.Errorf("ParseKeyEntry(%q) = %+v, %v, want an error without the entry's words", entry, k, err)
		}
	}
}

// TestFleetSecrets checks that edges sign their messages with fleet.secrets or, if that is not set,
// with fleet.keys.secrets. A store without any secrets causes a warning.
func TestFleetSecrets(t *testing.T) {
	secret := strings.Repeat("s", 32)
	for fleet, want := range map[string]struct {
		text  string // text of the problem, or empty
		signs int
	}{
		`{ edges: 2, store: { url: "redis://h" }, secrets: [` + secret + `, ` + secret + `2] }`:                     {"", 2},
		`{ edges: 2, store: { url: "redis://h" }, keys: { secrets: [` + secret + `] } }`:                            {"", 1},
		`{ edges: 2, store: { url: "redis://h" }, keys: { secrets: [` + secret + `] }, secrets: [` + secret + `] }`: {"", 1},
		`{ edges: 2, store: { url: "redis://h" } }`:                                                                 {"without fleet.secrets", 0},
		`{ edges: 2, store: { url: "redis://h" }, secrets: [short] }`:                                               {"shorter than", 1},
		`{ edges: 2, secrets: [` + secret + `] }`:                                                                   {"set fleet.store.url", 1},
	} {
		f, problems := ParseValid("edge.yaml", []byte("seal: { keys: ["+secret+"] }\nfleet: "+fleet+"\n"+
			"upstreams: [{ name: u, url: \"http://127.0.0.1:1\" }]\nmodels: [{ id: m, deployments: [{ upstream: u }] }]\n"), KnownProfiles{})
		if text := fmt.Sprint(problems); (want.text == "") == strings.Contains(text, "secret") || !strings.Contains(text, want.text) {
			t.Errorf("fleet %q: got the problems %q, want %q", fleet, text, want.text)
		}
		if f != nil && len(f.Fleet.SigningSecrets()) != want.signs {
			t.Errorf("fleet %q: got %d signing secrets, want %d", fleet, len(f.Fleet.SigningSecrets()), want.signs)
		}
	}
}

// TestSelector checks that the accepted selectors are exactly the label selectors of Kubernetes.
func TestSelector(t *testing.T) {
	for _, good := range []string{
		"app=vllm", "app==vllm,tier!=test", "app", "!canary", "app in (a, b),tier notin (test)", "llm.example.com/pool=a_b.c",
		"empty=", "app = vllm , gen > 5",
	} {
		if !selectorPattern.MatchString(good) {
			t.Errorf("%q is refused", good)
		}
	}
	for _, bad := range []string{"a b", "app in (b", "app in", "=vllm", "app=,,b", "app=a=b", "app=-a", "App/x/y", "app=\"x\"", ",app", "app=" + strings.Repeat("a", 64)} {
		if selectorPattern.MatchString(bad) {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestDiscovery checks the descriptions of the four ways to find engines.
func TestDiscovery(t *testing.T) {
	for want, u := range map[string]Upstream{
		"": {URL: "http://10.0.0.1"},
		"the addresses of http://vllm:8000, looked up every 30s":             {URL: "http://vllm:8000", Resolve: Resolve{Every: defaultSRVInterval}},
		"the SRV records of _http._tcp.vllm, looked up every 30s":            {Resolve: Resolve{Every: defaultSRVInterval, SRV: "_http._tcp.vllm"}},
		"the pods with app=vllm in the edge's own namespace":                 {Kubernetes: Kubernetes{Selector: "app=vllm"}},
		"the pods of InferencePool llama in namespace ml, ports [8000 8001]": {Kubernetes: Kubernetes{Pool: "llama", Namespace: "ml", Ports: []int{8000, 8001}}},
	} {
		if got := u.DescribeDiscovery(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestSealOfAFleet checks that all edges of a fleet must have the same seal keys, even if the
// number of edges is unknown.
func TestSealOfAFleet(t *testing.T) {
	for fleet, want := range map[string]bool{
		`{ edges: 2 }`: true, `{ store: { url: "redis://10.0.0.5:6379" } }`: true,
		`{ store: { url: "redis://10.0.0.5:6379" }, edges: 1 }`: false, `{ edges: 1 }`: false,
	} {
		_, problems := ParseValid("edge.yaml", []byte("fleet: "+fleet+`
auth: none
upstreams: [{ name: gpu-a, url: "http://10.0.0.11:8000" }]
models: [{ id: llama, deployments: [{ upstream: gpu-a }] }]
`), KnownProfiles{})
		if got := strings.Contains(problems.Error(), "without seal.keys"); got != want {
			t.Errorf("%s: warned %t, want %t\n%s", fleet, got, want, problems)
		}
	}
}
