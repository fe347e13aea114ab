package fleet

import (
	"context"
	"fmt"
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
// and only for a short time.
func TestForgedMembers(t *testing.T) {
	secrets := []string{"the secret"}
	now := time.Now()
	ms := func(d time.Duration) int64 { return now.Add(d).UnixMilli() }
	said := func(prefix, secret string, m Member) string {
		return sign.New(prefix, []string{secret}).Sign(sign.Member, m.ID, m)
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
		"without an expiry":   {[]string{said("ps", "the secret", Member{ID: "two"})}, 1},
		"of another fleet":    {[]string{said("qs", "the secret", good)}, 1},
		"signed by another":   {[]string{said("ps", "another", good)}, 1},
		"without a signature": {[]string{`{"id":"two"}`}, 1},
	} {
		store := miniredis.RunT(t)
		store.SetTime(now)
		log, lines := observer.New(zap.WarnLevel)
		s := sign.New("ps", secrets)
		s.Appeared("", now.Add(-2*sign.Grace))
		f := New(Options{
			Store: StoreOptions{Addresses: []string{store.Addr()}, Prefix: "ps"}, Edges: 1, WhenLost: config.LostDivide, Signer: s,
			Timeout: time.Second, Metrics: metrics.NewSet(), Log: zap.New(log), Self: func() Member { return Member{Name: "a"} },
		})
		for i, text := range c.written {
			store.HSet("ps:{members}", fmt.Sprint("field", i), fmt.Sprint(ms(lease), " ", text))
		}
		f.beat(t.Context())
		f.beat(t.Context())
		if got := len(f.Members()); got != c.want || f.terms.edges() != c.want {
			t.Errorf("%s: %d members, limits are divided by %d; want %d", what, got, f.terms.edges(), c.want)
		}
		if refused := c.want < 1+len(c.written) && what != "twice"; (lines.Len() > 0) != refused {
			t.Errorf("%s: log lines %+v, want some: %v", what, lines.All(), refused)
		}
		f.Close()
	}
}

// TestMembersAreBounded checks that forged entries in the store cannot make the status page huge,
// and that this edge always counts as a member.
func TestMembersAreBounded(t *testing.T) {
	w := newWorld(1, config.KeyLimits{}, config.LostDivide)
	f := w.edges[0]
	var all []string
	for i := range 20_000 {
		all = append(all, fmt.Sprintf(`{"id":"%d"}`, i))
	}
	f.meet(append(all, fmt.Sprintf(`{"id":%q}`, f.terms.edge)))
	members, self := f.Members(), 0
	for i := range members {
		if members[i].Self {
			self++
		}
	}
	if len(members) != membersMost || self != 1 {
		t.Errorf("%d members, %d of them this edge", len(members), self)
	}
}

type lossy struct {
	store
	lost bool
}

func (l *lossy) Heartbeat(context.Context, string, string) (alive, error) {
	if l.lost {
		return alive{}, context.DeadlineExceeded
	}
	return alive{known: true}, nil
}

// TestLostAnswer checks that usage rows are sent again if a heartbeat gets no answer. The store may
// have lost all data before that heartbeat arrived, and later answers would not reveal the loss.
func TestLostAnswer(t *testing.T) {
	f := newWorld(1, config.KeyLimits{}, config.LostDivide).edges[0]
	s := &lossy{store: f.terms.store}
	f.terms.store, f.self, f.log = s, func() Member { return Member{} }, zap.NewNop()
	for i, step := range []struct {
		lost bool
		want int64
	}{{false, 0}, {true, 0}, {true, 0}, {false, 1}, {false, 1}} {
		s.lost = step.lost
		f.beat(t.Context())
		if n := f.forgotten.Load(); n != step.want {
			t.Errorf("heartbeat %d: the rows are sent again %d times, want %d", i, n, step.want)
		}
	}
}
