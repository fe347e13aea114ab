package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEngineInheritFrom(t *testing.T) {
	base := Engine{
		Name: "base", Ports: []int{1}, Health: EngineHealth{Path: "/health", Alive: AliveAny}, Quirks: []string{QuirkOwnHost},
		Refused: []string{"a"}, Concurrency: 4, Paths: map[string]string{OpChat: "/chat", OpSpeech: "/speech"},
	}
	e := Engine{Name: "e", Health: EngineHealth{Alive: AliveOK}, Quirks: []string{}, Paths: map[string]string{OpSpeech: ""}}
	want := Engine{
		Name: "e", Ports: []int{1}, Health: EngineHealth{Path: "/health", Alive: AliveOK}, Quirks: []string{},
		Refused: []string{"a"}, Concurrency: 4, Paths: map[string]string{OpChat: "/chat", OpSpeech: ""},
	}
	if diff := cmp.Diff(want, e.InheritFrom(&base)); diff != "" {
		t.Error(diff)
	}
	if base.Paths[OpSpeech] != "/speech" {
		t.Error("the base was written to")
	}
}

func TestEngineProblems(t *testing.T) {
	whole := Engine{Name: "whole", Detect: []EngineSign{{Path: "/x", Field: "a", Equals: "b"}}, Capacity: []EngineCapacity{{Path: "/x", Field: "n"}}}
	if p := whole.Problems(); len(p) > 0 {
		t.Errorf("a good one: %v", p)
	}
	for _, c := range []struct {
		engine Engine
		want   string
	}{
		{Engine{}, "name:"},
		{Engine{Name: "auto"}, "name:"},
		{Engine{Name: "e", Detect: []EngineSign{{Path: "/x"}}}, "detect[0]: say what"},
		{Engine{Name: "e", Detect: []EngineSign{{Contains: []string{"a"}}}}, "detect[0].path: missing"},
		{Engine{Name: "e", Detect: []EngineSign{{Path: "/", Contains: []string{"a"}, Equals: "b"}}}, "detect[0].equals: needs a field"},
		{Engine{Name: "e", Ports: []int{70000}}, "ports[0]: 70000"},
		{Engine{Name: "e", Health: EngineHealth{Path: "health"}}, `health.path: "health" is not a path`},
		{Engine{Name: "e", Health: EngineHealth{Path: "/a b"}}, "health.path:"},
		{Engine{Name: "e", Health: EngineHealth{Alive: "yes"}}, `health.alive: "yes" is not one of ok, any`},
		{Engine{Name: "e", Version: EngineValueLocation{Field: "v"}}, "version.path: missing"},
		{Engine{Name: "e", Models: []EngineModelsPage{{Path: "/m"}}}, "models[0].id:"},
		{Engine{Name: "e", Names: "some"}, "names:"},
		{Engine{Name: "e", Load: []EngineLoad{{Path: "/m"}}}, "load[0]: name the fields"},
		{Engine{Name: "e", Capacity: []EngineCapacity{{}}}, "capacity[0].path: missing"},
		{Engine{Name: "e", Concurrency: -1}, "concurrency:"},
		{Engine{Name: "e", Paths: map[string]string{"talk": "/t"}}, "paths.talk: not an operation"},
		{Engine{Name: "e", TokenLimit: "tokens"}, "token_limit:"},
		{Engine{Name: "e", Reasoning: EngineReasoning{History: "thoughts"}}, "reasoning.history:"},
		{Engine{Name: "e", CacheSalt: "nvext.cache_salt"}, "cache_salt:"},
		{Engine{Name: "e", Priority: "first"}, "priority:"},
		{Engine{Name: "e", ClientFaults: []EngineError{{Status: 200}}}, "client_faults[0].status:"},
		{Engine{Name: "e", Overloads: []EngineError{{}}}, "overloads[0].status:"},
		{Engine{Name: "e", NotNow: []EngineError{{Status: 302}}}, "not_now[0].status:"},
		{Engine{Name: "e", Quirks: []string{"odd"}}, "quirks[0]:"},
	} {
		got := c.engine.Problems()
		if len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
			t.Errorf("got %q, want one that begins with %q", got, c.want)
		}
	}
}
