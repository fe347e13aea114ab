package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestGroups checks that a deployment may select upstreams by a prefix of their names. Upstreams
// that the list names directly take precedence.
func TestGroups(t *testing.T) {
	parse := func(deployments string, more ...string) (*File, Problems) {
		text := "auth: none\nupstreams:\n"
		for _, name := range append([]string{"gpu-a", "gpu-b", "cpu", "gpu-c"}, more...) {
			text += fmt.Sprintf("  - { name: %q, url: \"http://127.0.0.1:1\" }\n", name)
		}
		return ParseValid("groups", []byte(text+"models:\n  - id: m\n    deployments:\n      - { upstream: cpu, tier: 2 }\n"+deployments), KnownProfiles{Engines: []string{EngineAuto}})
	}
	for _, c := range []struct{ name, list, want string }{
		{"one", "      - { upstream: \"gpu-*\", served: s }\n", "cpu/m/2 gpu-a/s/0 gpu-b/s/0 gpu-c/s/0"},
		{"beside one of its own", "      - { upstream: \"gpu-*\" }\n      - { upstream: gpu-b, tier: 1 }\n", "cpu/m/2 gpu-a/m/0 gpu-b/m/1 gpu-c/m/0"},
		{"two names", "      - { upstream: \"gpu-*\" }\n      - { upstream: \"gpu-*\", served: x }\n", "cpu/m/2 gpu-a/m/0 gpu-a/x/0 gpu-b/m/0 gpu-c/m/0 gpu-b/x/0 gpu-c/x/0"},
		{"overlapping", "      - { upstream: \"gpu-a*\" }\n      - { upstream: \"gpu-*\" }\n", "cpu/m/2 gpu-a/m/0 gpu-b/m/0 gpu-c/m/0"},
		{"all others", "      - { upstream: \"*\" }\n", "cpu/m/2 gpu-a/m/0 gpu-b/m/0 gpu-c/m/0"},
	} {
		f, problems := parse(c.list)
		if f == nil {
			t.Errorf("%s: the file was refused: %v", c.name, problems)
			continue
		}
		var got []string
		for _, d := range f.Models[0].Deployments {
			got = append(got, fmt.Sprintf("%s/%s/%d", d.Upstream, d.Served, d.Tier))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
	}
	if f, _ := parse("      - { upstream: \"gpu-*\" }\n", "gpu-*"); f == nil || len(f.Models[0].Deployments) != 2 {
		t.Errorf("an upstream that is called like a group: %+v", f)
	}
	tagged := func(list string) (*File, Problems) {
		return ParseValid("tags", []byte("auth: none\nupstreams:\n  - { name: a, url: \"http://127.0.0.1:1\", tags: [h100, eu] }\n  - { name: b, url: \"http://127.0.0.1:1\", tags: [eu] }\n"+
			"  - { name: c, url: \"http://127.0.0.1:1\" }\nmodels:\n  - id: m\n    deployments: ["+list+"]\n"), KnownProfiles{Engines: []string{EngineAuto}})
	}
	f, problems := tagged(`{ upstream: "tag:eu", served: s }, { upstream: c, tier: 1 }`)
	if f == nil || len(f.Models[0].Deployments) != 3 || f.Models[0].Deployments[0].Upstream != "a" || f.Models[0].Deployments[2].Upstream != "b" || f.Models[0].Deployments[2].Served != "s" {
		t.Errorf("a tag: got %+v and %v, want the deployments a, s and b", f, problems)
	} else if got := fmt.Sprint(UpstreamTags(f)); got != "[{h100 [a]} {eu [a b]}]" {
		t.Errorf("Tags = %s, want [{h100 [a]} {eu [a b]}]", got)
	}
	for list, want := range map[string]string{
		`{ upstream: "tag:h10" }`:                         `no upstream has the tag of "tag:h10": did you mean "tag:h100"?`,
		`{ upstream: "tag:mi300x" }`:                      `no upstream has the tag of "tag:mi300x": give those that are meant tags: [mi300x]`,
		`{ upstream: a }, { upstream: "tag:h100" }`:       `this list already names all upstreams with the tag`,
		`{ upstream: "tag:eu" }, { upstream: "tag:eu" } `: `this list already names all upstreams with the tag`,
	} {
		if _, problems := tagged(list); !strings.Contains(problems.Error(), want) {
			t.Errorf("%s\n%v, want %s", list, problems, want)
		}
	}
	for tags, want := range map[string]string{"[x, x]": "is listed twice", `["a*"]`: "a tag is a word", `["a b"]`: "must have no blanks", `[""]`: "a tag is a word"} {
		text := "auth: none\nupstreams: [{ name: a, url: \"http://127.0.0.1:1\", tags: " + tags + " }]\nmodels: [{ id: m, deployments: [{ upstream: a }] }]\n"
		if _, problems := ParseValid("tags", []byte(text), KnownProfiles{Engines: []string{EngineAuto}}); !strings.Contains(problems.Error(), want) {
			t.Errorf("%s: %v, want %s", tags, problems, want)
		}
	}
	for list, want := range map[string]string{
		"      - { upstream: \"tpu-*\" }\n":                                                            "groups:11:21: the group \"tpu-*\" is empty",
		"      - { upstream: gpu-a }\n      - { upstream: \"gpu-a*\" }\n":                              "groups:12:21: the group \"gpu-a*\" is empty",
		"      - { upstream: \"gpu-*\" }\n      - { upstream: gpux }\n":                                "groups:12:21: there is no upstream \"gpux\"",
		"      - { upstream: \"gpu-*\" }\n      - { upstream: \"gpu-*\" }\n":                           "groups:12:21: the group \"gpu-*\" is empty",
		"      - { upstream: \"gpu-*\", tier: 1 }\n      - { upstream: gpu-a, tier: 1, when: down }\n": "groups:12:9: tier 1 opens",
	} {
		if _, problems := parse(list); !strings.Contains(problems.Error(), want) {
			t.Errorf("%s\n%v, want %s", list, problems, want)
		}
	}
}
