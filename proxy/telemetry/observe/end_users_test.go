package observe

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"penstock/config/money"
)

func userNamed(n int) (u EndUserHash) {
	binary.BigEndian.PutUint64(u[:], uint64(n)+1)
	return u
}

func addUserUsage(u *Usage, key string, user EndUserHash, n int, at time.Time) {
	u.addCall(&Record{Key: key, Model: "m", Attempts: 1, PromptTokens: n, User: user, Spend: money.Amount{Micros: int64(n)}}, at)
}

// checkUsersComplete checks that the users' accounts contain all usage of their keys exactly once.
func checkUsersComplete(t interface{ Errorf(string, ...any) }, u *Usage, at time.Time) *UsageReport {
	byUser, byModel := u.ReportUsers(at, at), u.Report(at, at)
	if byUser.Total != byModel.Total || len(byUser.Keys) != len(byModel.Keys) {
		t.Errorf("%+v by user, %+v by model", byUser.Total, byModel.Total)
		return byUser
	}
	for i := range byUser.Keys {
		k := &byUser.Keys[i]
		var users, days, want UsageAmount
		for _, x := range k.Users {
			users.Add(x.Total)
			for _, d := range x.Days {
				days.Add(d.UsageAmount)
			}
		}
		for _, m := range byModel.Keys[i].Models {
			for _, d := range m.Days {
				want.Add(d.UsageAmount)
			}
		}
		if k.Models != nil || users != k.Total || k.Total != byModel.Keys[i].Total || days != want {
			t.Errorf("%s: %+v by users, %+v in all; by day %+v and %+v", k.Key, users, byModel.Keys[i].Total, days, want)
		}
	}
	return byUser
}

// TestEndUsers checks that end users have accounts within the account of their key, and that the
// remaining usage is reported for "all others".
func TestEndUsers(t *testing.T) {
	var u Usage
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	a, b := userNamed(1), userNamed(2)
	addUserUsage(&u, "k", a, 10, at)
	addUserUsage(&u, "k", a, 5, at.AddDate(0, 0, 1))
	addUserUsage(&u, "k", b, 7, at) // yesterday's call is counted after a call today
	addUserUsage(&u, "k", EndUserHash{}, 100, at)
	addUserUsage(&u, "j", a, 1, at)
	got := checkUsersComplete(t, &u, at)
	k := got.Keys[1]
	if len(k.Users) != 3 || k.Users[0].User != a.String() || k.Users[0].Total.Prompt != 15 || len(k.Users[0].Days) != 2 ||
		k.Users[1].User != b.String() || k.Users[2].User != "" || k.Users[2].Total.Prompt != 100 || k.Users[2].Total.Spend.Micros != 100 {
		t.Errorf("key = %+v, want the users %s, %s and the rest", k, a, b)
	}
	if of := got.ForPeriod("2026-01-02"); of.Total.Prompt != 112 || len(of.Keys) != 1 || len(of.Keys[0].Users) != 3 || of.Keys[0].Users[0].Total.Prompt != 5 {
		t.Errorf("a day alone: %+v", of)
	}
	if sum := u.UsageBetween("k", DayOf(at), DayOf(at)+1); sum.Prompt != 122 {
		t.Errorf("a budget counts %d tokens", sum.Prompt)
	}
	addUserUsage(&u, "k", b, 1, at.AddDate(0, 0, UsageDays))
	got = checkUsersComplete(t, &u, at)
	if users := got.Keys[1].Users; len(users) != 3 || users[0].Total.Prompt != 5 || users[1].Total.Prompt != 8 || len(got.Keys[0].Users) != 1 {
		t.Errorf("after 62 days: %+v", got.Keys)
	}
}

// TestEndUsersAreBounded checks that if there are very many users, the users with the highest usage
// are listed, and all sums are correct.
func TestEndUsersAreBounded(t *testing.T) {
	var u Usage
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const heavy = maxListedUsers / 2
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range 4 * maxListedUsers {
				addUserUsage(&u, "k", userNamed(1_000_000+w*100_000+i), 1+rng.IntN(50), at)
				addUserUsage(&u, "k", userNamed(rng.IntN(heavy)), 100, at)
				if i%5000 == 0 {
					u.EachChanged(func(UsageRow) {})
				}
			}
		})
	}
	wg.Wait()
	if n := len(u.users.accounts); n >= 2*maxListedUsers {
		t.Errorf("%d are kept", n)
	}
	listed := checkUsersComplete(t, &u, at).Keys[0].Users
	if len(listed) != maxListedUsers+1 {
		t.Fatalf("%d are listed", len(listed))
	}
	for i := range heavy {
		if listed[i].User != userNamed(i).String() || listed[i].Total.Calls < 10 {
			t.Fatalf("user %d = %+v, want %s with 10 calls or more", i, listed[i], userNamed(i))
		}
	}
	rows := 0
	u.EachRow(func(r UsageRow) {
		if r.User != "" {
			rows++
		}
	})
	if rows != maxListedUsers {
		t.Errorf("%d rows, want %d", rows, maxListedUsers)
	}
}

// TestEndUsersDoNotFloodRows checks that each call with an invented name changes at most one listed
// row.
func TestEndUsersDoNotFloodRows(t *testing.T) {
	var u Usage
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	rows := 0
	for i := range 20 * maxListedUsers {
		addUserUsage(&u, "k", userNamed(i), 10, at)
		if i%100 == 0 {
			u.EachChanged(func(r UsageRow) {
				if r.User != "" {
					rows++
				}
			})
		}
	}
	if rows != maxListedUsers {
		t.Errorf("%d rows for calls of one size", rows)
	}
}

// TestEndUsersRestored checks that the last row of each day restores the accounts, no matter which
// calls and restarts come before.
func TestEndUsersRestored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := new(Usage)
		at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		ledger := map[string]UsageRow{}
		write := func(r UsageRow) { ledger[fmt.Sprint(r.Key, "|", r.Model, "|", r.User, "|", r.Day)] = r }
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				at = at.AddDate(0, 0, rapid.IntRange(1, 40).Draw(t, "days"))
			case 1:
				clear(ledger)
				u.EachRow(write)
			case 2:
				u.EachChanged(write)
				want := u.ReportUsers(at, at)
				clear(ledger)
				u.EachRow(write) // as the ledger does each day
				var rows []UsageRow
				for _, r := range ledger {
					rows = append(rows, r)
				}
				u = new(Usage)
				u.Restore(at, rows)
				if got := u.ReportUsers(at, at); fmt.Sprintf("%+v", got.Keys) != fmt.Sprintf("%+v", want.Keys) {
					t.Fatalf("%+v\nwant %+v", got, want)
				}
			default:
				user := EndUserHash{}
				if n := rapid.IntRange(0, 5).Draw(t, "user"); n > 0 {
					user = userNamed(n)
				}
				addUserUsage(u, rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key"), user, rapid.IntRange(0, 9).Draw(t, "tokens"), at)
			}
			checkUsersComplete(t, u, at)
		}
	})
}
