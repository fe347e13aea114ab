package fleet

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"penstock/config"
	"penstock/proxy/access/limit"
)

// slowLine is a simulatedStore that can be used by simultaneous calls. It answers after a
// millisecond.
type slowLine struct {
	*simulatedStore
	mu    sync.Mutex
	began time.Time
}

func (s *slowLine) Exchange(ctx context.Context, id string, m *accountMessage) (accountReply, error) {
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.twin.now = 1e9 + time.Since(s.began).Milliseconds()
	return s.simulatedStore.Exchange(ctx, id, m)
}

// TestBurst checks that a burst of calls with an idle key is admitted completely if the limits
// allow it, even while the edge returns excess amounts.
func TestBurst(t *testing.T) {
	for name, c := range map[string]struct {
		limits   config.KeyLimits
		estimate int64
		most     int
		// idle time before the burst, after which the key's limits are fully available again.
		idle time.Duration
	}{
		"requests": {config.KeyLimits{RequestsPerMinute: 600}, 0, 600, time.Minute},
		"tokens":   {config.KeyLimits{TokensPerMinute: 20_000}, 500, 40, 30 * time.Second},
		"slots":    {config.KeyLimits{Concurrency: 20}, 0, 20, 0},
		"all":      {config.KeyLimits{RequestsPerMinute: 600, TokensPerMinute: 200_000, Concurrency: 20}, 500, 20, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { burst(t, c.limits, c.estimate, c.most, c.idle) })
		})
	}
}

func burst(t *testing.T, limits config.KeyLimits, estimate int64, most int, idle time.Duration) {
	plain := &simulatedStore{twin: &scriptModel{}, lose: never, mute: never, repeat: never, delay: never, meanwhile: func() {}}
	o := Options{Edges: 4, WhenLost: config.StoreLostDivide, Timeout: 25 * time.Millisecond, Log: zap.NewNop(), Metrics: metrics.NewSet()}
	f := newFleet(&o, &slowLine{simulatedStore: plain, began: time.Now()})
	key := newAccount(&f.edgeState, "a")
	ctx, stop := context.WithCancel(t.Context())
	var reports sync.WaitGroup
	reports.Go(func() { f.RunReports(ctx) })
	defer reports.Wait()
	defer stop()
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		n := 1 + random.IntN(most)
		var calls sync.WaitGroup
		var refused atomic.Int64
		for range n {
			calls.Go(func() {
				if !key.TakeRequest(limits, time.Now()).OK {
					refused.Add(1)
					return
				}
				held, d := key.Reserve(limits, estimate, time.Now())
				if !d.OK {
					refused.Add(1)
					return
				}
				time.Sleep(5 * time.Millisecond)
				key.Settle(held, held/2)
			})
		}
		calls.Wait()
		if refused.Load() > 0 {
			t.Fatalf("%d of %d calls are refused", refused.Load(), n)
		}
		time.Sleep(idle + time.Duration(random.IntN(200))*time.Millisecond)
	}
}

// waitingCall is a call that is waiting for a message, or that has not continued yet after the
// answer.
type waitingCall struct {
	flight *sentMessage
	needs  cellAmounts
	own    cellAmounts
}

// interleaved runs an edge's calls, messages and reports in any order that the locks permit.
type interleaved struct {
	*rapid.T
	*keyAccount
	twin *scriptModel

	waiting []waitingCall
	message *accountMessage
	reply   accountReply

	limits cellAmounts
	used   cellAmounts // usage per limit
	held   []cellAmounts
}

func (w *interleaved) begin() {
	n := cellAmounts{requestCellIndex: 1}
	if rapid.Bool().Draw(w.T, "tokens and a slot") {
		n = cellAmounts{tokenCellIndex: rapid.Int64Range(1, 400).Draw(w.T, "estimate"), slotCellIndex: 1}
	}
	for i := range n {
		if w.limits[i] > 0 && w.used[i]+n[i] > w.limits[i] {
			return
		}
	}
	for i := range n {
		w.used[i] += n[i]
	}
	if d, ok := w.takeGranted(n, w.edgeState.now()); ok {
		w.allow(d, n)
		return
	}
	own := w.keyCells.cappedNeeds(n)
	f, _ := w.joinNextMessage(own)
	w.waiting = append(w.waiting, waitingCall{f, n, own})
}

func (w *interleaved) allow(d limit.Decision, n cellAmounts) {
	if !d.OK {
		w.Fatalf("%+v is refused by %s, of %+v are used %+v", n, d.LimitName, w.limits, w.used)
	}
	if n[requestCellIndex] == 0 {
		w.held = append(w.held, n)
	}
}

func (w *interleaved) send(f *sentMessage) {
	w.inFlight = f
	m := w.keyAccount.buildMessage(w.edgeState.now())
	w.message = &m
	w.reply, _ = w.twin.answer("a", &m)
}

func (w *interleaved) step() {
	random := func(n int) int { return rapid.IntRange(0, n-1).Draw(w.T, "which") }
	switch what := random(6); {
	case what == 0 && w.inFlight == nil && w.nextMessage != nil:
		f := w.nextMessage
		w.nextMessage = nil
		w.send(f)
	case what == 1 && w.inFlight != nil:
		w.handleAnswer(w.message, w.reply, nil)
	case what == 2 && len(w.waiting) > 0:
		n := random(len(w.waiting))
		if c := w.waiting[n]; c.flight.hasAnswer() {
			w.waiting = slices.Delete(w.waiting, n, n+1)
			w.allow(w.finishWait(c.flight, c.needs, c.own, w.edgeState.now()), c.needs)
		}
	case what == 3 && w.inFlight == nil && w.nextMessage == nil:
		if _, due := w.nextReportTime(); due {
			w.send(newSentMessage())
		}
	case what == 4 && len(w.held) > 0:
		n := random(len(w.held))
		held := w.held[n]
		w.held = slices.Delete(w.held, n, n+1)
		used := rapid.Int64Range(0, held[tokenCellIndex]).Draw(w.T, "used")
		w.used[tokenCellIndex] -= held[tokenCellIndex] - used
		w.used[slotCellIndex]--
		w.keyCells.settle(held, cellAmounts{tokenCellIndex: used})
	default:
		w.begin()
	}
}

// TestNoneIsRefusedForWhomThereIsRoom checks that no call is rejected if the key's limits have room
// for it, no matter how the edge's calls, messages and reports interleave.
func TestNoneIsRefusedForWhomThereIsRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := config.KeyLimits{
			RequestsPerMinute: rapid.SampledFrom([]int{0, 3, 60, 6000}).Draw(t, "requests"),
			TokensPerMinute:   rapid.SampledFrom([]int{0, 500, 36_000}).Draw(t, "tokens"),
			Concurrency:       rapid.SampledFrom([]int{0, 1, 4, 20, 200}).Draw(t, "concurrency"),
		}
		w := newWorld(rapid.IntRange(1, 5).Draw(t, "edges"), limits, config.StoreLostDivide)
		key := w.keys[0]
		key.lastAcquired = 0
		key.keyCells.applyLimits(limitAmounts(limits))
		calls := &interleaved{T: t, keyAccount: key, twin: w.twin, limits: limitAmounts(limits)}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			calls.step()
		}
	})
}
