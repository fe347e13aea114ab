package routing

import (
	"fmt"
	"slices"
	"testing"

	"penstock/config"
	"penstock/upstreams"
)

// known is how many leading blocks of a prompt the directory has somebody for.
func (d *directory) known(blocks []uint64) int {
	n, _, _ := d.deepest(blocks, &members{})
	return n
}

func TestDirectory(t *testing.T) {
	p := plan(t, upstream("a", 64), upstream("b", 64), upstream("c", 64))
	r := lookup(t, table(t, p, model("m", config.PolicyPrefixAffinity, "a", "b", "c")), "m")
	d := r.directory
	blocks := HashBlocks(nil, 1, conversation(3))
	if len(blocks) < 8 {
		t.Fatalf("%d blocks are too few for this test", len(blocks))
	}
	if n := d.known(blocks); n != 0 {
		t.Errorf("%d blocks known of what was never sent", n)
	}
	a, b := r.targets[0].member, r.targets[1].member
	for n := range len(blocks) + 1 { // every length, so that every way of halving is tried
		d.learn(blocks[:n], a)
		if got := d.known(blocks); got != n {
			t.Errorf("%d of %d blocks known", got, n)
		}
	}
	d.learn(blocks[:2], b)
	var not members
	if n, who, _ := d.deepest(blocks, &not); n != len(blocks) || !who.has(a) || who.has(b) {
		t.Errorf("%d blocks, by %v", n, who)
	}
	only := members{}
	only[a/64] |= 1 << (a % 64)
	not.add(&only)
	if n, who, _ := d.deepest(blocks, &not); n != 2 || who.has(a) || !who.has(b) {
		t.Errorf("without the first: %d blocks, by %v", n, who)
	}
	only = members{}
	only[b/64] |= 1 << (b % 64)
	not.add(&only)
	if n, _, _ := d.deepest(blocks, &not); n != 0 {
		t.Errorf("without both: %d blocks", n)
	}
}

// The end of a prompt is forgotten before its beginning: halving relies on it.
func TestDirectoryForgetsTheEnd(t *testing.T) {
	p := plan(t, upstream("a", 64))
	r := lookup(t, table(t, p, model("m", config.PolicyPrefixAffinity, "a")), "m")
	r.directory.blocks.Resize(12)
	first := HashBlocks(nil, 1, conversation(1))[:8]
	for id := range 5 {
		r.directory.learn(first, r.targets[0].member)
		r.directory.learn(HashBlocks(nil, 1, conversation(id+2))[:8], r.targets[0].member)
		n := r.directory.known(first)
		if n == 0 || n == len(first) {
			t.Errorf("%d of %d blocks are known", n, len(first))
		}
		for i, b := range first {
			if r.directory.blocks.Contains(b) != (i < n) {
				t.Errorf("block %d of %d: known %t", i, n, i >= n)
			}
		}
	}
}

func TestDirectoryOutlivesReload(t *testing.T) {
	p := plan(t, upstream("a", 64), upstream("b", 64), upstream("c", 64))
	build := func(before *Table, ups ...string) (*Table, *Route) {
		tab, err := Build(&config.File{Models: []config.Model{model("m", config.PolicyPrefixAffinity, ups...)}}, p, before)
		if err != nil {
			t.Fatal(err)
		}
		return tab, lookup(t, tab, "m")
	}
	before, r := build(nil, "a", "b")
	blocks := HashBlocks(nil, 1, conversation(3))
	r.directory.learn(blocks, r.targets[1].member)
	_, r = build(before, "b", "c") // in another order, with another neighbour
	n, who, _ := r.directory.deepest(blocks, &members{})
	if n != len(blocks) || !who.has(r.targets[0].member) || who.has(r.targets[1].member) {
		t.Errorf("%d of %d blocks known, by %v", n, len(blocks), who)
	}
	if l, _, err := r.Acquire(&Query{Now: t0, Prefix: blocks}); err != nil || l.Upstream().Name() != "b" {
		t.Errorf("not where it is known: %v", err)
	}
}

// What one model learned is not another's, though it has the name now that was the other's alias.
func TestDirectoryIsTheModels(t *testing.T) {
	p := plan(t, upstream("a", 64))
	first := model("m", config.PolicyPrefixAffinity, "a")
	first.Aliases = []string{"n"}
	before := table(t, p, first)
	first.Aliases = nil
	after, err := Build(&config.File{Models: []config.Model{first, model("n", config.PolicyPrefixAffinity, "a")}}, p, before)
	if err != nil {
		t.Fatal(err)
	}
	m, n := lookup(t, after, "m"), lookup(t, after, "n")
	if m.directory.blocks != lookup(t, before, "m").directory.blocks || n.directory.blocks == m.directory.blocks || n.rotor == m.rotor {
		t.Error("the model does not go on with what it had, or another one does")
	}
}

// A route that is larger than a set of members goes on working: some targets share a place.
func TestDirectoryOfManyMembers(t *testing.T) {
	var ups []config.Upstream
	var names []string
	for i := range maxMembers + 40 {
		names = append(names, fmt.Sprint("u", i))
		ups = append(ups, upstream(names[i], 64))
	}
	r := lookup(t, table(t, plan(t, ups...), model("m", config.PolicyPrefixAffinity, names...)), "m")
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
			if u := r.targets[i].Upstream; u == first.Upstream() && r.targets[i].member != target.member {
				t.Errorf("conversation %d moved from %s to %s", id, u.Name(), again.Upstream().Name())
			}
		}
		again.Release(upstreams.OutcomeOK)
	}
}

// What tells the next turn of a conversation from one of many that begin alike.
func TestDirectoryCrowd(t *testing.T) {
	p := plan(t, upstream("a", 64))
	r := lookup(t, table(t, p, model("m", config.PolicyPrefixAffinity, "a")), "m")
	d, m := r.directory, r.targets[0].member
	shared := func(blocks []uint64) crowd {
		_, _, c := d.deepest(blocks, &members{})
		return c
	}
	system := HashBlocks(nil, 1, conversation(0))[:3]
	with := func(own ...uint64) []uint64 { return append(slices.Clone(system), own...) }
	for turn := range 10 { // one conversation, in turns of a block
		prompt := with()
		for i := range turn {
			prompt = append(prompt, uint64(100+i))
		}
		if c := shared(prompt); c != alone {
			t.Errorf("turn %d: crowd %d", turn, c)
		}
		d.learn(prompt, m)
	}
	if c := shared(with(7, 8)); c != few {
		t.Errorf("a second conversation: crowd %d", c)
	}
	for id := range uint64(manyForks) {
		d.learn(with(1000+id), m)
	}
	if c := shared(with(7, 8)); c != many {
		t.Errorf("after %d others: crowd %d", manyForks, c)
	}
	if c := shared(with(100, 101, 102, 103, 104, 105, 106, 107, 108, 109)); c != alone {
		t.Errorf("the first conversation, in the middle of them: crowd %d", c)
	}
	if c := shared(system); c != alone {
		t.Errorf("as much as all have in common: crowd %d", c)
	}
	short := with(5) // prompts that differ by less than a block
	d.learn(short, m)
	for range manyEnds - 1 {
		if c := shared(short); c == many {
			t.Error("the short turns of a conversation are taken for many")
		}
		d.learn(short, m)
	}
	if c := shared(short); c != many {
		t.Errorf("after %d prompts that end alike: crowd %d", manyEnds, c)
	}
	if c := shared(with(5, 6)); c != alone {
		t.Errorf("a conversation that goes on where they end: crowd %d", c)
	}
}
