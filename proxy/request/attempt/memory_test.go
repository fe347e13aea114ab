package attempt

import (
	"testing"

	"pgregory.net/rapid"

	"penstock/proxy/access/limit"
)

// TestMemory checks random sequences of operations. The budget must always hold what the calls
// hold beyond the free amount, and a refusal must change nothing. In the end everything must be
// released exactly once, including handed-over answers.
func TestMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 1 << 20
		budget := limit.NewMemory(most)
		calls := make([]Memory, 3)
		for i := range calls {
			calls[i].Budget = budget
		}
		var answers int64 // reservations that were handed over
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
					return h.Hold(p, n) // a smaller one may be refused too: both exist for a while
				}
				return nil
			}),
			"give":     func(t *rapid.T) { pick().Free(part.Draw(t, "part")) },
			"handOver": func(t *rapid.T) { answers += pick().HandOver(part.Draw(t, "part")) },
			"release":  func(t *rapid.T) { pick().Release() },
			"": func(t *rapid.T) {
				want := answers
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
			},
		})
		for i := range calls {
			calls[i].Release()
			calls[i].Release()
		}
		budget.Discard(answers)
		if budget.Used() != 0 {
			t.Fatalf("%d are left", budget.Used())
		}
	})
}

// TestMemorySmall checks that calls with small replies use neither the budget nor the allocator.
func TestMemorySmall(t *testing.T) {
	h := Memory{Budget: limit.NewMemory(0)}
	if n := testing.AllocsPerRun(100, func() {
		if h.Hold(PartBody, free/2) != nil || h.replace(PartEvent, free/4) != nil {
			t.Fatal("refused")
		}
		h.Release()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if h.Hold(PartOut, free+1) == nil {
		t.Error("more than is free was not counted")
	}
}
