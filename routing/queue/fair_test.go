package queue

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"penstock/routing/turns"
)

// newFairUpstream returns an upstream with one slot, and the scheduler of its queue.
func newFairUpstream() (*fakeUpstream, *turns.Scheduler) {
	p, line := newFakeUpstream(100), new(turns.Scheduler)
	p.set.ApplyConfigs([]QueueConfig{{Model: "m", Queue: p.q, Depth: 100, Route: p, Scheduler: line}})
	return p, line
}

// TestQueueServesByTokens checks that keys that always have a waiting call get tokens in proportion
// to their weights, regardless of how many calls each key has.
func TestQueueServesByTokens(t *testing.T) {
	for _, c := range []struct {
		name    string
		a, b    int64   // tokens of each call
		weight  float64 // weight of a; the weight of b is 1
		atLeast int     // minimum number of b's calls among 120 served calls
		atMost  int
	}{
		{"equal calls", 1000, 1000, 1, 59, 61},
		{"calls of ten times the size", 10_000, 1000, 1, 107, 110},
		{"twice the weight", 1000, 1000, 2, 39, 41},
		{"a small part", 1000, 1000, 0.5, 79, 81},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, line := newFairUpstream()
				done := make(chan struct{})
				var mu sync.Mutex
				served := map[string]int{}
				loop := func(key string, weight float64, tokens int64) {
					for {
						err := p.q.Wait(done, &WaitRequest{Key: key, Weight: weight, Expected: tokens}, time.Now().Add(time.Hour), func() bool {
							if !p.take() {
								return false
							}
							line.StartCharging(key, weight, tokens, time.Now())
							return true
						})
						if err != nil {
							return
						}
						mu.Lock()
						served[key]++
						mu.Unlock()
					}
				}
				var loops sync.WaitGroup
				for range 8 {
					loops.Go(func() { loop("a", c.weight, c.a) })
				}
				for range 2 {
					loops.Go(func() { loop("b", 1, c.b) })
				}
				synctest.Wait()
				for range 120 {
					p.release()
					synctest.Wait()
				}
				if n := served["b"]; n < c.atLeast || n > c.atMost || served["a"]+n != 120 {
					t.Errorf("served %v, want %d to %d of b", served, c.atLeast, c.atMost)
				}
				close(done)
				loops.Wait()
			})
		})
	}
}

// TestQueueServesSessionsInTurn checks that the sessions of a key take turns, and that the calls of
// each session are served in order.
func TestQueueServesSessionsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newFairUpstream()
		var served []string
		for _, name := range []string{"1-a", "1-b", "1-c", "2-a", "2-b", "3-a"} {
			go func() {
				n := &WaitRequest{Key: "agent", Session: uint64(name[0])}
				if err := p.q.Wait(nil, n, time.Now().Add(time.Minute), p.take); err != nil {
					t.Errorf("Wait of %s = %v, want a slot", name, err)
				}
				served = append(served, name)
			}()
			synctest.Wait()
		}
		for range 6 {
			p.release()
			synctest.Wait()
		}
		if want := []string{"1-a", "2-a", "3-a", "1-b", "2-b", "1-c"}; !slices.Equal(served, want) {
			t.Errorf("served %v, want %v", served, want)
		}
	})
}

// TestQueueMovesToAnotherScheduler checks that waiting calls move to the new scheduler if a reload
// assigns a different scheduler to their queue.
func TestQueueMovesToAnotherScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, line := newFairUpstream()
		for i := range 3 {
			go func() {
				if err := p.wait(nil, fmt.Sprint(i), time.Now().Add(time.Minute), p.take); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		next := new(turns.Scheduler)
		p.set.ApplyConfigs([]QueueConfig{{Model: "m", Queue: p.q, Depth: 100, Route: p, Scheduler: next}})
		if line.StartCharging("late", 1, 1, time.Now().Add(time.Hour)); !line.IsQuiet() || next.IsQuiet() {
			t.Error("calls wait in the line that was left")
		}
		for range 3 {
			p.release()
			synctest.Wait()
		}
		if next.StartCharging("late", 1, 1, time.Now().Add(time.Hour)); !next.IsQuiet() {
			t.Error("keys wait that have left")
		}
	})
}
