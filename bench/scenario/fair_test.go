package scenario

import (
	"context"
	"strings"
	"testing"
	"time"

	"penstock/bench/benchtest"
	"penstock/config/testkit/fastset"
)

// TestFairIsJudgedByTokens checks that fairness depends on tokens and weights rather than on the
// number of calls.
func TestFairIsJudgedByTokens(t *testing.T) {
	keys := []keySpec{
		{ID: "docs", Weight: 1, Loops: 16}, {ID: "code", Weight: 2, Loops: 24}, {ID: "one", Weight: 1, Loops: 1},
	}
	service := func(tokens, largest int64, wait time.Duration) keyService {
		return keyService{Tokens: tokens, Largest: largest, Waits: []time.Duration{0, wait, time.Hour}}
	}
	for _, c := range []struct {
		name            string
		docs, code, one keyService
		want            string // part of the error; empty if the result is fair
	}{
		{"by weight", service(100_000, 2000, 5*time.Second), service(200_000, 900, time.Second), service(900, 90, 50*time.Millisecond), ""},
		{"off by what the slots hold", service(112_000, 2000, 5*time.Second), service(188_000, 900, time.Second), service(900, 90, 0), ""},
		{"off by more", service(114_000, 2000, 5*time.Second), service(186_000, 900, time.Second), service(900, 90, 0), "docs 38.0 % of the tokens (due: 33.3 %)"},
		{"large calls make it coarse", service(114_000, 9000, 5*time.Second), service(186_000, 900, time.Second), service(900, 90, 0), ""},
		{"a turn for each call", service(207_000, 2000, 5*time.Second), service(93_000, 900, time.Second), service(900, 90, 0), "code 31.0 %"},
		{"no weights", service(150_000, 2000, 5*time.Second), service(150_000, 900, time.Second), service(900, 90, 0), "code 50.0 %"},
		{"a small key behind a backlog", service(100_000, 2000, 5*time.Second), service(200_000, 900, time.Second), service(900, 90, 4*time.Second), "one, which asks for little, waited 4000 ms"},
		{"waits of nothing", service(100_000, 2000, 0), service(200_000, 900, 0), service(900, 90, 0), ""},
	} {
		seen, err := judgeFairness(keys, []keyService{c.docs, c.code, c.one}, 4)
		switch {
		case c.want == "" && (err != nil || !strings.Contains(seen, "one waited")):
			t.Errorf("%s: judgeFairness = %q, %v; want that one waited", c.name, seen, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestFairKeys starts real processes and checks how keys share a full engine.
func TestFairKeys(t *testing.T) {
	fastset.SkipIfShort(t, "keys that share a full engine, in processes")
	t.Parallel()
	benchtest.BuildProgram(t)
	f, err := StartFleet(context.Background(), fleetSpec{
		Engines: []engineSpec{{Name: "a", Concurrency: 2, Sim: []string{
			"--prefill-rate=100000", "--token-rate=1000", "--slots=2", "--cache-tokens=-1",
		}}},
		Models: []modelSpec{{ID: "sim", Queue: "{ depth: 256, wait: 60s }"}},
		Keys: []keySpec{
			{ID: "docs", Weight: 1, Loops: 16, Prompt: 1000, Answer: 5},
			{ID: "code", Weight: 2, Loops: 32, Prompt: 100, Answer: 20},
			{ID: "one", Weight: 1, Loops: 1, Prompt: 20, Answer: 2},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen, err := f.PerformAction(context.Background(), "fair sim 500ms")
	if t.Log(seen); err != nil || !strings.Contains(seen, "of the tokens (due: 33.3 %), code ") {
		t.Errorf("fair = %q, %v; want a third as due and the share of code", seen, err)
	}
	if err := f.makeStreamedCall(context.Background(), "sim", `"sim":{"tokens":1}`); err != nil {
		t.Errorf("a call of the run's own key: %v", err)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := f.PerformAction(ended, "fair sim 1ms"); err == nil || !strings.Contains(err.Error(), "the run ended") {
		t.Errorf("a run that has ended: %v", err)
	}
	f.keys["code"] = "sk-unknown"
	if _, err := f.PerformAction(context.Background(), "fair sim 1h"); err == nil || err.Error() != "a call of code: status 401" {
		t.Errorf("a key that is refused: %v", err)
	}
}
