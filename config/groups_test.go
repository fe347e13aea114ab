package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestGroups: a deployment may name upstreams by the beginning of their names; what the list names itself counts before that.
func TestGroups(t *testing.T) {
	parse := func(deployments string, more ...string) (*File, Problems) {
		text := "auth: none\nupstreams:\n"
		for _, name := range append([]string{"gpu-a", "gpu-b", "cpu", "gpu-c"}, more...) {
			text += fmt.Sprintf("  - { name: %q, url: \"http://127.0.0.1:1\" }\n", name)
		}
		return ParseValid("groups", []byte(text+"models:\n  - id: m\n    deployments:\n      - { upstream: cpu, tier: 2 }\n"+deployments), Known{Engines: []string{EngineAuto}})
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
			t.Errorf("%s: %v", c.name, problems)
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
