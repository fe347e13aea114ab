package money

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "100.00": "100", "0.075": "0.075", "0.000001": "0.000001", "12.5": "12.5", "1000000000000": "1000000000000",
	} {
		if got, err := Parse(text); err != nil || got.String() != want {
			t.Errorf("Parse(%q) = %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "1e3", ".5", "5.", "1.0000001", "1,5", "99999999999999", "$1", "0x10", "1.2.3"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %s, want an error", text, got)
		}
	}
}

// TestCallCostIsExact compares sums of costs with exact arithmetic, and checks that their text form
// is exact.
func TestCallCostIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Price{
			Input: rapid.Int64Range(0, 1e9).Draw(t, "input"), Cached: rapid.Int64Range(0, 1e9).Draw(t, "cached"),
			Output: rapid.Int64Range(0, 1e9).Draw(t, "output"),
		}
		sum, exact := Amount{}, new(big.Int)
		for range rapid.IntRange(1, 50).Draw(t, "calls") {
			prompt, completion := rapid.IntRange(0, 1<<30).Draw(t, "prompt"), rapid.IntRange(0, 1<<30).Draw(t, "completion")
			cached := rapid.IntRange(0, prompt).Draw(t, "cached")
			sum = sum.Plus(p.CallCost(prompt, cached, completion))
			for _, part := range [][2]int64{{p.Input, int64(prompt - cached)}, {p.Cached, int64(cached)}, {p.Output, int64(completion)}} {
				exact.Add(exact, new(big.Int).Mul(big.NewInt(part[0]), big.NewInt(part[1])))
			}
		}
		got := new(big.Int).Mul(big.NewInt(sum.Micros), big.NewInt(perMillion))
		if got.Add(got, big.NewInt(int64(sum.Picos))); got.Cmp(exact) != 0 {
			t.Fatalf("%s, want %s", got, exact)
		}
		text, _ := sum.MarshalText()
		var back Amount
		if err := back.UnmarshalText(text); err != nil || back != sum {
			t.Fatalf("%s is read as %s, %v", text, back, err)
		}
	})
}

func TestPrice(t *testing.T) {
	for _, c := range []struct {
		pricing map[string]any
		want    Price
	}{
		{nil, Price{}},
		{map[string]any{"input": "0.10", "output": "0.40"}, Price{100_000, 100_000, 400_000}},
		{map[string]any{"input": 3, "output": 15.5, "cached_input": "0.3"}, Price{3_000_000, 300_000, 15_500_000}},
		{map[string]any{"input": "on request", "currency": "EUR"}, Price{}},
	} {
		if got := ParsePrice(c.pricing); got != c.want {
			t.Errorf("ParsePrice(%v) = %+v, want %+v", c.pricing, got, c.want)
		}
	}
}
