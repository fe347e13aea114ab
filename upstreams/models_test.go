package upstreams

import (
	"strconv"
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
		{"ollama", "x", true},          // the tag is implicit
		{"ollama", "cold", true},       // the first request loads the model
		{"llamacpp", "anything", true}, // the engine ignores names
		{"openai", "unlisted", true},   // the list may be incomplete
	} {
		u := newTestUpstream(t, config.Concurrency{})
		u.recognised(mustProfile(t, c.engine))
		if !serves(t, u, c.served) {
			t.Errorf("%s: %s is missing before any list", c.engine, c.served)
		}
		u.Models.setList(engine.NewModelList(listed, nil), time.Now())
		if got := serves(t, u, c.served); got != c.want {
			t.Errorf("%s: serves %s = %t, want %t", c.engine, c.served, got, c.want)
		}
	}
}

// TestServesVanished checks that if a list may be incomplete, a name that is missing from it is
// unavailable only if an earlier list contained the name.
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
	if _, ok := u.Models.ModelInfo("m"); ok || u.Models.MaxContext("m") != 0 || u.Models.ListedModels() != nil {
		t.Error("facts from nowhere")
	}
	u.Models.setList(engine.NewModelList([]engine.ModelInfo{{ID: "m", Context: 4096}}, nil), time.Now())
	if u.Models.MaxContext("m") != 4096 || u.Models.MaxContext("n") != 0 {
		t.Error("context", u.Models.MaxContext("m"))
	}
	u.recognised(mustProfile(t, "llamacpp")) // serves one model under any name
	if u.Models.MaxContext("n") != 4096 {
		t.Error("context under another name", u.Models.MaxContext("n"))
	}
}

// serves calls Serves and checks that the name's ServedModel agrees.
func serves(t testing.TB, u *Upstream, served string) bool {
	t.Helper()
	want := u.Models.Serves(served)
	if u.Models.FindModel(served).IsAvailable() != want {
		t.Errorf("the ServedModel of %s says %t", served, !want)
	}
	return want
}

// TestAdaptersAtHand checks that the load is higher for an adapter that the engine has not used
// recently. This requires that the engine reports which adapters are in use and how many can be in
// use at a time.
func TestAdaptersAtHand(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{Shared: 4})
	u.recognised(mustProfile(t, "vllm"))
	u.Models.publishesList, u.Models.hooks.modelsChanged = true, func() {}
	u.Models.setList(engine.NewModelList([]engine.ModelInfo{{ID: "base"}, {ID: "x", Parent: "base"}, {ID: "y", Parent: "base"}, {ID: "z", Parent: "base"}}, nil), time.Now())
	away := func() (names string) {
		for _, served := range []string{"base", "x", "y", "z"} {
			var l Load
			if u.Models.FindModel(served).AdjustLoadForCall(&l, time.Now()); l.Penalty == coldAdapterPenalty {
				names += served
			} else if l.Penalty != 0 {
				t.Errorf("%s has a penalty of %v", served, l.Penalty)
			}
		}
		return names
	}
	begun := time.Now()
	_ = away() // creates the entries
	for i, step := range []struct {
		uses []string
		want string
	}{
		{nil, "xyz"},
		{[]string{"x"}, "yz"},
		{nil, "yz"}, // still in use
		{[]string{"y"}, "z"},
		{[]string{"z"}, "x"},
		{[]string{"x", "y", "z"}, "z"},
	} {
		setAdapters(&u.Models, &engine.Adapters{Most: 2, InUse: step.uses}, begun.Add(time.Duration(i)*time.Second))
		if got := away(); got != step.want && i < 5 || len(got) != len(step.want) {
			t.Errorf("step %d: away are %q, want %q", i, got, step.want)
		}
	}
	setAdapters(&u.Models, nil, begun)
	if got := away(); got != "" {
		t.Errorf("without a report away are %q", got)
	}
	u.Models.publishesList = false
	setAdapters(&u.Models, &engine.Adapters{Most: 2}, begun)
	if got := away(); got != "" {
		t.Errorf("where nothing is discovered away are %q", got)
	}
}

// TestEntriesAreBounded checks that old entries are dropped if an engine lists different names at
// every probe.
func TestEntriesAreBounded(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{})
	for i := range 100 {
		st := *u.settings.Load()
		st.expected = []string{"kept", "model-" + strconv.Itoa(i)}
		for _, served := range st.expected {
			u.Models.FindModel(served)
		}
		kept := u.Models.FindModel("kept")
		u.Models.configure(u.engine.Load(), &st)
		if u.Models.FindModel("kept") != kept {
			t.Fatal("the entry of a name that is still expected is another one")
		}
	}
	if n := len(u.Models.entries); n > 3 {
		t.Errorf("%d entries, want at most 3", n)
	}
}
