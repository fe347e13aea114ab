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
// continued, its lane must contain exactly the items of its conversation. The total size of the
// conversations must not exceed the limit or half of the budget, and must equal the reserved
// memory.
func TestLanes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := int64(rapid.IntRange(10, 200).Draw(t, "limit"))
		budget := limit.NewMemoryBudget(int64(rapid.IntRange(10, 400).Draw(t, "budget")))
		l := conversationLanes{memory: &conversationMemory{bodyMemory: budget}, limit: func() int64 { return most }}
		chains := map[string]string{} // conversations, keyed by the id of their last response
		for n := range rapid.IntRange(1, 60).Draw(t, "turns") {
			to := l.getOrCreate(rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "lane"))
			previous := rapid.SampledFrom(append([]string{""}, lastResponseIDs(&l)...)).Draw(t, "previous")
			from := l.findByResponse(previous)
			if previous != "" && (from == nil || string(from.inputItems) != chains[previous]) {
				t.Fatalf("%s: %v, want %q", previous, from, chains[previous])
			}
			if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
				if from != nil {
					l.dropConversation(from)
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
			l.storeResponse(to, from, id, pieces, []byte(output))
			if fits := int64(len(chains[id])) <= most; to.lastResponseID != "" && !fits {
				t.Fatalf("%d bytes are kept of %d", len(to.inputItems), most)
			}
			var sum int64
			for _, x := range l.list {
				sum += int64(len(x.inputItems))
			}
			if sum > most || sum > budget.Limit()/2 || budget.UsedBytes() != sum || l.memory.reserved.Load() != sum {
				t.Fatalf("%d bytes of %d are kept, and %d counted", sum, most, budget.UsedBytes())
			}
		}
		l.release()
		if budget.UsedBytes() != 0 {
			t.Fatalf("%d bytes are left", budget.UsedBytes())
		}
	})
}

func lastResponseIDs(l *conversationLanes) (ids []string) {
	for _, x := range l.list {
		if x.lastResponseID != "" {
			ids = append(ids, x.lastResponseID)
		}
	}
	return ids
}

// TestLeastRecentlyUsedLaneLeavesFirst checks that the least recently used lane loses its
// conversation first. The lane that a turn continues must never lose its conversation.
func TestLeastRecentlyUsedLaneLeavesFirst(t *testing.T) {
	l := conversationLanes{memory: &conversationMemory{bodyMemory: limit.NewMemoryBudget(1 << 20)}, limit: func() int64 { return 30 }}
	ten := []byte("0123456789")
	for _, name := range []string{"a", "b", "c"} {
		l.storeResponse(l.getOrCreate(name), nil, name, [][]byte{ten}, nil)
	}
	l.getOrCreate("a") // makes b the least recently used lane
	l.storeResponse(l.getOrCreate("d"), nil, "d", [][]byte{ten}, nil)
	if got := strings.Join(lastResponseIDs(&l), " "); got != "c a d" {
		t.Errorf("kept %s, want c a d", got)
	}
	// This continues the conversation of c, which then has 19 bytes.
	l.storeResponse(l.getOrCreate("e"), l.findByResponse("c"), "e", [][]byte{ten[:8]}, nil)
	if got := strings.Join(lastResponseIDs(&l), " "); got != "c e" {
		t.Errorf("kept %s, want c e", got)
	}
	l.storeResponse(l.getOrCreate("e"), l.findByResponse("e"), "f", [][]byte{ten}, ten)
	if got := strings.Join(lastResponseIDs(&l), " "); got != "" && got != "c" {
		t.Errorf("kept %s, want nothing or c", got)
	}
}

// TestLanes_Share checks that the conversations of one key on all its connections may use half of
// the memory for conversations. A single conversation may use all of that memory.
func TestLanes_Share(t *testing.T) {
	m := &conversationMemory{bodyMemory: limit.NewMemoryBudget(400)}
	var one, other atomic.Int64
	connection := func(of *atomic.Int64) *conversationLanes {
		return &conversationLanes{memory: m, keyBytes: of, limit: func() int64 { return 1000 }}
	}
	keep := func(l *conversationLanes, n int) bool {
		x := l.getOrCreate("")
		l.storeResponse(x, nil, "resp", nil, make([]byte, n))
		return x.lastResponseID != ""
	}
	a, b, c, d := connection(&one), connection(&one), connection(&one), connection(&other)
	if !keep(a, 60) || !keep(b, 40) || keep(c, 1) {
		t.Errorf("%d bytes of a key are kept, want 100", one.Load())
	}
	if !keep(d, 100) || m.reserved.Load() != 200 {
		t.Errorf("%d bytes are kept, want another key's 100, too", m.reserved.Load())
	}
	for _, l := range []*conversationLanes{a, b, c, d} {
		l.release()
	}
	if one.Load() != 0 || other.Load() != 0 || !keep(a, 200) {
		t.Errorf("%d and %d bytes are counted at rest, or a single conversation has no room", one.Load(), other.Load())
	}
}
