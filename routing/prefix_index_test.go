package routing

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"penstock/config"
	"penstock/upstreams"
)

// newTestPrefixIndex returns the prefix index and the targets of a route over upstreams with these
// names.
func newTestPrefixIndex(t *testing.T, names ...string) (*prefixIndex, []Target) {
	t.Helper()
	var ups []config.Upstream
	for _, name := range names {
		ups = append(ups, upstream(name, 64))
	}
	r := lookup(t, table(t, plan(t, ups...), model("m", "", names...)), "m")
	return r.prefixIndex, r.targets
}

func lookUpPrompt(d *prefixIndex, targets []Target, blocks []uint64) *cacheMatch {
	k := new(cacheMatch)
	d.lookUp(blocks, targets, k)
	return k
}

// cachedBlocksOf returns how many leading blocks of a prompt a target is assumed to have cached.
func cachedBlocksOf(d *prefixIndex, targets []Target, i int, blocks []uint64) int {
	n, _ := lookUpPrompt(d, targets, blocks).cachedBlockCount(targets[i].engineNumber)
	return n
}

func TestPrefixIndex(t *testing.T) {
	d, targets := newTestPrefixIndex(t, "a", "b", "c")
	prompt := randomBlocks(9)
	for n := range len(prompt) + 1 { // every length, to cover every path of the binary search
		d.recordPrompt(prompt[:n], &targets[0], 1)
		for i, want := range []int{n, 0, 0} {
			if got := cachedBlocksOf(d, targets, i, prompt); got != want {
				t.Errorf("target %d holds %d of %d blocks, want %d", i, got, n, want)
			}
		}
	}
	d.recordPrompt(prompt[:4], &targets[1], 1)
	d.recordPrompt(prompt[:2], &targets[2], 1)
	longer := append(slices.Clone(prompt), randomBlocks(3)...)
	for i, want := range []int{9, 4, 2} {
		if got := cachedBlocksOf(d, targets, i, longer); got != want {
			t.Errorf("target %d holds %d blocks, want %d", i, got, want)
		}
	}
	if k := lookUpPrompt(d, targets, longer); k.n != 3 || k.knownBlockCount() != 9 {
		t.Errorf("know = %+v, want 3 targets and 9 blocks", k)
	}
	if _, missing := lookUpPrompt(d, targets, longer).cachedBlockCount(targets[2].engineNumber); missing != 7 {
		t.Errorf("%v blocks are to be read up to where anything is known, want 7", missing)
	}
	if k := lookUpPrompt(d, targets, randomBlocks(5)); k.n != 0 {
		t.Errorf("%+v of what was never sent", k)
	}
}

// TestPrefixIndexHoldsNewestBlocks compares the index with simple lists. A target has the blocks
// that it read most recently, as many as fit in its cache. These blocks always form prefixes of
// prompts.
func TestPrefixIndexHoldsNewestBlocks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d, targets := newTestPrefixIndex(t, "a", "b", "c")
		var lists [3][]uint64 // newest block first
		room := [3]int{}
		for i := range room {
			room[i] = rapid.IntRange(1, 30).Draw(rt, "room")
			d.memberCaches[targets[i].engineNumber].maxBlocks = room[i]
		}
		var prompts [][]uint64
		block := uint64(0)
		for range rapid.IntRange(1, 40).Draw(rt, "prompts") {
			var p []uint64
			if len(prompts) > 0 && rapid.Bool().Draw(rt, "goes on") {
				before := rapid.SampledFrom(prompts).Draw(rt, "before")
				p = slices.Clone(before[:rapid.IntRange(0, len(before)).Draw(rt, "of it")])
			}
			for range rapid.IntRange(1, 12).Draw(rt, "own") {
				block++
				p = append(p, block)
			}
			prompts = append(prompts, p)
			at := rapid.IntRange(0, 2).Draw(rt, "at")
			d.recordPrompt(p, &targets[at], rapid.Uint64Range(0, 3).Draw(rt, "session"))
			for _, b := range slices.Backward(p) {
				if i := slices.Index(lists[at], b); i >= 0 {
					lists[at] = slices.Delete(lists[at], i, i+1)
				}
				lists[at] = slices.Insert(lists[at], 0, b)
			}
			lists[at] = lists[at][:min(len(lists[at]), room[at])]
		}
		all := map[uint64]bool{}
		for i := range lists {
			for _, b := range lists[i] {
				all[b] = true
			}
		}
		if len(d.entryByBlock) != len(all) || len(all) != int(d.entries.n)-1-len(d.entries.freeList) {
			rt.Fatalf("%d blocks and %d entries, want %d", len(d.entryByBlock), int(d.entries.n)-1-len(d.entries.freeList), len(all))
		}
		for _, p := range prompts {
			for i := range lists {
				want := 0
				for want < len(p) && slices.Contains(lists[i], p[want]) {
					want++
				}
				if k := lookUpPrompt(d, targets, p); k.n < maxPrefixParts {
					if got, _ := k.cachedBlockCount(targets[i].engineNumber); got != want {
						rt.Fatalf("target %d holds %d of %d blocks, want %d", i, got, len(p), want)
					}
				}
			}
		}
		d.mu.Lock()
		for i := range targets {
			d.dropEngineCache(targets[i].engineNumber)
		}
		d.mu.Unlock()
		if len(d.entryByBlock) != 0 || int(d.links.n)-1 != len(d.links.freeList) {
			rt.Fatalf("%d blocks are left of nothing", len(d.entryByBlock))
		}
	})
}

// TestPrefixIndexCacheSize checks that the assumed size of an engine's cache depends on the size
// that the engine reports, and on which prompts were still cached.
func TestPrefixIndexCacheSize(t *testing.T) {
	d, targets := newTestPrefixIndex(t, "a", "b")
	a := &targets[0]
	h := &d.memberCaches[a.engineNumber]
	if h.maxBlocks != defaultCacheBlocks {
		t.Errorf("%d blocks where nothing is known", h.maxBlocks)
	}
	a.Upstream.Cache.SetCapacity(400_000)
	d.recordPrompt(randomBlocks(1), a, 0)
	published := 400_000 * defaultBytesPerToken / blockBytes
	if h.maxBlocks != published {
		t.Errorf("%d blocks of 400,000 tokens, want %d", h.maxBlocks, published)
	}
	d.adjustCacheSize(a, 50_000, 60_000, 10)
	if h.maxBlocks != published {
		t.Errorf("%d blocks, more than the engine has", h.maxBlocks)
	}
	d.adjustCacheSize(a, 50_000, 49_000, published-1)
	d.adjustCacheSize(a, 50_000, 0, published)
	if h.maxBlocks != published || h.misses != 1 {
		t.Errorf("%d blocks, %d misses", h.maxBlocks, h.misses)
	}
	for range 50 { // older prompts are evicted, and newer prompts are cached
		d.adjustCacheSize(a, 50_000, 10_000, published/2)
		d.adjustCacheSize(a, 50_000, 49_000, published/3)
	}
	if h.maxBlocks > published*55/100 || h.maxBlocks < published/2 {
		t.Errorf("%d blocks where half of %d have survived", h.maxBlocks, published)
	}
	for range 200 {
		d.adjustCacheSize(a, 50_000, 49_000, h.maxBlocks)
	}
	if h.maxBlocks != published {
		t.Errorf("%d blocks of %d where all survive", h.maxBlocks, published)
	}
	a.Upstream.Cache.SetCapacity(0)
	d.recordPrompt(randomBlocks(1), a, 0)
	if h.maxBlocks != defaultCacheBlocks {
		t.Errorf("%d blocks once it says nothing", h.maxBlocks)
	}
	a.Upstream.Cache.SetCapacity(1e9)
	d.recordPrompt(randomBlocks(1), a, 0)
	if h.maxBlocks != maxCacheBlocks {
		t.Errorf("%d blocks of an engine that has room for a billion tokens", h.maxBlocks)
	}
}

// TestPrefixIndexDropsLostBlocks checks that the index drops an engine's blocks after the
// engine has restarted, or has lost a prompt that it had just read. The blocks of other engines
// stay.
func TestPrefixIndexDropsLostBlocks(t *testing.T) {
	d, targets := newTestPrefixIndex(t, "a", "b")
	prompt := randomBlocks(20)
	both := func() (a, b int) { return cachedBlocksOf(d, targets, 0, prompt), cachedBlocksOf(d, targets, 1, prompt) }
	d.recordPrompt(prompt, &targets[0], 1)
	d.recordPrompt(prompt, &targets[1], 1)
	targets[0].Upstream.Cache.RecordEmptied()
	if a, b := both(); a != 0 || b != 20 {
		t.Errorf("after a restart of the first they hold %d and %d", a, b)
	}
	d.recordPrompt(prompt, &targets[0], 1)
	for range cacheLostMisses - 1 {
		d.adjustCacheSize(&targets[0], 5000, 0, 1)
	}
	if a, b := both(); a != 20 || b != 20 {
		t.Errorf("after few misses they hold %d and %d", a, b)
	}
	d.adjustCacheSize(&targets[0], 5000, 0, 1)
	if a, b := both(); a != 0 || b != 20 {
		t.Errorf("after a reset of the first they hold %d and %d", a, b)
	}
}

func TestPrefixIndexOutlivesReload(t *testing.T) {
	p := plan(t, upstream("a", 64), upstream("b", 64), upstream("c", 64))
	build := func(before *Table, ups ...string) (*Table, *Route) {
		tab, err := BuildTable(&config.File{Models: []config.Model{model("m", "", ups...)}}, p, before)
		if err != nil {
			t.Fatal(err)
		}
		return tab, lookup(t, tab, "m")
	}
	before, r := build(nil, "a", "b")
	blocks := randomBlocks(8)
	r.prefixIndex.recordPrompt(blocks, &r.targets[0], 1)
	r.prefixIndex.recordPrompt(blocks, &r.targets[1], 1)
	_, r = build(before, "b", "c") // b now has a different position and a different neighbour
	if b, c := cachedBlocksOf(r.prefixIndex, r.targets, 0, blocks), cachedBlocksOf(r.prefixIndex, r.targets, 1, blocks); b != 8 || c != 0 {
		t.Errorf("b holds %d and c %d of 8 blocks", b, c)
	}
	if l, _, err := r.Acquire(&Query{Now: t0, Prefix: blocks}); err != nil || l.Upstream().Name() != "b" {
		t.Errorf("not where it is known: %v", err)
	}
}

// TestPrefixIndexBelongsToModel checks that a model does not inherit another model's index, even if
// the first model's id used to be an alias of the other model.
func TestPrefixIndexBelongsToModel(t *testing.T) {
	p := plan(t, upstream("a", 64), upstream("b", 64))
	first := model("m", "", "a", "b")
	first.Aliases = []string{"n"}
	before := table(t, p, first)
	first.Aliases = nil
	after, err := BuildTable(&config.File{Models: []config.Model{first, model("n", "", "a", "b")}}, p, before)
	if err != nil {
		t.Fatal(err)
	}
	m, n := lookup(t, after, "m"), lookup(t, after, "n")
	if m.prefixIndex != lookup(t, before, "m").prefixIndex || n.prefixIndex == m.prefixIndex || n.startCounter == m.startCounter {
		t.Error("the model does not go on with what it had, or another one does")
	}
}

// TestPrefixIndexOfManyEngines checks that a route works even if it has more upstreams than an
// engineSet can contain. Some targets then share a member number.
func TestPrefixIndexOfManyEngines(t *testing.T) {
	var ups []config.Upstream
	var names []string
	for i := range maxIndexedEngines + 40 {
		names = append(names, fmt.Sprint("u", i))
		ups = append(ups, upstream(names[i], 64))
	}
	r := lookup(t, table(t, plan(t, ups...), model("m", "", names...)), "m")
	for id := range 50 {
		q := Query{Now: t0, Rand: uint64(id), Prefix: HashBlocks(nil, 1, conversation(id))}
		first, _, err := r.Acquire(&q)
		if err != nil {
			t.Fatal(err)
		}
		first.Release(upstreams.OutcomeOK)
		again, target, err := r.Acquire(&q)
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.targets {
			if u := r.targets[i].Upstream; u == first.Upstream() && r.targets[i].engineNumber != target.engineNumber {
				t.Errorf("conversation %d moved from %s to %s", id, u.Name(), again.Upstream().Name())
			}
		}
		again.Release(upstreams.OutcomeOK)
	}
}

// TestPrefixIndexSharedPrefixes checks that the index distinguishes the next turn of a
// conversation, even an edited one, from a different conversation with the same prefix.
func TestPrefixIndexSharedPrefixes(t *testing.T) {
	d, targets := newTestPrefixIndex(t, "a", "b")
	none := uint8(len(sharingLevels) - 1)
	system := randomBlocks(3)
	with := func(own ...uint64) []uint64 { return append(slices.Clone(system), own...) }
	crowds := func(prompt []uint64) (all []uint8) {
		k := lookUpPrompt(d, targets, prompt)
		for i := range k.parts[:k.n] {
			all = append(all, k.parts[i].sharingLevel)
		}
		return all
	}
	expect := func(what string, prompt []uint64, want ...uint8) {
		t.Helper()
		if got := crowds(prompt); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	for turn := range 30 { // one conversation, which grows by a block per turn and is sometimes edited
		prompt := with(7)
		for i := range turn {
			prompt = append(prompt, uint64(100+i))
		}
		d.recordPrompt(prompt, &targets[0], 1)
		d.recordPrompt(append(prompt, uint64(1000+turn)), &targets[0], 1)
	}
	expect("one conversation", with(7, 100, 101, 102), none)
	for id := range uint64(3) {
		d.recordPrompt(with(2000+id), &targets[0], 2+id)
	}
	expect("four conversations", with(9, 9), none)
	d.recordPrompt(with(2100), &targets[0], 50)
	expect("five", with(9, 9), 1)
	for id := range uint64(60) {
		d.recordPrompt(with(2200+id), &targets[0], 0)
	}
	expect("65", with(9, 9), 0)
	expect("the first conversation, in the middle of them", with(7, 100, 101, 102), 0, none)
	short := with(5) // prompts that differ by less than a block
	d.recordPrompt(short, &targets[1], 0)
	for range minSharedEndPrompts - 1 {
		d.recordPrompt(short, &targets[1], 0)
	}
	expect("the short turns of a conversation", short, 0, none)
	d.recordPrompt(short, &targets[1], 0)
	expect("prompts that end alike", short, 0, 0)
	expect("a conversation that goes on where they end", with(5, 6), 0, none)
	system = randomBlocks(3)
	growing := with(8)
	for turn := range uint64(30) { // without a session; each turn replaces the end of the previous turn
		d.recordPrompt(append(slices.Clone(growing), 3000+turn), &targets[0], 0)
		growing = append(growing, 4000+turn)
	}
	expect("one conversation without a session", growing, none)
	for id := range uint64(3) {
		d.recordPrompt(with(5000+id), &targets[0], 0)
	}
	expect("four conversations without a session", with(9, 9), none)
	d.recordPrompt(with(5100), &targets[0], 0)
	expect("five conversations without a session", with(9, 9), 1)
}

// BenchmarkPrefixIndexLookUp measures a look-up, which does not visit every block of a prompt.
func BenchmarkPrefixIndexLookUp(b *testing.B) {
	for _, n := range []int{40, 256, 2048} {
		r := routeOf32(b, "")
		prompt := randomBlocks(n)
		r.prefixIndex.recordPrompt(prompt[:n/4], &r.targets[3], 1)
		r.prefixIndex.recordPrompt(prompt, &r.targets[7], 2)
		b.Run(fmt.Sprint("look/", n), func(b *testing.B) {
			var k cacheMatch
			b.ReportAllocs()
			for b.Loop() {
				r.prefixIndex.lookUp(prompt, r.targets, &k)
			}
		})
		b.Run(fmt.Sprint("learn/", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.prefixIndex.recordPrompt(prompt, &r.targets[7], 2)
			}
		})
	}
}

// TestOrderOfBlocks checks that an engine is assumed to have the blocks that it read most recently,
// even if prompts repeat and diverge. Within a prompt, the first block counts as the newest. If a
// prompt is too large, the engine has only a prefix of it.
func TestOrderOfBlocks(outer *testing.T) {
	rapid.Check(outer, func(t *rapid.T) {
		const most = 8
		d, targets := newTestPrefixIndex(outer, "a", "b")
		h := &d.memberCaches[targets[0].engineNumber]
		var want []uint64 // newest block first
		for range rapid.IntRange(1, 12).Draw(t, "prompts") {
			h.maxBlocks = most
			way, n := rapid.Uint64Range(1, 3).Draw(t, "way"), rapid.IntRange(1, 12).Draw(t, "blocks")
			parted := rapid.IntRange(0, n).Draw(t, "parted")
			prompt := make([]uint64, n)
			for i := range prompt {
				if prompt[i] = uint64(i + 1); i >= parted {
					prompt[i] += 100 * way
				}
			}
			d.recordPrompt(prompt, &targets[0], 0)
			prompt = prompt[:min(n, most)]
			kept := slices.DeleteFunc(want, func(b uint64) bool { return slices.Contains(prompt, b) })
			want = append(slices.Clone(prompt), kept...)
			want = want[:min(len(want), most)]
			var got, back []uint64
			for i := h.newest; i != 0; i = d.links.at(i).older {
				got = append(got, d.entries.at(d.links.at(i).entry).block)
			}
			for i := h.oldest; i != 0; i = d.links.at(i).newer {
				back = append(back, d.entries.at(d.links.at(i).entry).block)
			}
			slices.Reverse(back)
			if !slices.Equal(got, want) || !slices.Equal(back, want) || h.blocks != len(want) || len(d.entryByBlock) != len(want) {
				t.Fatalf("%d after %d: %d, from the other end %d, of %d", got, prompt, want, back, h.blocks)
			}
		}
	})
}
