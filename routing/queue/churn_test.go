package queue

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"penstock/upstreams"
)

// TestQueueUnderChurn lets clients arrive, disconnect and reach deadlines while slots are acquired
// and released. It checks that no wake-up and no slot is lost, no waiter remains, and no more slots
// are in use than exist.
func TestQueueUnderChurn(t *testing.T) {
	const total = 3
	p := newFakeUpstream(20)
	p.free.Store(total)
	var running, served atomic.Int64
	var wg sync.WaitGroup
	for c := range 12 {
		wg.Go(func() {
			for i := range 300 {
				done := make(chan struct{})
				if i%5 == c%5 {
					time.AfterFunc(time.Duration(i%7)*50*time.Microsecond, func() { close(done) })
				}
				deadline := time.Now().Add(time.Second)
				if i%11 == 0 {
					deadline = time.Now().Add(100 * time.Microsecond)
				}
				if err := p.wait(done, fmt.Sprint(c%4), deadline, p.take); err != nil {
					continue
				}
				if n := running.Add(1); n > total {
					t.Errorf("%d calls run at once, want at most %d", n, total)
				}
				if i%3 == 0 {
					time.Sleep(20 * time.Microsecond)
				}
				served.Add(1)
				running.Add(-1)
				p.release()
			}
		})
	}
	wg.Wait()
	if p.q.WaitingCallCount() != 0 || p.free.Load() != total || len(p.q.keys) != 0 || p.q.keyOrder.Len() != 0 {
		t.Errorf("%d wait, %d free, %d keys", p.q.WaitingCallCount(), p.free.Load(), len(p.q.keys))
	}
	if served.Load() < 1000 {
		t.Errorf("only %d served", served.Load())
	}
}

// TestQueuesWakeFewUnderChurn simulates calls for different models on shared upstreams. Some of the
// calls acquire a slot without waiting in the queue. It checks that each freed slot wakes at most
// two waiters and that every waiter is served.
func TestQueuesWakeFewUnderChurn(t *testing.T) {
	set := New()
	p := newFakeUpstream(0)
	p.set = set
	p.free.Store(3)
	queues := []*Queue{set.ForModel("a"), set.ForModel("b"), set.ForModel("c")}
	uses := make([]QueueConfig, len(queues))
	for i, q := range queues {
		uses[i] = QueueConfig{Model: fmt.Sprint(i), Queue: q, Depth: 400, Route: p}
	}
	set.ApplyConfigs(uses)
	var freed, woken atomic.Int64
	var wg sync.WaitGroup
	for c := range 60 {
		wg.Go(func() {
			for i := range 100 {
				first := queues[c%3].WaitingCallCount() == 0
				if err := queues[c%3].Wait(nil, &WaitRequest{Key: fmt.Sprint(c % 5)}, time.Now().Add(time.Minute), func() bool {
					if !first {
						woken.Add(1)
					}
					first = false
					return p.take()
				}); err != nil {
					t.Error(err)
				}
				if i%3 == 0 {
					time.Sleep(20 * time.Microsecond)
				}
				freed.Add(1)
				p.release()
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for range 500 {
				if p.take() {
					time.Sleep(10 * time.Microsecond)
					freed.Add(1)
					p.release()
				}
			}
		})
	}
	wg.Wait()
	if p.free.Load() != 3 || set.waitingCount.Load() != 0 || p.promised() != 0 {
		t.Errorf("%d free, %d wait, %d promised", p.free.Load(), set.waitingCount.Load(), p.promised())
	}
	if w, f := woken.Load(), freed.Load(); w > 2*f {
		t.Errorf("%d were woken for %d slots", w, f)
	}
}

func (p *fakeUpstream) promised() int {
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	return (*p.set.byUpstream.Load())[p.at].promisedSlots(upstreams.PoolText, true)
}

// BenchmarkOnSlotFreed measures the release of a slot for different numbers of waiting calls. The
// calls wait either for a different model, which does not use the upstream, or for the same model.
// In the second case, each slot wakes a waiter, which then waits again.
func BenchmarkOnSlotFreed(b *testing.B) {
	for _, n := range []int{0, 50, 200, 1000} {
		p, idle := newFakeUpstream(n), newFakeUpstream(0)
		idle.set, idle.q = p.set, p.set.ForModel("idle")
		p.set.ApplyConfigs([]QueueConfig{{Model: "m", Queue: p.q, Depth: n, Route: p}, {Model: "idle", Queue: idle.q, Depth: 10, Route: idle}})
		done := make(chan struct{})
		turn := make(chan struct{})
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				for !isClosed(done) {
					if p.wait(done, fmt.Sprint(i%10), time.Now().Add(time.Hour), p.take) == nil {
						turn <- struct{}{}
					}
				}
			})
		}
		for p.q.WaitingCallCount() < n {
			time.Sleep(time.Millisecond)
		}
		b.Run(fmt.Sprintf("another model's/%d wait", n), func(b *testing.B) {
			for b.Loop() {
				idle.release()
			}
		})
		b.Run(fmt.Sprintf("its own/%d wait", n), func(b *testing.B) {
			for b.Loop() {
				p.release()
				if n > 0 {
					<-turn
				}
			}
		})
		close(done)
		wg.Wait()
	}
}

// TestQueueConfigsLeaveNoQueue checks that inspecting a configuration leaves no queue behind.
func TestQueueConfigsLeaveNoQueue(t *testing.T) {
	s := New()
	q := s.ForModel("m")
	if len(s.byModel) != 0 || len(s.retired) != 0 || s.ForModel("m") == q {
		t.Error("a queue that nobody uses is kept")
	}
	p := newFakeUpstream(0)
	p.set = s
	s.ApplyConfigs([]QueueConfig{{Model: "m", Queue: q, Depth: 1, Route: p}})
	if s.ForModel("m") != q {
		t.Error("the queue in use is not found")
	}
	s.ApplyConfigs(nil)
	if s.ForModel("m") != q {
		t.Error("a call on the configuration before may be about to wait, in another queue than those after it")
	}
	s.ApplyConfigs(nil)
	if s.ForModel("m") == q || len(*s.byUpstream.Load()) != 0 {
		t.Error("a queue that nobody waits in is kept for ever")
	}
}
