package attempt

import (
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"penstock/proxy/access/limit"
)

// TestMemory checks random sequences of operations. The reserved bytes must always equal the bytes
// that the calls use in excess of unreservedBytes per call. A rejected operation must change
// nothing. At the end, all memory must have been released exactly once. The calls of one key may
// use at most half of the budget, unless a single call uses more.
func TestMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 1 << 20
		budget := limit.NewMemoryBudget(most)
		var key atomic.Int64
		calls := make([]ReplyMemory, 4)
		for i := range calls {
			if calls[i].Budget = budget; i > 1 {
				calls[i].Key = &key
			}
		}
		part := rapid.Custom(func(t *rapid.T) MemoryPart {
			return MemoryPart(rapid.IntRange(0, int(memoryPartCount)-1).Draw(t, "part"))
		})
		size := rapid.OneOf(rapid.IntRange(0, 2*unreservedBytes), rapid.IntRange(0, most))
		pick := func() *ReplyMemory { return &calls[rapid.IntRange(0, len(calls)-1).Draw(t, "call")] }
		change := func(do func(h *ReplyMemory, p MemoryPart, n int) error) func(*rapid.T) {
			return func(t *rapid.T) {
				h, p, n := pick(), part.Draw(t, "part"), size.Draw(t, "size")
				before := *h
				if err := do(h, p, n); err != nil {
					if *h != before || int64(n) <= before.partBytes[p] {
						t.Fatalf("refused %d, and %+v became %+v", n, before, *h)
					}
				} else if h.partBytes[p] != int64(n) {
					t.Fatalf("a part of %d holds %d", n, h.partBytes[p])
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"hold": change((*ReplyMemory).SetPartSize),
			"replace": change(func(h *ReplyMemory, p MemoryPart, n int) error {
				before := *h
				if err := h.replaceBuffer(p, n); err != nil {
					if *h != before {
						t.Fatalf("refused, and %+v became %+v", before, *h)
					}
					*h = before
					// Even a smaller buffer may be rejected, because the old and the new buffer
					// exist together for a short time.
					return h.SetPartSize(p, n)
				}
				return nil
			}),
			"give":    func(t *rapid.T) { pick().FreePart(part.Draw(t, "part")) },
			"release": func(t *rapid.T) { pick().Release() },
			"": func(t *rapid.T) {
				var want int64
				for i := range calls {
					var held int64
					for _, n := range calls[i].partBytes {
						held += n
					}
					want += max(held-unreservedBytes, 0)
				}
				if budget.UsedBytes() != want || want > most {
					t.Fatalf("%d are taken of %d, want %d", budget.UsedBytes(), most, want)
				}
				one, other := calls[2].reserved, calls[3].reserved
				if key.Load() != one+other || one > 0 && other > 0 && one+other > most/keyShareDivisor {
					t.Fatalf("the key holds %d of %d: %d and %d", key.Load(), most, one, other)
				}
			},
		})
		for i := range calls {
			calls[i].Release()
			calls[i].Release()
		}
		if budget.UsedBytes() != 0 || key.Load() != 0 {
			t.Fatalf("%d are left, %d of them of the key", budget.UsedBytes(), key.Load())
		}
	})
}

// TestMemoryOfKey checks that the responses of one key together use at most half of the budget. A
// single response may use all of it.
func TestMemoryOfKey(t *testing.T) {
	var slow atomic.Int64
	budget := limit.NewMemoryBudget(1000)
	a, b, other := ReplyMemory{Budget: budget, Key: &slow}, ReplyMemory{Budget: budget, Key: &slow}, ReplyMemory{Budget: budget, Key: new(atomic.Int64)}
	if a.SetPartSize(ClientOutputMemory, unreservedBytes+400) != nil || b.SetPartSize(ClientOutputMemory, unreservedBytes+101) == nil || b.SetPartSize(ClientOutputMemory, unreservedBytes+100) != nil {
		t.Errorf("the replies of a key hold %d of 1000, want half", slow.Load())
	}
	if other.SetPartSize(ClientOutputMemory, unreservedBytes+500) != nil {
		t.Error("no room for another key")
	}
	for _, m := range []*ReplyMemory{&a, &b, &other} {
		m.Release()
	}
	if a.SetPartSize(ClientOutputMemory, unreservedBytes+1000) != nil || slow.Load() != 1000 {
		t.Errorf("a single reply of a key holds %d of 1000", slow.Load())
	}
}

// TestMemorySmall checks that calls with small responses neither reserve memory nor allocate.
func TestMemorySmall(t *testing.T) {
	h := ReplyMemory{Budget: limit.NewMemoryBudget(0)}
	if n := testing.AllocsPerRun(100, func() {
		if h.SetPartSize(ResponseBodyMemory, unreservedBytes/2) != nil || h.replaceBuffer(EventReaderMemory, unreservedBytes/4) != nil {
			t.Fatal("refused")
		}
		h.Release()
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
	if h.SetPartSize(ClientOutputMemory, unreservedBytes+1) == nil {
		t.Error("more than is free was not counted")
	}
}
