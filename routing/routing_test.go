package routing

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"penstock/config"
	"penstock/upstreams"
)

var t0 = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// plan returns a plan of upstreams that are never probed. They are pending, so a route uses them
// only if no target is up.
func plan(t testing.TB, ups ...config.Upstream) *upstreams.ChangePlan {
	t.Helper()
	set, err := upstreams.NewSet(upstreams.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range ups {
		if ups[i].URL == "" {
			ups[i].URL = fmt.Sprintf("http://127.0.0.1:%d", 20000+i)
		}
		ups[i].Engine = "openai"
	}
	p, err := set.PlanChanges(ups, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func upstream(name string, slots int) config.Upstream {
	return config.Upstream{Name: name, Weight: 1, Concurrency: config.Concurrency{Shared: slots}}
}

func table(t testing.TB, p *upstreams.ChangePlan, models ...config.Model) *Table {
	t.Helper()
	tab, err := BuildTable(&config.File{Models: models}, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func model(id string, policy string, ups ...string) config.Model {
	m := config.Model{ID: id, Policy: policy}
	for _, u := range ups {
		m.Deployments = append(m.Deployments, config.Deployment{Upstream: u, Served: "served-" + id})
	}
	return m
}

func lookup(t testing.TB, tab *Table, name string) *Route {
	t.Helper()
	r, ok := tab.Lookup([]byte(name))
	if !ok {
		t.Fatalf("model %s not found", name)
	}
	return r
}

func TestLookup(t *testing.T) {
	p := plan(t, upstream("a", 1))
	llama, claude, long := model("llama", "", "a"), model("qwen", "", "a"), model("glm", "", "a")
	llama.Aliases = []string{"meta/llama", "claude-*"}
	claude.Aliases = []string{"claude-opus"}
	long.Aliases = []string{"claude-sonnet-*", "llama[8k]"}
	tab := table(t, p, llama, claude, long)
	for name, want := range map[string]string{
		"llama": "llama", "meta/llama": "llama", "claude-haiku": "llama", "claude-": "llama",
		"claude-opus": "qwen", "claude-sonnet-4": "glm", "claude-sonnet": "llama",
		"LLAMA": "", "llama ": "", "": "", "claude": "",
		"llama[1m]": "llama", "llama[8k]": "glm", "claude-opus[1m]": "qwen", "claude-haiku[1m]": "llama", "qwen[12345678]": "qwen",
		"qwen[]": "", "qwen[123456789]": "", "qwen[1M]": "", "qwen[1m": "", "qwen1m]": "", "qwen[1m][1m]": "", "qwen[1m] ": "", "[1m]": "", "qwen[a-b]": "",
	} {
		r, ok := tab.Lookup([]byte(name))
		switch {
		case !ok && want != "":
			t.Errorf("%q: not found, want %s", name, want)
		case ok && r.ID != want:
			t.Errorf("%q: %s, want %q", name, r.ID, want)
		}
	}
	if got := len(tab.Routes()); got != 3 {
		t.Errorf("got %d routes, want 3", got)
	}
}

func TestBuildUnknownUpstream(t *testing.T) {
	if _, err := BuildTable(&config.File{Models: []config.Model{model("m", "", "nobody")}}, plan(t, upstream("a", 1)), nil); err == nil {
		t.Fatal("a deployment on an unknown upstream was accepted")
	}
}

// countAcquired acquires n leases one after another, each with a different random number, and
// counts them by upstream.
func countAcquired(t testing.TB, r *Route, n int, q Query) map[string]int {
	t.Helper()
	got := map[string]int{}
	for i := range n {
		q.Now, q.Rand = t0, uint64(i)*0x9e3779b97f4a7c15
		l, target, err := r.Acquire(&q)
		if err != nil {
			t.Fatalf("lease %d: got the error %v, want none", i, err)
		}
		if target.Served != "served-"+r.ID {
			t.Fatalf("served name %q", target.Served)
		}
		got[l.Upstream().Name()]++
	}
	return got
}

func TestLeastLoadedFillsEvenlyAndStopsAtTheLimit(t *testing.T) {
	p := plan(t, upstream("a", 4), upstream("b", 4), upstream("c", 4))
	r := lookup(t, table(t, p, model("m", config.PolicyLeastLoaded, "a", "b", "c")), "m")
	got := countAcquired(t, r, 12, Query{})
	for _, name := range []string{"a", "b", "c"} {
		if got[name] != 4 {
			t.Errorf("%s has %d leases, want 4", name, got[name])
		}
	}
	_, _, err := r.Acquire(&Query{Now: t0})
	var full *FullError
	if !errors.As(err, &full) {
		t.Fatalf("the thirteenth lease: %v", err)
	}
	if want := (Capacity{Active: 12, Total: 12, Available: 0, Utilization: 100}); full.Capacity != want {
		t.Errorf("capacity %+v, want %+v", full.Capacity, want)
	}
}

func TestLeastLoadedUsesWeights(t *testing.T) {
	big := upstream("big", 100)
	big.Weight = 3
	p := plan(t, big, upstream("small", 100))
	r := lookup(t, table(t, p, model("m", "", "big", "small")), "m")
	got := countAcquired(t, r, 80, Query{})
	if got["big"] < 58 || got["big"] > 62 {
		t.Errorf("weight 3 against 1 gave %v of 80, want 60 and 20", got)
	}
}

func TestTiesAreSpread(t *testing.T) {
	p := plan(t, upstream("a", 9), upstream("b", 9), upstream("c", 9))
	r := lookup(t, table(t, p, model("m", "", "a", "b", "c")), "m")
	first := map[string]int{}
	for i := range 3000 {
		l, _, err := r.Acquire(&Query{Now: t0, Rand: uint64(i) * 0x9e3779b97f4a7c15})
		if err != nil {
			t.Fatal(err)
		}
		first[l.Upstream().Name()]++
		l.Release(upstreams.OutcomeOK)
	}
	for name, n := range first {
		if n < 900 || n > 1100 {
			t.Errorf("idle upstream %s was chosen %d times of 3000, want about 1000", name, n)
		}
	}
}

func TestTokensCount(t *testing.T) {
	p := plan(t, upstream("a", 50), upstream("b", 50))
	r := lookup(t, table(t, p, model("m", "", "a", "b")), "m")
	long, _, err := r.Acquire(&Query{Now: t0, Tokens: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	got := countAcquired(t, r, 10, Query{Tokens: 10})
	if got[long.Upstream().Name()] != 0 {
		t.Errorf("the engine with a prompt of 100,000 tokens got %d of 10 short calls", got[long.Upstream().Name()])
	}
}

func TestExclude(t *testing.T) {
	p := plan(t, upstream("a", 9), upstream("b", 9))
	r := lookup(t, table(t, p, model("m", "", "a", "b")), "m")
	a := p.Upstream("a")[0].ID()
	if got := countAcquired(t, r, 5, Query{Exclude: []upstreams.ID{a}}); got["b"] != 5 {
		t.Errorf("excluded upstream was picked: %v", got)
	}
	_, _, err := r.Acquire(&Query{Now: t0, Exclude: []upstreams.ID{a, p.Upstream("b")[0].ID()}})
	if !errors.Is(err, ErrNoUpstream) {
		t.Errorf("all excluded: %v", err)
	}
}

func TestRoundRobin(t *testing.T) {
	p := plan(t, upstream("a", 99), upstream("b", 99), upstream("c", 99))
	r := lookup(t, table(t, p, model("m", config.PolicyRoundRobin, "a", "b", "c")), "m")
	held := countAcquired(t, r, 30, Query{})
	for name, n := range held {
		if n != 10 {
			t.Errorf("%s got %d of 30", name, n)
		}
	}
}

func conversation(id int) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("conversation %d goes on. ", id)), 200)
}

func TestLeastLoadedKeepsConversations(t *testing.T) {
	p := plan(t, upstream("a", 64), upstream("b", 64), upstream("c", 64), upstream("d", 64))
	tab := table(t, p, model("m", config.PolicyLeastLoaded, "a", "b", "c", "d"))
	r := lookup(t, tab, "m")
	home := map[int]string{}
	for turn := range 5 {
		for id := range 40 {
			blocks := HashBlocks(nil, PromptSeed("m", "", nil), conversation(id)[:1000+turn*700])
			l, _, err := r.Acquire(&Query{Now: t0, Rand: uint64(turn*1000 + id), Prefix: blocks})
			if err != nil {
				t.Fatal(err)
			}
			name := l.Upstream().Name()
			if before := home[id]; before != "" && before != name {
				t.Errorf("turn %d of conversation %d moved from %s to %s", turn, id, before, name)
			}
			home[id] = name
			l.Release(upstreams.OutcomeOK)
		}
	}
	count := map[string]int{}
	for _, h := range home {
		count[h]++
	}
	if len(count) != 4 {
		t.Errorf("40 conversations went to %v", count)
	}
}

func TestLeastLoadedMovesWhenTheHomeIsFull(t *testing.T) {
	p := plan(t, upstream("a", 2), upstream("b", 2))
	r := lookup(t, table(t, p, model("m", config.PolicyLeastLoaded, "a", "b")), "m")
	blocks := HashBlocks(nil, 1, conversation(1))
	got := countAcquired(t, r, 4, Query{Prefix: blocks})
	if got["a"] != 2 || got["b"] != 2 {
		t.Errorf("four calls of one conversation over two engines of two slots: %v", got)
	}
}

// TestLeastLoadedSpreadsWhatMostConversationsShare checks that conversations with the same system
// prompt do not all go to the engine that read the prompt first.
func TestLeastLoadedSpreadsWhatMostConversationsShare(t *testing.T) {
	p := plan(t, upstream("a", 64), upstream("b", 64), upstream("c", 64), upstream("d", 64))
	r := lookup(t, table(t, p, model("m", config.PolicyLeastLoaded, "a", "b", "c", "d")), "m")
	system := bytes.Repeat([]byte("You are helpful. "), 100)
	got, home := map[string]int{}, map[int]string{}
	for id := range 80 {
		q := Query{Now: t0, Rand: uint64(id), Prefix: HashBlocks(nil, 1, append(bytes.Clone(system), conversation(id)...))}
		l, _, err := r.Acquire(&q)
		if err != nil {
			t.Fatal(err)
		}
		l.RecordFirstToken(time.Second) // the prefill is complete, and the response is still streaming
		home[id] = l.Upstream().Name()
		got[home[id]]++
	}
	for _, n := range got {
		if n > 30 {
			t.Errorf("80 calls with one system prompt went to %v", got)
		}
	}
	for id, name := range home { // each conversation stays at the engine that has its whole prompt cached
		q := Query{Now: t0, Rand: uint64(id) + 7, Prefix: HashBlocks(nil, 1, append(bytes.Clone(system), conversation(id)...))}
		l, _, err := r.Acquire(&q)
		if err != nil {
			t.Fatal(err)
		}
		l.RecordFirstToken(time.Second)
		if l.Upstream().Name() != name {
			t.Errorf("conversation %d moved from %s to %s", id, name, l.Upstream().Name())
		}
	}
}

// TestLeastLoadedSpreadsWithoutLoad checks that conversations that arrive one after another are
// spread over the engines from their first turn on, and then stay at their engine. The load does
// not show which engine has more conversations, and most of each prompt is a common prefix.
func TestLeastLoadedSpreadsWithoutLoad(t *testing.T) {
	for name, own := range map[string]int{"long turns": 1500, "short turns": 100} {
		t.Run(name, func(t *testing.T) {
			p := plan(t, upstream("a", 64), upstream("b", 64), upstream("c", 64), upstream("d", 64))
			r := lookup(t, table(t, p, model("m", config.PolicyLeastLoaded, "a", "b", "c", "d")), "m")
			system := bytes.Repeat([]byte("You are helpful. "), 400)
			got, home, moved := map[string]int{}, map[int]string{}, 0
			for turn := range 3 {
				for id := range 400 {
					q := Query{Now: t0, Rand: splitmix64(uint64(id*10 + turn)), Prefix: HashBlocks(nil, 1, append(bytes.Clone(system), conversation(id)[:own*(turn+1)]...))}
					l, _, err := r.Acquire(&q)
					if err != nil {
						t.Fatal(err)
					}
					l.Release(upstreams.OutcomeOK)
					name := l.Upstream().Name()
					if turn == 0 {
						got[name]++
					} else if home[id] != name {
						moved++
					}
					home[id] = name
				}
			}
			for name, n := range got {
				if n < 60 || n > 140 {
					t.Errorf("%s has %d of 400 conversations: %v", name, n, got)
				}
			}
			if own > blockBytes && moved > 0 {
				t.Errorf("%d turns were moved", moved)
			}
		})
	}
}

// TestLeastLoadedLeavesAFailingHome checks that an engine's cache does not attract calls while the
// engine is refusing calls.
func TestLeastLoadedLeavesAFailingHome(t *testing.T) {
	p := plan(t, upstream("a", 64), upstream("b", 64), upstream("c", 64))
	r := lookup(t, table(t, p, model("m", config.PolicyLeastLoaded, "a", "b", "c")), "m")
	q := Query{Prefix: HashBlocks(nil, 1, conversation(1))}
	count := map[string]int{}
	home := ""
	for range 30 {
		q.Now = time.Now()
		l, _, err := r.Acquire(&q)
		if err != nil {
			t.Fatal(err)
		}
		name := l.Upstream().Name()
		if home == "" {
			home = name
		}
		count[name]++
		if name == home {
			l.Release(upstreams.OutcomeRefused)
		} else {
			l.Release(upstreams.OutcomeOK)
		}
	}
	if count[home] > 5 {
		t.Errorf("%d of 30 calls went to the home that refuses", count[home])
	}
}

func TestLeastLoadedAgreesBetweenEdges(t *testing.T) {
	choose := func(id int) string {
		p := plan(t, upstream("a", 64), upstream("b", 64), upstream("c", 64))
		r := lookup(t, table(t, p, model("m", config.PolicyLeastLoaded, "a", "b", "c")), "m")
		l, _, err := r.Acquire(&Query{Now: t0, Rand: uint64(id) * 77, Prefix: HashBlocks(nil, PromptSeed("m", "", nil), conversation(id))})
		if err != nil {
			t.Fatal(err)
		}
		return l.Upstream().Name()
	}
	for id := range 20 {
		if a, b := choose(id), choose(id); a != b {
			t.Errorf("two edges send conversation %d to %s and %s", id, a, b)
		}
	}
}

func TestCapacity(t *testing.T) {
	separate := config.Upstream{Name: "s", Weight: 1, Concurrency: config.Concurrency{Text: 8, Vision: 2}}
	p := plan(t, upstream("a", 4), separate)
	tab := table(t, p, model("shared", "", "a", "a"), model("both", "", "a", "s"), model("apart", "", "s"))
	shared, apart := lookup(t, tab, "shared"), lookup(t, tab, "apart")
	if c := shared.PoolCapacity(upstreams.PoolText, t0); c.Total != 4 {
		t.Errorf("an upstream with two targets counts %d slots, want 4", c.Total)
	}
	if shared.HasSeparateModalityPools() || !apart.HasSeparateModalityPools() {
		t.Error("separate pools are told wrongly")
	}
	if _, _, err := apart.Acquire(&Query{Now: t0, Pool: upstreams.PoolVision}); err != nil {
		t.Fatal(err)
	}
	text, vision := apart.PoolCapacity(upstreams.PoolText, t0), apart.PoolCapacity(upstreams.PoolVision, t0)
	if text != (Capacity{0, 8, 8, 0}) || vision != (Capacity{1, 2, 1, 50}) {
		t.Errorf("text %+v, vision %+v", text, vision)
	}
	pools := []upstreams.SlotPool{upstreams.PoolText, upstreams.PoolVision}
	if sum := apart.TotalCapacity(pools, t0); sum.Total != 10 || sum.Active != 1 || math.Abs(sum.Utilization-10) > 1e-9 {
		t.Errorf("TotalCapacity = %+v, want a total of 10, one active and a utilization of 10", sum)
	}
	// The four slots of the shared pool count only once, although calls of every kind can use them.
	// A call in one of these slots also counts once.
	if _, _, err := shared.Acquire(&Query{Now: t0, Pool: upstreams.PoolText}); err != nil {
		t.Fatal(err)
	}
	both := lookup(t, tab, "both")
	if sum := both.TotalCapacity(pools, t0); sum.Total != 14 || sum.Active != 2 || sum.Available != 12 {
		t.Errorf("sum over a shared pool and separate ones: %+v", sum)
	}
	var all SlotSum
	for _, r := range []*Route{shared, apart, both} {
		all.Add(r, pools, t0)
	}
	all.Add(shared, []upstreams.SlotPool{upstreams.PoolAudio}, t0)
	if all.Total != 14 {
		t.Errorf("the routes together have %d slots, want 14", all.Total)
	}
	if shared.IsReady(t0) {
		t.Error("a route whose upstream was never probed is called ready")
	}
}

// TestLoadedFirst checks engines that keep few models loaded. Under every policy, a call goes to an
// engine that has loaded the model and has a free slot. If it is the model's turn at no engine, the
// engines count as full rather than as down.
func TestLoadedFirst(t *testing.T) {
	for _, policy := range policies {
		ups := []config.Upstream{upstream("u0", 2), upstream("u1", 2), upstream("u2", 2)}
		for i := range ups {
			ups[i].Residents = 1
		}
		p := plan(t, ups...)
		tab := table(t, p, model("m", policy, "u0", "u1", "u2"), model("n", policy, "u0", "u1", "u2"))
		m, n := lookup(t, tab, "m"), lookup(t, tab, "n")
		var where []string
		var leases []*upstreams.Lease
		for i := range 6 {
			l, _, err := m.Acquire(&Query{Now: time.Now(), Rand: uint64(i)})
			if err != nil {
				t.Fatal(err)
			}
			where, leases = append(where, l.Upstream().Name()), append(leases, l)
			var full *FullError
			if _, _, err := n.Acquire(&Query{Now: time.Now(), Exclude: idleUpstreams(tab, "n")}); !errors.As(err, &full) {
				t.Errorf("%s: beside calls of another model it gets %v", policy, err)
			}
		}
		for i := 0; i < len(where); i += 2 {
			if where[i] != where[i+1] {
				t.Errorf("%s: a second engine loads the model although one has it and room: %v", policy, where)
				break
			}
		}
		for _, l := range leases {
			l.Release(upstreams.OutcomeOK)
		}
	}
}

// idleUpstreams returns the upstreams of a model that have no running call.
func idleUpstreams(tab *Table, id string) (ids []upstreams.ID) {
	r, _ := tab.Lookup([]byte(id))
	var l upstreams.Load
	for _, t := range r.targets {
		if t.Upstream.ReadLoad(&l, upstreams.PoolText, upstreams.MomentOf(time.Now())); l.Active == 0 {
			ids = append(ids, t.Upstream.ID())
		}
	}
	return ids
}
