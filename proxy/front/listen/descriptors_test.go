package listen

import "testing"

func TestAffordableConns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ wanted, others, limit, want int }{
		{20_000, 2, 0, 20_000},
		{20_000, 2, 1 << 20, 20_000},
		{20_000, 2, 20_000, 9871},
		{20_000, 2, 1024, 397},
		{100, 2, 1024, 100},
		{20_000, 2, 64, 4},
		{20_000, 100, 64, 1},
	} {
		got := affordableConns(c.wanted, c.others, c.limit)
		if got != c.want {
			t.Errorf("affordableConns(%+v) = %d, want %d", c, got, c.want)
		}
		if need := 2*got + min(defaultLingerConns, got/4) + reservedDescriptors + c.others + adminConnLimit(c.limit)*5/4; c.limit > 0 && need > c.limit && got > 1 {
			t.Errorf("%+v: %d connections need %d descriptors, want at most %d", c, got, need, c.limit)
		}
	}
	for _, c := range []struct{ conns, limit, want int }{{20_000, 0, 1024}, {20_000, 1 << 20, 1024}, {9871, 20_000, 128}, {9500, 20_000, 476}, {397, 1024, 128}} {
		if got := lingerConnLimit(c.conns, c.limit); got != c.want {
			t.Errorf("lingerConnLimit(%+v) = %d, want %d", c, got, c.want)
		}
	}
	for limit, want := range map[int]int{0: 64, 1 << 20: 64, 512: 32, 40: 4} {
		if got := adminConnLimit(limit); got != want {
			t.Errorf("%d connections of operators with %d descriptors, want %d", got, limit, want)
		}
	}
	if n := AffordableConns(1, 0); n != 1 {
		t.Errorf("not even one connection: %d", n)
	}
}
