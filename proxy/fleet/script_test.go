package fleet

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"
)

// TestScript checks that the script and scriptModel give the same answers to arbitrary messages.
func TestScript(t *testing.T) {
	server := miniredis.RunT(t)
	r := newRemoteStore(StoreOptions{Addresses: []string{server.Addr()}, Prefix: "ps"})
	if err := r.connect(); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	heard := server.NewSubscriber()
	defer heard.Close()
	heard.Subscribe("ps:turns")
	words := make(chan string, 100) // messages from the store about turns
	go func() {
		for m := range heard.Messages() {
			words <- m.Message
		}
	}()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		id, began := fmt.Sprint("key-", run), time.UnixMilli(1e12)
		other := &scriptModel{now: began.UnixMilli()}
		var said []string
		for len(words) > 0 { // messages left by a failed run
			<-words
		}
		other.publish = func(id, edge string) { said = append(said, id+" "+edge) }
		births := map[string]string{"": ""} // maps birth ids in the script to those in scriptModel
		charged := map[string]int64{}
		kinds := [cellCount]cellKind{cellKindRate, cellKindRate, cellKindSlot}
		if rapid.Bool().Draw(t, "a budget") {
			kinds = budgetKinds
		}
		for range rapid.IntRange(1, 25).Draw(t, "messages") {
			edge := rapid.SampledFrom([]string{"one", "two", "three"}).Draw(t, "edge")
			m := accountMessage{edge: edge, number: uint64(rapid.IntRange(1, 20).Draw(t, "number"))}
			m.birth = rapid.SampledFrom([]string{"", "known", "another"}).Draw(t, "born")
			for i := range m.parts {
				n := func(most int64, what string) int64 { return rapid.Int64Range(0, most).Draw(t, what) }
				p := &m.parts[i]
				*p = cellReport{kind: kinds[i], limit: 10 * n(10, "limit"), knownCharge: n(50, "base"), ownDebt: n(50, "own"), minHeld: n(20, "least")}
				charged[edge] += n(20, "charged")
				p.charged, p.wanted = charged[edge], p.minHeld+n(40, "want")
				if p.kind == cellKindSlot && rapid.Bool().Draw(t, "waits") {
					p.kind = cellKindTurn
				}
			}
			sent, told := m, m
			switch m.birth {
			case "known":
				for script, twin := range births {
					sent.birth, told.birth = script, twin
				}
			case "another":
				sent.birth, told.birth = "1-1", "1-1"
			}
			server.SetTime(time.UnixMilli(other.now))
			r.firstNumber.Store(1)
			got, err := r.Exchange(context.Background(), id, &sent)
			want, wantErr := other.answer(id, &told)
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("%v, the twin: %v", err, wantErr)
			}
			// Each message has two numbers, the second one for its repetition.
			if err != nil && got.laterNumber != 2*want.laterNumber+1 {
				t.Fatalf("message %d is later, the twin: %d", (got.laterNumber-1)/2, want.laterNumber)
			}
			if err == nil {
				births = map[string]string{got.birth: want.birth}
				if got.clock != want.clock {
					t.Fatalf("the clock is %s, the twin's %s", got.clock, want.clock)
				}
			}
			for i := range got.grants {
				g, w := got.grants[i], want.grants[i]
				if g.held != w.held || math.Abs(g.debt-w.debt) > 1e-6 || math.Abs(g.free-w.free) > 1e-6 {
					t.Fatalf("cell %d: %+v, the twin: %+v", i, g, w)
				}
			}
			for _, want := range said {
				if got := <-words; got != want {
					t.Fatalf("the store says %q, the twin %q", got, want)
				}
			}
			said = nil
			other.now += rapid.Int64Range(-9000, 9000).Draw(t, "ms")
		}
	})
}

// TestForgedNumbers checks that an account is reset if it contains numbers that the script cannot
// have written. The account must then grant no more than the limit, and must contain none of the
// forged values.
func TestForgedNumbers(t *testing.T) {
	for _, field := range []string{"all", "e:one", "known", "ahead"} {
		for _, number := range []string{"nan", "-nan", "inf", "-inf", "1e300", "word"} {
			t.Run(field+" "+number, func(t *testing.T) {
				server := miniredis.RunT(t)
				r := newRemoteStore(StoreOptions{Addresses: []string{server.Addr()}, Prefix: "ps"})
				if err := r.connect(); err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				r.firstNumber.Store(1)
				ask := func(m accountMessage) accountReply {
					for i, kind := range budgetKinds {
						m.parts[i] = cellReport{kind: kind, limit: 62, wanted: 83}
					}
					got, err := r.Exchange(context.Background(), "a", &m)
					if err != nil {
						t.Fatal(err)
					}
					return got
				}
				first := ask(accountMessage{edge: "one", number: 1})
				server.HSet(server.Keys()[0], field, strings.TrimSpace(strings.Repeat(number+" ", 2+3*cellCount)))
				for n := uint64(2); n < 4; n++ {
					got := ask(accountMessage{edge: "one", number: n, birth: first.birth})
					if got.birth == first.birth {
						t.Errorf("message %d: the account goes on", n)
					}
					for i, g := range got.grants {
						if g.held > 62 || !isFinite(g.debt) || !isFinite(g.free) {
							t.Errorf("message %d, cell %d: %+v of 62", n, i, g)
						}
					}
				}
			})
		}
	}
}
