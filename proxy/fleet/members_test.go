package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/alicebob/miniredis/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"penstock/config"
	"penstock/proxy/fleet/sign"
)

// TestForgedMembers checks that entries written without the fleet's secret do not count as members,
// and therefore do not affect how limits are divided. Copies of an entry must count as one member,
// and only for a short time. An edge's first heartbeat is not a member either, but is no reason for a
// warning.
func TestForgedMembers(t *testing.T) {
	secrets := []string{"the secret"}
	now := time.Now()
	ms := func(d time.Duration) int64 { return now.Add(d).UnixMilli() }
	said := func(prefix, secret string, m Member) string {
		return sign.New(prefix, []string{secret}).Sign(sign.KindMember, m.ID, m)
	}
	good := Member{ID: "two", Name: "b", Expires: ms(time.Minute)}
	for what, c := range map[string]struct {
		written []string
		want    int
	}{
		"as it was said":      {[]string{said("ps", "the secret", good)}, 2},
		"twice":               {[]string{said("ps", "the secret", good), said("ps", "the secret", good)}, 2},
		"with another id":     {[]string{strings.Replace(said("ps", "the secret", good), "two", "three", 1)}, 1},
		"expired":             {[]string{said("ps", "the secret", Member{ID: "two", Expires: ms(-time.Second)})}, 1},
		"first heartbeat":     {[]string{said("ps", "the secret", Member{ID: "two"})}, 1},
		"forged heartbeat":    {[]string{said("ps", "another", Member{ID: "two"})}, 1},
		"of another fleet":    {[]string{said("qs", "the secret", good)}, 1},
		"signed by another":   {[]string{said("ps", "another", good)}, 1},
		"without a signature": {[]string{`{"id":"two"}`}, 1},
	} {
		store := miniredis.RunT(t)
		store.SetTime(now)
		log, lines := observer.New(zap.WarnLevel)
		s := sign.New("ps", secrets)
		s.AdoptSecretSince("", now.Add(-2*sign.UnsignedGracePeriod))
		f := New(Options{
			Store: StoreOptions{Addresses: []string{store.Addr()}, Prefix: "ps"}, Edges: 1, WhenLost: config.StoreLostDivide, Signer: s,
			Timeout: time.Second, Metrics: metrics.NewSet(), Log: zap.New(log), Self: func() Member { return Member{Name: "a"} },
		})
		for i, text := range c.written {
			store.HSet("ps:{members}", fmt.Sprint("field", i), fmt.Sprint(ms(leaseTime), " ", text))
		}
		f.sendHeartbeat(t.Context())
		f.sendHeartbeat(t.Context())
		if got := len(f.Members()); got != c.want || f.edgeState.edgeCount() != c.want {
			t.Errorf("%s: %d members, limits are divided by %d; want %d", what, got, f.edgeState.edgeCount(), c.want)
		}
		if refused := c.want < 1+len(c.written) && what != "twice" && what != "first heartbeat"; (lines.Len() > 0) != refused {
			t.Errorf("%s: log lines %+v, want some: %v", what, lines.All(), refused)
		}
		f.Close()
	}
}

// TestBirthID checks that the store's birth id stays the same until the store loses its data. This
// must also be true while edges with older versions are running, whose script treats the birth id
// as a member. The birth id must not count as a member.
func TestBirthID(t *testing.T) {
	store := miniredis.RunT(t)
	r := startRemote(t, store.Addr())
	waitUntil(t, "the store is reached", func() bool { return beat(t, r) == nil })
	births := func() (birth string) {
		for edge := range 2 {
			a, err := r.Heartbeat(t.Context(), fmt.Sprint(edge), "{}")
			if err != nil || birth != "" && a.birth != birth {
				t.Fatalf("%+v, %v; the birth was %q", a, err, birth)
			}
			birth = a.birth
			for _, said := range a.entries {
				if strings.Contains(said, birth) {
					t.Errorf("the birth is a member: %q", a.entries)
				}
			}
		}
		return birth
	}
	before := births()
	if field := store.HGet("ps:{members}", "birth"); !regexp.MustCompile(`^\d+ `+before+`$`).MatchString(field) || json.Valid([]byte(before)) {
		t.Errorf("an older edge deletes this, or takes it for a member: %q", field)
	}
	if again := births(); again != before {
		t.Errorf("another birth: %q, %q", before, again)
	}
	store.FlushAll()
	store.SetTime(time.Now().Add(time.Second))
	if after := births(); after == before {
		t.Errorf("the birth is still %q", after)
	}
}

// TestMembersAreBounded checks that forged entries in the store cannot make the status page huge,
// and that this edge always counts as a member.
func TestMembersAreBounded(t *testing.T) {
	w := newWorld(1, config.KeyLimits{}, config.StoreLostDivide)
	f := w.edges[0]
	var all []string
	for i := range 20_000 {
		all = append(all, fmt.Sprintf(`{"id":"%d"}`, i))
	}
	f.setMembers(append(all, fmt.Sprintf(`{"id":%q}`, f.edgeState.edgeID)))
	members, self := f.Members(), 0
	for i := range members {
		if members[i].Self {
			self++
		}
	}
	if len(members) != maxMembers || self != 1 {
		t.Errorf("%d members, %d of them this edge", len(members), self)
	}
}

type births struct {
	*simulatedStore
	birth string // birth id in the next answer; empty if the answer is lost
}

func (b *births) Heartbeat(context.Context, string, string) (heartbeatReply, error) {
	if b.birth == "" {
		return heartbeatReply{}, context.DeadlineExceeded
	}
	b.cut = false
	return heartbeatReply{edgeKnown: true, birth: b.birth}, nil
}

// TestForgotten checks when usage is sent to the store again. After the store has lost its data,
// all usage must be sent once, even if the answer to the first heartbeat after the loss is lost. A
// lost answer alone must not cause this. After each period without answers, the usage of the last
// two days must be sent again. A single heartbeat or call without an answer is such a period.
func TestForgotten(t *testing.T) {
	w := newWorld(1, config.KeyLimits{}, config.StoreLostDivide)
	f, s := w.edges[0], &births{simulatedStore: w.lines[0]}
	f.edgeState.store, f.selfMember, f.log = s, func() Member { return Member{} }, zap.NewNop()
	for i, step := range []struct {
		birth               string
		opened              bool // calls have opened the breaker
		forgotten, returned int64
	}{
		{"a", false, 1, 0},
		{"", false, 1, 0},
		{"a", false, 1, 1},
		{"a", false, 1, 1},
		{"", false, 1, 1},
		{"", false, 1, 1},
		{"b", false, 2, 2},
		{"b", true, 2, 3},
		{"b", false, 2, 3},
	} {
		s.birth, s.cut = step.birth, step.opened
		f.sendHeartbeat(t.Context())
		if n, two := f.dataLosses.Load(), f.storeReturns.Load(); n != step.forgotten || two != step.returned {
			t.Errorf("heartbeat %d: all is sent %d times, two days %d times, want %d and %d", i, n, two, step.forgotten, step.returned)
		}
	}
}
