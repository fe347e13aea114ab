package fleet

import (
	"testing"

	"penstock/config"
)

// BenchmarkTake is the admission of a call that the edge holds enough for, and of one that asks the
// store (the twin, which takes no time).
func BenchmarkTake(b *testing.B) {
	for name, perMinute := range map[string]int{"held": 1 << 30, "drawn": 1 << 10} {
		b.Run(name, func(b *testing.B) {
			limits := config.KeyLimits{RequestsPerMinute: perMinute, TokensPerMinute: 1 << 30, Concurrency: 1 << 20}
			w := newWorld(4, limits, config.LostDivide)
			key := w.keys[0]
			b.ReportAllocs()
			for b.Loop() {
				key.Take(limits, w.now)
				if held, d := key.Reserve(limits, 1000, w.now); d.OK {
					key.Settle(held, 900)
				}
			}
		})
	}
}
