package upstreams

import (
	"testing"
	"time"

	"penstock/config"
	"penstock/upstreams/engine"
)

func TestServes(t *testing.T) {
	listed := []engine.ModelInfo{{ID: "m", Aliases: []string{"n"}}, {ID: "x:latest"}, {ID: "cold", LoadedKnown: true}}
	for _, c := range []struct {
		engine, served string
		want           bool
	}{
		{"vllm", "m", true},
		{"vllm", "n", true},
		{"vllm", "other", false},
		{"vllm", "x", false},
		{"vllm", "cold", false},
		{"ollama", "x", true},          // the implicit tag
		{"ollama", "cold", true},       // loaded by the first request
		{"llamacpp", "anything", true}, // names are ignored
		{"openai", "unlisted", true},   // the list may be incomplete
	} {
		u := newTestUpstream(t, config.Concurrency{})
		u.recognised(mustProfile(t, c.engine))
		if !serves(t, u, c.served) {
			t.Errorf("%s: %s is missing before any list", c.engine, c.served)
		}
		u.Models.setList(engine.NewModelList(listed, nil), time.Now())
		if got := serves(t, u, c.served); got != c.want {
			t.Errorf("%s: %s: %t", c.engine, c.served, got)
		}
	}
}

// An open list takes a name away only when it had it once.
func TestServesVanished(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{})
	first := engine.NewModelList([]engine.ModelInfo{{ID: "a"}, {ID: "b"}}, nil)
	u.Models.setList(first, time.Now())
	u.Models.setList(engine.NewModelList([]engine.ModelInfo{{ID: "a"}}, first), time.Now())
	if !serves(t, u, "a") || serves(t, u, "b") || !serves(t, u, "c") {
		t.Error("a, b, c:", serves(t, u, "a"), serves(t, u, "b"), serves(t, u, "c"))
	}
	u.Models.setList(nil, time.Now())
	if !serves(t, u, "b") {
		t.Error("a stale list still keeps b away")
	}
}

func TestModelFacts(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{})
	if _, ok := u.Models.Find("m"); ok || u.Models.MaxContext("m") != 0 || u.Models.All() != nil {
		t.Error("facts from nowhere")
	}
	u.Models.setList(engine.NewModelList([]engine.ModelInfo{{ID: "m", Context: 4096}}, nil), time.Now())
	if u.Models.MaxContext("m") != 4096 || u.Models.MaxContext("n") != 0 {
		t.Error("context", u.Models.MaxContext("m"))
	}
	u.recognised(mustProfile(t, "llamacpp")) // one model under any name
	if u.Models.MaxContext("n") != 4096 {
		t.Error("context under another name", u.Models.MaxContext("n"))
	}
}

// serves is Serves, and checks that the name's ServedModel says the same.
func serves(t testing.TB, u *Upstream, served string) bool {
	t.Helper()
	want := u.Models.Serves(served)
	if u.Models.Entry(served).Available() != want {
		t.Errorf("the ServedModel of %s says %t", served, !want)
	}
	return want
}
