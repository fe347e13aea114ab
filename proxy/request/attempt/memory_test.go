package attempt

import (
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"penstock/proxy/access/limit"
)

// TestMemory checks random sequences of operations. The reservation in the budget must always equal
// what the calls use beyond the free amount, and a rejected operation must change nothing. At the
// end, all memory must have been released exactly once. The calls of one key may use at most half
// of the budget, unless a single call uses more.
func TestMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 1 << 20
		budget := limit.NewMemory(most)
		var key atomic.Int64
		calls := make([]Memory, 4)
		for i := range calls {
			if calls[i].Budget = budget; i > 1 {
				calls[i].Key = &key
			}
		}
		part := rapid.Custom(func(t *rapid.T) Part { return Part(rapid.IntRange(0, int(parts)-1).Draw(t, "part")) })
		size := rapid.OneOf(rapid.IntRange(0, 2*free), rapid.IntRange(0, most))
		pick := func() *Memory { return &calls[rapid.IntRange(0, len(calls)-1).Draw(t, "call")] }
		change := func(do func(h *Memory, p Part, n int) error) func(*rapid.T) {
			return func(t *rapid.T) {
				h, p, n := pick(), part.Draw(t, "part"), size.Draw(t, "size")
				before := *h
				if err := do(h, p, n); err != nil {
					if *h != before || int64(n) <= before.parts[p] {
						t.Fatalf("refused %d, and %+v became %+v", n, before, *h)
					}
				} else if h.parts[p] != int64(n) {
					t.Fatalf("a part of %d holds %d", n, h.parts[p])
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"hold": change((*Memory).Hold),
			"replace": change(func(h *Memory, p Part, n int) error {
				before := *h
				if err := h.replace(p, n); err != nil {
					if *h != before {
						t.Fatalf("refused, and %+v became %+v", before, *h)
					}
					*h = before
					// Even a smaller buffer may be rejected, because both buffers exist for a
					// while.
					return h.Hold(p, n)
				}
				return nil
			}),
			"give":    func(t *rapid.T) { pick().Free(part.Draw(t, "part")) },
			"release": func(t *rapid.T) { pick().Release() },
			"": func(t *rapid.T) {
				var want int64
				for i := range calls {
					var held int64
					for _, n := range calls[i].parts {
						held += n
					}
					want += max(held-free, 0)
				}
				if budget.Used() != want || want > most {
					t.Fatalf("%d are taken of %d, want %d", budget.Used(), most, want)
				}
				one, other := calls[2].reserved, calls[3].reserved
				if key.Load() != one+other || one > 0 && other > 0 && one+other > most/keyShare {
					t.Fatalf("the key holds %d of %d: %d and %d", key.Load(), most, one, other)
				}
			},
		})
		for i := range calls {
			calls[i].Release()
			calls[i].Release()
		}
		if budget.Used() != 0 || key.Load() != 0 {
			t.Fatalf("%d are left, %d of them of the key", budget.Used(), key.Load())
		}
	})
}

// TestMemoryOfKey checks that the responses of one key use at most half of the budget in total, and
// that a single response may use all of it.
func TestMemoryOfKey(t *testing.T) {
	var slow atomic.Int64
	budget := limit.NewMemory(1000)
	a, b, other := Memory{Budget: budget, Key: &slow}, Memory{Budget: budget, Key: &slow}, Memory{Budget: budget, Key: new(atomic.Int64)}
	if a.Hold(PartOut, free+400) != nil || b.Hold(PartOut, free+101) == nil || b.Hold(PartOut, free+100) != nil {
		t.Errorf("the replies of a key hold %d of 1000, want half", slow.Load())
	}
	if other.Hold(PartOut, free+500) != nil {
		t.Error("no room for another key")
	}
	for _, m := range []*Memory{&a, &b, &other} {
		m.Release()
	}
	if a.Hold(PartOut, free+1000) != nil || slow.Load() != 1000 {
		t.Errorf("a single reply of a key holds %d of 1000", slow.Load())
	}
}

// TestMemorySmall checks that calls with small responses neither reserve memory nor allocate.
func TestMemorySmall(t *testing.T) {
	h := Memory{Budget: limit.NewMemory(0)}
	if n := testing.AllocsPerRun(100, func() {
		if h.Hold(PartBody, free/2) != nil || h.replace(PartEvent, free/4) != nil {
			t.Fatal("refused")
		}
		h.Release()
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
	if h.Hold(PartOut, free+1) == nil {
		t.Error("more than is free was not counted")
	}
}
