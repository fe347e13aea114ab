package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"penstock/config"
)

// TestLevels checks that a key can use exactly the remaining units reported in its level, and its
// entire limit after the reset.
func TestLevels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		epoch := time.Unix(1_700_000_000, 0)
		k := func(requests, tokens int) *KeyLimiter {
			return NewKeyUsages(1, epoch).Bind([]config.Key{{ID: "a", Limits: config.KeyLimits{RequestsPerMinute: requests, TokensPerMinute: tokens}}}, nil)["a"]
		}(rapid.IntRange(1, 400).Draw(t, "requests"), rapid.IntRange(1, 3_000_000).Draw(t, "tokens"))
		now := epoch
		for range rapid.IntRange(0, 30).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "gap")))
			k.TakeRequest(now)
			var r Reservation
			if used := rapid.Int64Range(0, 20_000).Draw(t, "used"); k.Reserve(&r, Cost{Tokens: used}, Cost{}, now).OK {
				r.Settle(Cost{Tokens: used}, now)
			}
		}
		requests, ok := k.RequestLevel(now)
		if !ok || requests.Limit != int64(k.limits.RequestsPerMinute) || requests.Remaining < 0 || requests.Remaining > requests.Limit {
			t.Fatalf("requests = %+v, want a limit of %d and a remainder within it", requests, k.limits.RequestsPerMinute)
		}
		tokens, ok := k.TokenLevel(now)
		if !ok || tokens.Limit != int64(k.limits.TokensPerMinute) || tokens.Remaining < 0 || tokens.Remaining > tokens.Limit {
			t.Fatalf("tokens = %+v, want a limit of %d and a remainder within it", tokens, k.limits.TokensPerMinute)
		}
		var r Reservation
		if tokens.Remaining < tokens.Limit {
			if k.Reserve(&r, Cost{Tokens: tokens.Remaining + 1}, Cost{}, now).OK {
				t.Fatalf("%+v, and one more is taken", tokens)
			}
		}
		if indebted := tokens.Reset > time.Minute; k.Reserve(&r, Cost{Tokens: tokens.Remaining}, Cost{}, now).OK == indebted {
			t.Fatalf("%+v, and they are not taken, or by one in debt", tokens)
		}
		if held, _ := k.TokenLevel(now); tokens.Remaining > 0 && held.Remaining > 0 {
			t.Fatalf("%+v while all of it is held", held)
		}
		r.Settle(Cost{Tokens: 0}, now)
		for range requests.Remaining {
			if !k.TakeRequest(now).OK {
				t.Fatalf("%+v, and they are not taken", requests)
			}
		}
		if k.TakeRequest(now).OK {
			t.Fatalf("%+v, and one more is taken", requests)
		}
		if after, _ := k.TokenLevel(now.Add(tokens.Reset)); after.Remaining != after.Limit || after.Reset != 0 {
			t.Fatalf("%+v after the reset of %+v", after, tokens)
		}
		requests, _ = k.RequestLevel(now)
		if after, _ := k.RequestLevel(now.Add(requests.Reset)); after.Remaining != after.Limit || after.Reset != 0 {
			t.Fatalf("%+v after the reset of %+v", after, requests)
		}
	})
	k := NewKeyUsages(1, time.Unix(0, 0)).Bind([]config.Key{{ID: "a"}}, nil)["a"]
	if _, ok := k.RequestLevel(time.Unix(9, 0)); ok {
		t.Error("a level is reported for a limit that does not exist")
	}
	if _, ok := k.TokenLevel(time.Unix(9, 0)); ok {
		t.Error("a level is reported for a limit that does not exist")
	}
}

// TestTokensLeftAfterCall checks that the next call finds the level that the previous response
// reported, even if the previous call overdrew its key or group.
func TestTokensLeftAfterCall(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	groups := []config.Group{{ID: "g", Limits: config.GroupLimits{TokensPerMinute: 500}}}
	keys := NewKeyUsages(2, now).Bind([]config.Key{
		{ID: "own", Limits: config.KeyLimits{TokensPerMinute: 1000}},
		{ID: "of group", Group: "g", Limits: config.KeyLimits{TokensPerMinute: 1000}},
	}, groups)
	for id, k := range keys {
		for _, used := range []int64{0, 10, 2500} {
			now = now.Add(24 * time.Hour)
			var r Reservation
			if d := k.Reserve(&r, Cost{Tokens: 100_000}, Cost{}, now); !d.OK {
				t.Fatalf("%s: refused by %s", id, d.LimitName)
			}
			shown, ok := k.TokensLeft(&r, used, now)
			r.Settle(Cost{Tokens: used}, now)
			if found, _ := k.TokensLeft(nil, 0, now); !ok || shown != found || used == 2500 && found.Reset < 150*time.Second {
				t.Errorf("%s, %d tokens: the answer shows %+v, the next call finds %+v", id, used, shown, found)
			}
		}
	}
}
