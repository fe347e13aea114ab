package board

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/valkey-io/valkey-go"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func drawWork(t *rapid.T) string {
	w := workByUpstream{}
	for range rapid.IntRange(0, 3).Draw(t, "upstreams") {
		n := func(most int, what string) int { return rapid.IntRange(0, most).Draw(t, what) }
		w[rapid.SampledFrom([]string{"aa", "bb", "cc"}).Draw(t, "name")] = upstreamWork{[3]int{n(5, "text"), n(2, "vision"), n(1, "audio")}, n(1, "down")}
	}
	return w.String()
}

// TestScript checks that the script and scriptModel give the same answers to arbitrary messages.
func TestScript(t *testing.T) {
	server := miniredis.RunT(t)
	client, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		key, other := fmt.Sprint("board-", run), &scriptModel{now: 1e12}
		version, facts := "", uint64(0)
		for range rapid.IntRange(1, 30).Draw(t, "messages") {
			m := boardMessage{
				edge: rapid.SampledFrom([]string{"one", "two", "three"}).Draw(t, "edge"), number: uint64(rapid.IntRange(1, 30).Draw(t, "number")),
				work: unchangedWork, version: version, seed: rapid.SampledFrom([]string{"s1", "s2"}).Draw(t, "seed"),
			}
			if rapid.Bool().Draw(t, "changed") {
				m.work = drawWork(t)
			}
			for range rapid.IntRange(0, 2).Draw(t, "facts") {
				facts += uint64(rapid.IntRange(0, 1).Draw(t, "newer"))
				m.facts = append(m.facts, sharedFact{
					facts, rapid.SampledFrom([]string{"m:a", "p:b"}).Draw(t, "name"), rapid.SampledFrom([]string{"", "x", `{"a b": 1}`}).Draw(t, "value"),
					time.Duration(rapid.SampledFrom([]int{0, 2, 20}).Draw(t, "life")) * time.Second,
				})
			}
			server.SetTime(time.UnixMilli(other.now))
			var got boardReply
			list, err := boardScript.Exec(context.Background(), client, []string{key}, m.scriptArgs()).ToArray()
			if err == nil {
				got, err = parseReply(list, m.version)
			}
			want, wantErr := other.answer(&m)
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("%v, the twin: %v", err, wantErr)
			}
			if err == nil {
				if got.workKnown != want.workKnown || got.edges != want.edges || got.version != want.version || !maps.Equal(got.works, want.works) ||
					(got.facts == nil) != (want.facts == nil) || !maps.Equal(got.facts, want.facts) {
					t.Fatalf("%+v, the twin: %+v", got, want)
				}
				version = got.version
			}
			other.now += rapid.Int64Range(0, 4000).Draw(t, "ms")
		}
	})
}

// TestDamaged checks that a reply does not count as an answer if it is truncated or lacks numbers.
func TestDamaged(t *testing.T) {
	for _, text := range []string{"aa 1 2 3", "aa 1 2 3 x", "aa", "aa 1 2 3 4 bb"} {
		if w, err := parseWorks(text); err == nil {
			t.Errorf("parseWorks(%q) = %v, want an error", text, w)
		}
	}
	for _, text := range []string{"", "aa 1 0 0 0 bb 0 0 3 1"} {
		if w, err := parseWorks(text); err != nil || w.String() != text {
			t.Errorf("parseWorks(%q) = %q, %v; want the same text", text, w, err)
		}
	}
}
