package limit

import (
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestGuesses checks that an address has guessBurst guesses and gets another guess every
// guessInterval, no matter when it makes its guesses. Other addresses must not be affected.
func TestGuesses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g GuessLimiter
		start := time.Unix(1_700_000_000, 0)
		now := start
		guesser, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
		tried := 0
		for _, gap := range rapid.SliceOfN(rapid.IntRange(0, 4000), 1, 200).Draw(t, "gaps") {
			now = now.Add(time.Duration(gap) * time.Millisecond)
			if wait := g.WaitTime(guesser, now); wait > 0 {
				if wait > guessInterval {
					t.Fatalf("it waits %v", wait)
				}
				if g.WaitTime(guesser, now.Add(wait+time.Microsecond)) != 0 {
					t.Fatal("it has waited, and may not try")
				}
				continue
			}
			tried++
			g.RecordWrong(guesser, now)
			if most := guessBurst + int(now.Sub(start)/guessInterval) + 1; tried > most {
				t.Fatalf("%d tries in %v", tried, now.Sub(start))
			}
		}
		if g.WaitTime(other, now) != 0 {
			t.Fatal("another address is kept out")
		}
	})
}

// TestGuessesAddresses checks which addresses count as the same: all addresses in an IPv6 network,
// and both forms of an IPv4 address. The number of addresses in the table must be limited.
func TestGuessesAddresses(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, pair := range [][2]string{{"2001:db8::1", "2001:db8::ffff:2"}, {"192.0.2.1", "::ffff:192.0.2.1"}, {"fe80::1%eth0", "fe80::1"}} {
		var g GuessLimiter
		for range guessBurst {
			g.RecordWrong(netip.MustParseAddr(pair[0]), now)
		}
		if g.WaitTime(netip.MustParseAddr(pair[1]), now) == 0 {
			t.Errorf("%s is another than %s", pair[1], pair[0])
		}
	}
	var g GuessLimiter
	a := netip.MustParseAddr("10.0.0.0")
	for range 3 * maxGuessers {
		g.RecordWrong(a, now)
		a = a.Next()
	}
	if len(g.triesLeft) > maxGuessers {
		t.Errorf("%d addresses are remembered", len(g.triesLeft))
	}
}
