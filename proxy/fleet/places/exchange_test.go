package places

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"penstock/config"
	"penstock/routing"
	"penstock/upstreams"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type streams struct {
	kept map[string][][]byte
	fail func() bool
	cut  bool
}

var errLost = errors.New("the store is lost")

func (s *streams) Available() bool { return !s.cut }

func (s *streams) AppendToStream(_ context.Context, key string, most int, entry []byte) error {
	if s.fail() {
		return errLost
	}
	s.kept[key] = append(s.kept[key], bytes.Clone(entry))
	return nil
}

func (s *streams) Read(_ context.Context, key, after string, count int) ([][]byte, string, error) {
	if s.fail() {
		return nil, after, errLost
	}
	from, _ := strconv.Atoi(after)
	all := s.kept[key]
	to := min(len(all), from+count)
	return all[from:to], strconv.Itoa(to), nil
}

func route(t require) *routing.Route { return routes(t, 1, "e", "f")[0] }

// routes returns the routes of n models with the given upstreams.
func routes(t require, n int, names ...string) []*routing.Route {
	set, err := upstreams.NewSet(upstreams.Options{Register: func(*metrics.Set) {}, Unregister: func(*metrics.Set) {}})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := set.PlanChanges([]config.Upstream{{Name: "e", URL: "http://127.0.0.1:1", Weight: 1}, {Name: "f", URL: "http://127.0.0.1:2", Weight: 1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &config.File{}
	for i := range n {
		m := config.Model{ID: "model-words" + strings.Repeat("+", i)}
		for _, name := range names {
			m.Deployments = append(m.Deployments, config.Deployment{Upstream: name})
		}
		f.Models = append(f.Models, m)
	}
	f.Fleet.Store.URL = "redis://store"
	tab, err := routing.BuildTable(f, plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tab.Routes()
}

type require interface{ Fatal(...any) }

func newExchange(t require, s *streams, secret string) (*Exchange, *routing.Route) {
	r := route(t)
	return New(Options{Link: s, Secret: secret, Routes: func() []*routing.Route { return []*routing.Route{r} }, Metrics: metrics.NewSet()}), r
}

func never() bool { return false }

// TestExchange checks that an edge learns every placement exactly once and in stream order, even if
// the store fails from time to time. An edge that starts late must learn all placements.
func TestExchange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chance := rapid.IntRange(0, 40).Draw(t, "faults in a hundred")
		s := &streams{kept: map[string][][]byte{}, fail: never}
		one, _ := newExchange(t, s, "secret")
		two, _ := newExchange(t, s, "secret")
		appended := 0
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			s.fail = func() bool { return rapid.IntRange(1, 100).Draw(t, "fault") <= chance }
			told := make([]routing.Placement, rapid.IntRange(1, maxEntryPlacements).Draw(t, "placements"))
			for i := range told {
				told[i] = routing.Placement{Block: rand.Uint64(), Upstream: 7}
			}
			if one.o.Link.AppendToStream(context.Background(), routeStreamKey("model-words"), maxStreamEntries, one.sealEntry("model-words", told)) == nil {
				appended += len(told)
			}
			two.exchangeAll(context.Background())
		}
		s.fail = never
		late, _ := newExchange(t, s, "secret")
		for _, e := range []*Exchange{two, late} {
			e.exchangeAll(context.Background())
			if got := int(e.learnedCount.Get()); got != appended || e.unreadableCount.Get() != 0 {
				t.Fatalf("%d placements of %d, %d unread", got, appended, e.unreadableCount.Get())
			}
		}
	})
}

// slowStreams is a store that takes a while to answer. It counts the answers that came too late.
type slowStreams struct {
	streams
	late int
}

func (s *slowStreams) Read(ctx context.Context, key, after string, count int) ([][]byte, string, error) {
	time.Sleep(10 * time.Millisecond)
	if ctx.Err() != nil {
		s.late++
		return nil, after, ctx.Err()
	}
	return s.streams.Read(ctx, key, after, count)
}

// TestManyRoutes checks that a route's exchange does not time out because there are many routes.
// After three such failures, the store would count as lost.
func TestManyRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := routes(t, 100, "e", "f")
		s := &slowStreams{streams: streams{kept: map[string][][]byte{}, fail: never}}
		e := New(Options{Link: s, Routes: func() []*routing.Route { return all }, Metrics: metrics.NewSet()})
		if e.exchangeAll(t.Context()); s.late > 0 {
			t.Errorf("%d of %d routes were not read in time", s.late, len(all))
		}
	})
}

// TestRouteAgain checks that the entire stream is read if a route was removed and configured again.
func TestRouteAgain(t *testing.T) {
	s := &streams{kept: map[string][][]byte{}, fail: never}
	e, r := newExchange(t, s, "secret")
	s.kept[routeStreamKey("model-words")] = [][]byte{e.sealEntry("model-words", []routing.Placement{{Block: 1, Upstream: 2}})}
	for i, c := range []struct {
		r    *routing.Route
		want uint64
	}{{r, 1}, {r, 1}, {route(t), 2}} {
		e.o.Routes = func() []*routing.Route { return []*routing.Route{c.r} }
		if e.exchangeAll(t.Context()); e.learnedCount.Get() != c.want {
			t.Errorf("step %d: %d placements are learned, want %d", i, e.learnedCount.Get(), c.want)
		}
	}
	alone := routes(t, 2, "e")[1] // a model with one upstream has no placements
	for _, left := range [][]*routing.Route{nil, {alone}} {
		e.o.Routes = func() []*routing.Route { return []*routing.Route{r} }
		e.exchangeAll(t.Context())
		e.o.Routes = func() []*routing.Route { return left }
		if e.exchangeAll(t.Context()); len(e.positions) > 0 {
			t.Errorf("beside %d other models, the placements of a removed model are kept: %v", len(left), e.positions)
		}
	}
}

// TestForeignEntries checks that an edge with a different secret cannot read the entries, and
// counts them. It must also ignore entries that are truncated, modified, or copied from another
// model's stream.
func TestForeignEntries(t *testing.T) {
	s := &streams{kept: map[string][][]byte{}, fail: never}
	one, _ := newExchange(t, s, "secret")
	entry := one.sealEntry("model-words", []routing.Placement{{Block: 1, Upstream: 2}})
	bad := bytes.Clone(entry)
	bad[20] ^= 1
	key := routeStreamKey("model-words")
	s.kept[key] = [][]byte{entry, one.sealEntry("another", nil), entry[:5], {}, bad}
	one.exchangeAll(t.Context())
	if one.learnedCount.Get() != 1 || one.unreadableCount.Get() != 4 {
		t.Errorf("%d learned, %d unread", one.learnedCount.Get(), one.unreadableCount.Get())
	}
	other, _ := newExchange(t, s, "another")
	other.exchangeAll(t.Context())
	if other.learnedCount.Get() != 0 || other.unreadableCount.Get() != 5 {
		t.Errorf("%d learned, %d unread", other.learnedCount.Get(), other.unreadableCount.Get())
	}
}

// TestRetention checks that the store contains no prompts, plain hashes of prompts, or model names.
func TestRetention(t *testing.T) {
	s := &streams{kept: map[string][][]byte{}, fail: never}
	e, _ := newExchange(t, s, "secret")
	blocks := routing.HashBlocks(nil, routing.PromptSeed("model-words", "", nil), bytes.Repeat([]byte("sentinel words of a prompt "), 100))
	told := make([]routing.Placement, len(blocks))
	for i, b := range blocks {
		told[i] = routing.Placement{Block: b, Upstream: 7}
	}
	if err := e.o.Link.AppendToStream(t.Context(), routeStreamKey("model-words"), maxStreamEntries, e.sealEntry("model-words", told)); err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprintf("%s", s.kept)
	for _, entries := range s.kept {
		for _, b := range blocks {
			if bytes.Contains(entries[0], binary.LittleEndian.AppendUint64(nil, b)) {
				t.Error("a hash can be read")
			}
		}
	}
	for _, word := range []string{"sentinel", "model-words"} {
		if bytes.Contains([]byte(all), []byte(word)) {
			t.Errorf("%q is in the store", word)
		}
	}
}
