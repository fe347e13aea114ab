package limit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// places is a pool as the edge has them: taken by compare-and-swap, freed and signalled after.
type places struct {
	free atomic.Int64
	q    *Queue
}

func (p *places) take() bool {
	for {
		n := p.free.Load()
		if n == 0 {
			return false
		}
		if p.free.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

func (p *places) release() {
	p.free.Add(1)
	p.q.Signal()
}

func none() bool { return false }

func TestQueueServesKeysInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := places{q: NewQueue(100)}
		var mu sync.Mutex
		var served []string
		wait := func(name string) {
			go func() {
				key, _, _ := strings.Cut(name, "-")
				if err := p.q.Wait(nil, key, time.Now().Add(time.Minute), p.take); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				served = append(served, name)
			}()
			synctest.Wait()
		}
		for i := range 4 {
			wait(fmt.Sprint("flood-", i))
		}
		wait("b-0")
		wait("flood-4")
		wait("c-0")
		wait("c-1")
		for range 8 {
			p.release()
			synctest.Wait()
		}
		want := []string{"flood-0", "b-0", "c-0", "flood-1", "c-1", "flood-2", "flood-3", "flood-4"}
		if !slices.Equal(served, want) {
			t.Errorf("served %v, want %v", served, want)
		}
		if p.q.Waiting() != 0 || len(p.q.keys) != 0 || p.q.order.Len() != 0 {
			t.Errorf("%d waiters, %d keys left", p.q.Waiting(), len(p.q.keys))
		}
	})
}

func TestQueueEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(2)
		start := time.Now()
		errs := make(chan error, 2)
		done := make(chan struct{})
		go func() { errs <- q.Wait(nil, "a", start.Add(3*time.Second), none) }()
		go func() { errs <- q.Wait(done, "b", start.Add(time.Hour), none) }()
		synctest.Wait()
		if err := q.Wait(nil, "c", start.Add(time.Hour), none); !errors.Is(err, ErrQueueFull) {
			t.Errorf("third: %v", err)
		}
		if err := <-errs; !errors.Is(err, ErrQueueWait) || time.Since(start) != 3*time.Second {
			t.Errorf("deadline: %v after %v", err, time.Since(start))
		}
		close(done)
		if err := <-errs; !errors.Is(err, ErrQueueLeft) || time.Since(start) != 3*time.Second {
			t.Errorf("gone: %v after %v", err, time.Since(start))
		}
		if err := q.Wait(nil, "a", time.Time{}, none); !errors.Is(err, ErrQueueWait) {
			t.Errorf("no deadline: %v", err)
		}
		if q.Waiting() != 0 {
			t.Errorf("%d wait", q.Waiting())
		}
	})
}

func TestQueueDepth(t *testing.T) {
	var q Queue
	looked := false
	look := func() bool { looked = true; return true }
	if err := q.Wait(nil, "a", time.Now().Add(time.Hour), look); !errors.Is(err, ErrQueueFull) || looked {
		t.Errorf("no depth: %v, looked %v", err, looked)
	}
	q.SetDepth(1)
	if err := q.Wait(nil, "a", time.Now().Add(time.Hour), look); err != nil || !looked {
		t.Errorf("depth 1: %v, looked %v", err, looked)
	}
}

// A waiter whose try finds nothing keeps its place before those that came later.
func TestQueueKeepsPlaceAfterVainTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := places{q: NewQueue(10)}
		served := make(chan string, 2)
		for _, key := range []string{"a", "b"} {
			go func() {
				if err := p.q.Wait(nil, key, time.Now().Add(time.Minute), p.take); err != nil {
					t.Error(err)
				}
				served <- key
			}()
			synctest.Wait()
		}
		for range 3 {
			p.q.Signal() // the place was snatched away
			synctest.Wait()
		}
		p.release()
		if first := <-served; first != "a" {
			t.Errorf("%s was served first", first)
		}
		p.release()
		<-served
	})
}

// A place that the first in the queue cannot use is for the next one, of its own key or another: with one signal, and with
// everybody asked once at most.
func TestQueuePassesOnWhatDoesNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(10)
		var asked, served [4]atomic.Int64
		var fits atomic.Int64
		fits.Store(-1)
		for i := range 4 {
			go func() {
				err := q.Wait(nil, []string{"a", "a", "b", "b"}[i], time.Now().Add(time.Minute), func() bool {
					asked[i].Add(1)
					return fits.CompareAndSwap(int64(i), -1)
				})
				if err == nil {
					served[i].Add(1)
				}
			}()
			synctest.Wait()
		}
		for i := range asked {
			asked[i].Store(0)
		}
		fits.Store(3)
		q.Signal()
		synctest.Wait()
		for i := range served {
			if want := i == 3; (served[i].Load() == 1) != want {
				t.Errorf("waiter %d: served %d", i, served[i].Load())
			}
			if n := asked[i].Load(); n > 2 { // once more, for what came while it was asked
				t.Errorf("waiter %d was asked %d times", i, n)
			}
		}
		late := make(chan error, 1) // what fits nobody who waits is for a newcomer
		go func() { late <- q.Wait(nil, "c", time.Now().Add(time.Second), func() bool { return true }) }()
		if err := <-late; err != nil {
			t.Errorf("a newcomer: %v", err)
		}
		time.Sleep(2 * time.Minute) // the others leave
	})
}

// A turn that comes to a waiter that leaves goes to the next one: a call that has gone takes no place, though it has the turn.
func TestQueueHandsTurnOn(t *testing.T) {
	for range 20 { // which of two events a waiter sees first is chance
		synctest.Test(t, func(t *testing.T) {
			p := places{q: NewQueue(10)}
			done, hold := make(chan struct{}), make(chan struct{})
			gone, next := make(chan error, 1), make(chan error, 1)
			go func() {
				gone <- p.q.Wait(done, "a", time.Now().Add(time.Minute), func() bool {
					select {
					case <-hold:
						return p.take()
					default:
					}
					<-hold // the first look takes long; the turn comes meanwhile
					return false
				})
			}()
			synctest.Wait()
			go func() { next <- p.q.Wait(nil, "b", time.Now().Add(time.Minute), p.take) }()
			synctest.Wait()
			p.release()
			close(done)
			close(hold)
			if err := <-gone; !errors.Is(err, ErrQueueLeft) {
				t.Errorf("the one that left: %v", err)
			}
			if err := <-next; err != nil {
				t.Errorf("the next one: %v", err)
			}
		})
	}
}

// Nobody looks for a place while another who came before is about to; what that one leaves is the next one's, and the key that
// found a place without a signal goes behind the others.
func TestQueueKeepsNewcomersBehind(t *testing.T) {
	for _, signalled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := places{q: NewQueue(10)}
			var looks, late atomic.Int64
			hold, slow := make(chan struct{}), int64(1)
			if signalled {
				slow = 2
			}
			served := make(chan string, 3)
			wait := func(name string, try func() bool) {
				go func() {
					key, _, _ := strings.Cut(name, "-")
					if err := p.q.Wait(nil, key, time.Now().Add(time.Minute), try); err != nil {
						t.Errorf("%s: %v", name, err)
					}
					served <- name
				}()
				synctest.Wait()
			}
			wait("a-0", func() bool {
				if looks.Add(1) == slow {
					<-hold
				}
				return p.take()
			})
			if signalled {
				p.q.Signal()
				synctest.Wait()
			}
			if n := looks.Load(); n != slow {
				t.Fatalf("the first one looked %d times", n)
			}
			take := func() bool { late.Add(1); return p.take() }
			wait("a-1", take)
			wait("b-0", take)
			p.free.Store(1)
			if n := late.Load(); n != 0 {
				t.Errorf("signalled %t: newcomers looked %d times before the first one had", signalled, n)
			}
			close(hold)
			got := []string{<-served}
			synctest.Wait()
			for range 2 {
				p.release()
				got = append(got, <-served)
			}
			want := []string{"a-0", "b-0", "a-1"}
			if signalled { // the key has paid for the turn while nobody else waited
				want = []string{"a-0", "a-1", "b-0"}
			}
			if !slices.Equal(got, want) {
				t.Errorf("signalled %t: served %v, want %v", signalled, got, want)
			}
		})
	}
}

// A place that does not fit the only one who waits is found by a newcomer, without any signal; and one that leaves without
// having a turn wakes nobody.
func TestQueueNewcomerLooksForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(10)
		var looks atomic.Int64
		left := make(chan error, 2)
		look := func() bool { looks.Add(1); return false }
		go func() { left <- q.Wait(nil, "a", time.Now().Add(time.Minute), look) }()
		synctest.Wait()
		if err := q.Wait(nil, "b", time.Now().Add(time.Second), func() bool { return true }); err != nil {
			t.Errorf("a newcomer whom the place fits: %v", err)
		}
		synctest.Wait()
		looks.Store(0)
		done := make(chan struct{})
		close(done)
		if err := q.Wait(done, "b", time.Now().Add(time.Second), none); !errors.Is(err, ErrQueueLeft) {
			t.Errorf("one that leaves: %v", err)
		}
		synctest.Wait()
		if n := looks.Load(); n > 1 { // the turn that the newcomer was given may have come to it
			t.Errorf("the one that waits was asked %d times for nothing", n)
		}
		if err := <-left; !errors.Is(err, ErrQueueWait) {
			t.Errorf("the one that waited: %v", err)
		}
	})
}

// Places that were freed while nobody waited are all found, though nobody was signalled.
func TestQueueFindsUnsignalledPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := places{q: NewQueue(10)}
		slow := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := p.q.Wait(nil, "a", time.Now().Add(time.Minute), func() bool { <-slow; return p.take() }); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		for range 3 {
			wg.Go(func() {
				if err := p.q.Wait(nil, "b", time.Now().Add(time.Minute), p.take); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		p.free.Store(4)
		close(slow)
		wg.Wait()
	})
}

func TestQueueMakesRoomForOtherKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := places{q: NewQueue(4)}
		flood, other := make(chan error, 10), make(chan error, 10)
		join := func(key string, errs chan error) {
			go func() { errs <- p.q.Wait(nil, key, time.Now().Add(time.Minute), p.take) }()
			synctest.Wait()
		}
		for range 5 {
			join("flood", flood)
		}
		if err := <-flood; !errors.Is(err, ErrQueueFull) {
			t.Errorf("fifth of the flood: %v", err)
		}
		for range 2 {
			join("other", other)
			if err := <-flood; !errors.Is(err, ErrQueueFull) {
				t.Errorf("newest of the flood: %v", err)
			}
		}
		join("other", other) // two and two: no key may take from the other
		if err := <-other; !errors.Is(err, ErrQueueFull) {
			t.Errorf("third of the other: %v", err)
		}
		for range 4 {
			p.release()
		}
		for _, errs := range []chan error{flood, other} {
			for range 2 {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
		}
	})
}

func TestQueueBroadcast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := places{q: NewQueue(10)}
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				if err := p.q.Wait(nil, fmt.Sprint(i%3), time.Now().Add(time.Minute), p.take); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		p.free.Store(6)
		p.q.Broadcast()
		wg.Wait()
	})
}

func TestQueueSurvivesPanic(t *testing.T) {
	q := NewQueue(1)
	func() {
		defer func() { _ = recover() }()
		_ = q.Wait(nil, "a", time.Now().Add(time.Hour), func() bool { panic("try") })
	}()
	if q.Waiting() != 0 {
		t.Error("a waiter whose try panicked still waits")
	}
}

// Clients come, leave and run into deadlines while places are taken and freed: no turn and no place is lost, nobody is
// left, and the places are never exceeded.
func TestQueueUnderChurn(t *testing.T) {
	const total = 3
	p := places{q: NewQueue(20)}
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
				if err := p.q.Wait(done, fmt.Sprint(c%4), deadline, p.take); err != nil {
					continue
				}
				if n := running.Add(1); n > total {
					t.Errorf("%d run", n)
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
	if p.q.Waiting() != 0 || p.free.Load() != total || len(p.q.keys) != 0 || p.q.order.Len() != 0 {
		t.Errorf("%d wait, %d free, %d keys", p.q.Waiting(), p.free.Load(), len(p.q.keys))
	}
	if served.Load() < 1000 {
		t.Errorf("only %d served", served.Load())
	}
}
