//go:build unix

package fleet

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"penstock/config"
)

// BenchmarkTakeRequest measures the admission of a call in two cases: the edge already has the needed
// amounts ("held"), or it must ask the store ("drawn"). The store is a scriptModel, which answers
// immediately.
func BenchmarkTakeRequest(b *testing.B) {
	for name, perMinute := range map[string]int{"held": 1 << 30, "drawn": 1 << 10} {
		b.Run(name, func(b *testing.B) {
			limits := config.KeyLimits{RequestsPerMinute: perMinute, TokensPerMinute: 1 << 30, Concurrency: 1 << 20}
			w := newWorld(4, limits, config.StoreLostDivide)
			key := w.keys[0]
			b.ReportAllocs()
			for b.Loop() {
				key.TakeRequest(limits, w.now)
				if held, d := key.Reserve(limits, 1000, w.now); d.OK {
					key.Settle(held, 900)
				}
			}
		})
	}
}

// BenchmarkScript measures the account script in a real store that is otherwise idle. Four edges
// send messages without pausing. After a pause of a few milliseconds, the processor caches would be
// cold, and any script would take several times as long.
func BenchmarkScript(b *testing.B) {
	store := newRealStore(b)
	r := newRemoteStore(StoreOptions{Addresses: []string{store.address()}, Prefix: "ps"})
	defer r.Close()
	for deadline := time.Now().Add(20 * time.Second); beat(b, r) != nil; {
		if time.Now().After(deadline) {
			b.Fatal("the store is not reached")
		}
	}
	store.command("CONFIG", "RESETSTAT")
	edges := [4]accountMessage{}
	for i := range edges {
		m := &edges[i]
		m.edge = strconv.Itoa(i)
		m.parts[requestCellIndex] = cellReport{kind: cellKindRate, limit: 1 << 40, wanted: 15}
		m.parts[tokenCellIndex] = cellReport{kind: cellKindRate, limit: 1 << 40, wanted: 9000}
	}
	for n := 0; b.Loop(); n++ {
		m := &edges[n%len(edges)]
		m.number++
		for i := range m.parts {
			m.parts[i].knownCharge = m.parts[i].charged
			m.parts[i].charged += m.parts[i].wanted / 15
		}
		if _, err := r.Exchange(context.Background(), "k:a", m); err != nil {
			b.Fatal(err)
		}
	}
	_, stats, _ := strings.Cut(store.command("INFO", "commandstats"), "cmdstat_evalsha:")
	_, each, _ := strings.Cut(stats, "usec_per_call=")
	each, _, _ = strings.Cut(each, ",")
	cost, err := strconv.ParseFloat(each, 64)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(cost, "us/script")
}
