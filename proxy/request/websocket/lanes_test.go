package websocket

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"penstock/proxy/access/limit"
)

// TestLanes compares the lanes with a simple reference implementation. If a response can be
// continued, its lane must contain exactly the items of its conversation. In total, the
// conversations must not exceed the limit or half of the budget, and must use the recorded amount
// of memory.
func TestLanes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := int64(rapid.IntRange(10, 200).Draw(t, "limit"))
		budget := limit.NewMemory(int64(rapid.IntRange(10, 400).Draw(t, "budget")))
		l := lanes{memory: &memory{bodies: budget}, limit: func() int64 { return most }}
		chains := map[string]string{} // conversations, keyed by the id of their last response
		for n := range rapid.IntRange(1, 60).Draw(t, "turns") {
			to := l.at(rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "lane"))
			previous := rapid.SampledFrom(append([]string{""}, held(&l)...)).Draw(t, "previous")
			from := l.holding(previous)
			if previous != "" && (from == nil || string(from.items) != chains[previous]) {
				t.Fatalf("%s: %v, want %q", previous, from, chains[previous])
			}
			if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
				if from != nil {
					l.drop(from)
				}
				continue
			}
			id := fmt.Sprint("resp_", n)
			input := strings.Repeat("i", rapid.IntRange(0, 40).Draw(t, "input"))
			output := strings.Repeat("o", rapid.IntRange(0, 40).Draw(t, "output"))
			var parts []string
			for _, p := range []string{chains[previous], input, output} {
				if p != "" {
					parts = append(parts, p)
				}
			}
			chains[id] = strings.Join(parts, ",")
			var pieces [][]byte
			if input != "" {
				pieces = [][]byte{[]byte(input[:1]), []byte(input[1:])}
			}
			l.keep(to, from, id, pieces, []byte(output))
			if fits := int64(len(chains[id])) <= most; to.last != "" && !fits {
				t.Fatalf("%d bytes are kept of %d", len(to.items), most)
			}
			var sum int64
			for _, x := range l.list {
				sum += int64(len(x.items))
			}
			if sum > most || sum > budget.Limit()/2 || budget.Used() != sum || l.memory.held.Load() != sum {
				t.Fatalf("%d bytes of %d are kept, and %d counted", sum, most, budget.Used())
			}
		}
		l.release()
		if budget.Used() != 0 {
			t.Fatalf("%d bytes are left", budget.Used())
		}
	})
}

func held(l *lanes) (ids []string) {
	for _, x := range l.list {
		if x.last != "" {
			ids = append(ids, x.last)
		}
	}
	return ids
}

// TestLeastRecentlyUsedLaneLeavesFirst checks that the least recently used lane loses its
// conversation first. The lane that a turn continues must never lose its conversation.
func TestLeastRecentlyUsedLaneLeavesFirst(t *testing.T) {
	l := lanes{memory: &memory{bodies: limit.NewMemory(1 << 20)}, limit: func() int64 { return 30 }}
	ten := []byte("0123456789")
	for _, name := range []string{"a", "b", "c"} {
		l.keep(l.at(name), nil, name, [][]byte{ten}, nil)
	}
	l.at("a") // used again
	l.keep(l.at("d"), nil, "d", [][]byte{ten}, nil)
	if got := strings.Join(held(&l), " "); got != "c a d" {
		t.Errorf("kept %s, want c a d", got)
	}
	l.keep(l.at("e"), l.holding("c"), "e", [][]byte{ten[:8]}, nil) // continues c and has 19 bytes
	if got := strings.Join(held(&l), " "); got != "c e" {
		t.Errorf("kept %s, want c e", got)
	}
	l.keep(l.at("e"), l.holding("e"), "f", [][]byte{ten}, ten)
	if got := strings.Join(held(&l), " "); got != "" && got != "c" {
		t.Errorf("kept %s, want nothing or c", got)
	}
}

// TestLanes_Share checks that the conversations of one key may use half of the memory for
// conversations, across all its connections. A single conversation may use all of that memory.
func TestLanes_Share(t *testing.T) {
	m := &memory{bodies: limit.NewMemory(400)}
	var one, other atomic.Int64
	connection := func(of *atomic.Int64) *lanes {
		return &lanes{memory: m, ofKey: of, limit: func() int64 { return 1000 }}
	}
	keep := func(l *lanes, n int) bool {
		x := l.at("")
		l.keep(x, nil, "resp", nil, make([]byte, n))
		return x.last != ""
	}
	a, b, c, d := connection(&one), connection(&one), connection(&one), connection(&other)
	if !keep(a, 60) || !keep(b, 40) || keep(c, 1) {
		t.Errorf("%d bytes of a key are kept, want 100", one.Load())
	}
	if !keep(d, 100) || m.held.Load() != 200 {
		t.Errorf("%d bytes are kept, want another key's 100, too", m.held.Load())
	}
	for _, l := range []*lanes{a, b, c, d} {
		l.release()
	}
	if one.Load() != 0 || other.Load() != 0 || !keep(a, 200) {
		t.Errorf("%d and %d bytes are counted at rest, or a single conversation has no room", one.Load(), other.Load())
	}
}
