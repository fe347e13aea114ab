package routing

import (
	"math/rand/v2"
	"testing"
	"time"

	"penstock/config"
	"penstock/upstreams"
)

// sharingTable builds the route of an edge that shares placements with other edges.
func sharingTable(t *testing.T, keep *Table, names ...string) *Table {
	t.Helper()
	var ups []config.Upstream
	for _, name := range names {
		ups = append(ups, upstream(name, 8))
	}
	f := &config.File{Models: []config.Model{model("m", config.PolicyLeastLoaded, names...)}}
	f.Fleet.Store.URL = "redis://store"
	tab, err := BuildTable(f, plan(t, ups...), keep)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func randomBlocks(n int) (all []uint64) {
	for range n {
		all = append(all, rand.Uint64())
	}
	return all
}

func acquireAndRelease(t *testing.T, tab *Table, prompt []uint64, not ...upstreams.ID) upstreams.ID {
	t.Helper()
	l, _, err := tab.Routes()[0].Acquire(&Query{Prefix: prompt, Exclude: not, Now: time.Now(), Rand: rand.Uint64()})
	if err != nil {
		t.Fatal(err)
	}
	l.Release(upstreams.OutcomeOK)
	return l.Upstream().ID()
}

// TestPlacementsMoveConversations checks that if one edge has moved a conversation, all edges send
// it to the new engine, even edges that have never seen the conversation. If later turns also go to
// the new engine, no placement may be shared again.
func TestPlacementsMoveConversations(t *testing.T) {
	a, b := sharingTable(t, nil, "e0", "e1", "e2", "e3"), sharingTable(t, nil, "e0", "e1", "e2", "e3")
	placesA, placesB := PlacementsOfRoute(a.Routes()[0]), PlacementsOfRoute(b.Routes()[0])
	exchange := func() (told int) {
		fresh := placesA.TakeUnshared(nil)
		fresh = placesB.TakeUnshared(fresh)
		placesA.AddFromFleet(fresh)
		placesB.AddFromFleet(fresh)
		return len(fresh)
	}
	for range 50 {
		prompt := randomBlocks(9)
		home := acquireAndRelease(t, a, prompt)
		moved := acquireAndRelease(t, a, prompt, home) // moves the conversation, as after a failure of home
		if moved == home {
			t.Fatal("it was excluded")
		}
		if n := exchange(); n != 2 {
			t.Fatalf("%d placements of a first turn and a move", n)
		}
		for turn := range 3 {
			prompt = append(prompt, randomBlocks(2)...)
			if at := acquireAndRelease(t, []*Table{b, a, b}[turn], prompt); at != moved {
				t.Fatalf("turn %d goes to %s, the conversation is at %s", turn, at, moved)
			}
			if n := exchange(); n != 0 {
				t.Fatalf("turn %d is told %d times, although it stays", turn, n)
			}
		}
	}
}

// TestPlacementsOfFirstConversations checks the first conversations of a route. They share a
// prefix, but no edge has seen that prefix often enough to treat it as shared. The other edges
// still learn at which engine each conversation began, even if the calls have no session.
func TestPlacementsOfFirstConversations(t *testing.T) {
	for _, sessions := range []bool{false, true} {
		a, b := sharingTable(t, nil, "e0", "e1", "e2"), sharingTable(t, nil, "e0", "e1", "e2")
		system := randomBlocks(11)
		prompts, at := make([][]uint64, 6), make([]upstreams.ID, 6)
		turn := func(tab *Table, i int) (to upstreams.ID, told []Placement) {
			prompts[i] = append(prompts[i], randomBlocks(2)...)
			q := Query{Prefix: prompts[i], Now: time.Now(), Rand: rand.Uint64()}
			if sessions {
				q.Session = uint64(1 + i)
			}
			l, _, err := tab.Routes()[0].Acquire(&q)
			if err != nil {
				t.Fatal(err)
			}
			l.Release(upstreams.OutcomeOK)
			return l.Upstream().ID(), PlacementsOfRoute(tab.Routes()[0]).TakeUnshared(nil)
		}
		for i := range prompts {
			prompts[i] = append(prompts[i], system...)
			var told []Placement
			if at[i], told = turn(a, i); len(told) != 1 {
				t.Fatalf("sessions %v: %d placements of conversation %d", sessions, len(told), i)
			}
			PlacementsOfRoute(a.Routes()[0]).AddFromFleet(told)
			PlacementsOfRoute(b.Routes()[0]).AddFromFleet(told)
		}
		for n, tab := range []*Table{a, b, b, a} {
			for i := range prompts {
				to, told := turn(tab, i)
				if to != at[i] {
					t.Errorf("sessions %v: follow-up %d of conversation %d goes to %s, want %s", sessions, n, i, to, at[i])
				}
				if len(told) != 0 {
					t.Errorf("sessions %v: follow-up %d of conversation %d is told", sessions, n, i)
				}
			}
		}
	}
}

// TestPlacementsOfSharedPrompts checks that conversations with a common prefix are spread over the
// engines. The prefix itself has no placement.
func TestPlacementsOfSharedPrompts(t *testing.T) {
	a, b := sharingTable(t, nil, "e0", "e1", "e2", "e3"), sharingTable(t, nil, "e0", "e1", "e2", "e3")
	system := randomBlocks(20)
	p := PlacementsOfRoute(b.Routes()[0])
	for range minSharedBlockPrompts {
		p.AddFromFleet([]Placement{{system[19], a.Routes()[0].targets[1].rankHash}})
	}
	seen := map[upstreams.ID]bool{}
	for range 60 {
		seen[acquireAndRelease(t, b, append(system[:20:20], randomBlocks(2)...))] = true
	}
	if len(seen) != 4 {
		t.Errorf("they go to %v", seen)
	}
}

// TestPlacementsAreBounded checks that placements survive reloads, that placements at unknown
// upstreams are ignored, and that the number of unshared placements is limited. If the fleet has no
// store, PlacementsOfRoute returns nil.
func TestPlacementsAreBounded(t *testing.T) {
	a := sharingTable(t, nil, "e0", "e1")
	p := PlacementsOfRoute(a.Routes()[0])
	prompt := randomBlocks(5)
	p.AddFromFleet([]Placement{{prompt[4], 12345}})
	acquireAndRelease(t, a, prompt)
	p.TakeUnshared(nil)
	for range 2 * maxUnsharedPlacements {
		p.queueUnshared(Placement{rand.Uint64(), 1})
	}
	if n := len(p.TakeUnshared(nil)); n != maxUnsharedPlacements {
		t.Errorf("%d wait to be told", n)
	}
	if again := sharingTable(t, a, "e0", "e1"); PlacementsOfRoute(again.Routes()[0]) != p {
		t.Error("a reload has lost the places")
	}
	f := &config.File{Models: []config.Model{model("m", config.PolicyLeastLoaded, "e0")}}
	tab, err := BuildTable(f, plan(t, upstream("e0", 8)), nil)
	if err != nil || PlacementsOfRoute(tab.Routes()[0]) != nil {
		t.Errorf("an edge alone tells placements: %v", err)
	}
}
