package queue

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"penstock/routing"
)

func batchNeed(key string, after time.Duration) *WaitRequest {
	return &WaitRequest{Key: key, Rank: 1, AgesAt: time.Now().Add(after)}
}

// TestQueueServesBatchesLast checks that batch calls wait behind other calls until they have aged.
func TestQueueServesBatchesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeUpstream(100)
		var mu sync.Mutex
		var served []string
		wait := func(name string, n *WaitRequest) {
			go func() {
				if err := p.q.Wait(nil, n, time.Now().Add(time.Minute), p.take); err != nil {
					t.Errorf("Wait of %s = %v, want a slot", name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				served = append(served, name)
			}()
			synctest.Wait()
		}
		wait("batch-0", batchNeed("b", 10*time.Second))
		wait("batch-1", batchNeed("b", 20*time.Second))
		for i := range 3 {
			wait(fmt.Sprint("user-", i), &WaitRequest{Key: fmt.Sprint("user-", i)})
		}
		release := func() {
			p.release()
			synctest.Wait()
		}
		release()
		time.Sleep(15 * time.Second) // the first batch call has aged
		for range 4 {
			release()
		}
		if want := []string{"user-0", "batch-0", "user-1", "user-2", "batch-1"}; !slices.Equal(served, want) {
			t.Errorf("served %v, want %v", served, want)
		}
		if p.q.laterRankWaiters != 0 || p.q.WaitingCallCount() != 0 {
			t.Errorf("%d wait, %d of batches", p.q.WaitingCallCount(), p.q.laterRankWaiters)
		}
	})
}

// TestQueueEvictsBatchesFirst checks that a full queue evicts a batch call for a call of an earlier
// class. A full queue without batch calls rejects a batch call.
func TestQueueEvictsBatchesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeUpstream(3)
		ended := make(chan string, 10)
		join := func(name string, n *WaitRequest) {
			go func() {
				if err := p.q.Wait(nil, n, time.Now().Add(time.Minute), p.take); errors.Is(err, ErrFull) {
					ended <- name
				}
			}()
			synctest.Wait()
		}
		join("user-0", &WaitRequest{Key: "user"})
		join("batch-0", batchNeed("b", time.Minute))
		join("batch-1", batchNeed("b", time.Minute))
		join("batch-2", batchNeed("c", time.Minute)) // c has fewer waiting calls than b
		join("user-1", &WaitRequest{Key: "user"})
		join("user-2", &WaitRequest{Key: "user"})
		join("batch-3", batchNeed("b", time.Minute))
		for _, want := range []string{"batch-1", "batch-0", "batch-2", "batch-3"} {
			if got := <-ended; got != want {
				t.Errorf("%s lost its place, want %s", got, want)
			}
		}
		for range 3 {
			p.release()
		}
		synctest.Wait()
		if p.q.WaitingCallCount() != 0 || len(ended) != 0 {
			t.Errorf("%d wait, %d were evicted", p.q.WaitingCallCount(), len(ended))
		}
	})
}

// TestReserveKeepsWaits checks a pool that reserves slots for users while 100 batch calls are
// always waiting. The batch calls must not make users' calls wait longer, but every batch call must
// be served.
func TestReserveKeepsWaits(t *testing.T) {
	const slots, users, each = 8, 2, 30
	run := func(t *testing.T, batch int, reserve routing.Percent) (waits []time.Duration, batched int) {
		synctest.Test(t, func(t *testing.T) {
			p := newFakeUpstream(1000)
			p.free.Store(slots)
			p.fits = func(q *routing.Query) bool { return int(p.free.Load()) > reserved(q.Reserve, slots) }
			var mu, taking sync.Mutex
			var done bool
			ask := func(n *WaitRequest) bool {
				// Check and acquire in one step, because two concurrent calls would use the
				// reserve.
				take := func() bool {
					taking.Lock()
					defer taking.Unlock()
					return int(p.free.Load()) > reserved(n.Reserve, slots) && p.take()
				}
				return p.q.Wait(nil, n, time.Now().Add(time.Hour), take) == nil
			}
			var all, talks sync.WaitGroup
			for i := range batch {
				all.Go(func() {
					for {
						mu.Lock()
						if batched++; done {
							batched--
							mu.Unlock()
							return
						}
						mu.Unlock()
						n := batchNeed(fmt.Sprint("batch-", i%3), 10*time.Second)
						n.Reserve = reserve
						if !ask(n) {
							t.Error("a call of a batch was not served")
						}
						time.Sleep(5 * time.Second)
						p.release()
					}
				})
			}
			synctest.Wait()
			for i := range users {
				talks.Go(func() {
					for range each {
						time.Sleep(time.Duration(700+i*111) * time.Millisecond)
						begun := time.Now()
						ask(&WaitRequest{Key: fmt.Sprint("user-", i)})
						mu.Lock()
						waits = append(waits, time.Since(begun))
						mu.Unlock()
						time.Sleep(time.Second)
						p.release()
					}
				})
			}
			talks.Wait()
			mu.Lock()
			done = true
			mu.Unlock()
			all.Wait()
		})
		slices.Sort(waits)
		return waits, batched
	}
	alone, _ := run(t, 0, 25)
	beside, batched := run(t, 100, 25)
	without, _ := run(t, 100, 0)
	p95 := len(alone) * 95 / 100
	t.Logf("p95 of the wait: %v alone, %v beside a batch (%d calls of it), %v without a reserve", alone[p95], beside[p95], batched, without[p95])
	if without[p95] <= beside[p95] {
		t.Errorf("a wait of %v without a reserve: the batch is no load", without[p95])
	}
	if beside[p95] > alone[p95]+alone[p95]/10 {
		t.Errorf("p95 of the wait: %v alone, %v beside a batch", alone[p95], beside[p95])
	}
	if batched < 100 {
		t.Errorf("%d calls of the batch were served", batched)
	}
}

func reserved(share routing.Percent, slots int64) int { return int(share.Of(slots)) }

// TestQueueFloors checks that classes are served in order, and that each class gets its floor while
// its calls are waiting.
func TestQueueFloors(t *testing.T) {
	for _, c := range []struct {
		floors []routing.Percent
		want   [3]int // number of slots for each class, out of 100
	}{
		{nil, [3]int{100, 0, 0}},
		{[]routing.Percent{0, 0, 10}, [3]int{90, 0, 10}},
		{[]routing.Percent{0, 20, 10}, [3]int{70, 20, 10}},
		{[]routing.Percent{0, 60, 40}, [3]int{0, 60, 40}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newFakeUpstream(400)
			p.set.ApplyConfigs([]QueueConfig{{Model: "m", Queue: p.q, Depth: 400, Route: p, Floors: c.floors}})
			var mu sync.Mutex
			var served [3]int
			left := make(chan struct{})
			for i := range 360 {
				n := &WaitRequest{Key: fmt.Sprint("key-", i%3, i%2), Rank: i % 3, AgesAt: time.Now().Add(time.Hour)}
				go func() {
					if p.q.Wait(left, n, time.Now().Add(time.Minute), p.take) == nil {
						mu.Lock()
						defer mu.Unlock()
						served[n.Rank]++
					}
				}()
			}
			synctest.Wait()
			for range 100 {
				p.release()
				synctest.Wait()
			}
			mu.Lock()
			defer mu.Unlock()
			for i, n := range served {
				if n < c.want[i]-2 || n > c.want[i]+2 {
					t.Errorf("floors of %v: the classes got %v slots of 100, want %v", c.floors, served, c.want)
					break
				}
			}
			close(left)
		})
	}
}
