package scheduler

import (
	"slices"
	"testing"
	"testing/synctest"
)

// TestSlotsAreOrdered checks that preempted requests are served first. Other requests are served in
// the order of their priority numbers, lowest first, and then in the order of arrival.
func TestSlotsAreOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1, -1, 0)
		running, err := s.Acquire(nil, 1, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		var served []int
		enter := func(id, priority int) {
			go func() {
				holder, err := s.Acquire(nil, 1, nil, priority)
				if err != nil {
					t.Error(err)
				}
				served = append(served, id) // one request runs at a time
				s.Release(holder)
			}()
			synctest.Wait()
		}
		for id, priority := range []int{2, 0, 1, 0, -1, 2} {
			enter(id, priority)
		}
		go func() {
			if err := s.Requeue(running, nil); err != nil {
				t.Error(err)
			}
			served = append(served, -1)
			s.Release(running)
		}()
		synctest.Wait()
		if want := []int{-1, 4, 1, 3, 2, 0, 5}; !slices.Equal(served, want) {
			t.Errorf("served %v, want %v", served, want)
		}
	})
}

// TestSharedBlocksTakeRoomOnce checks that requests with a common prefix run concurrently even if
// there is no room for the sum of their tokens.
func TestSharedBlocksTakeRoomOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(10, -1, 10*BlockTokens)
		shared := []uint64{1, 2, 3, 4, 5, 6}
		enter := func(blocks []uint64) chan *SlotHolder {
			got := make(chan *SlotHolder, 1)
			go func() {
				holder, err := s.Acquire(nil, len(blocks)*BlockTokens, blocks, 0)
				if err != nil {
					t.Error(err)
				}
				got <- holder
			}()
			synctest.Wait()
			return got
		}
		a, b := enter(append(slices.Clone(shared), 7)), enter(append(slices.Clone(shared), 8))
		if used, _ := s.UsedTokensAndSlots(); len(a) != 1 || len(b) != 1 || used != 8*BlockTokens {
			t.Fatalf("%d and %d run, %d tokens are held", len(a), len(b), used)
		}
		c := enter([]uint64{11, 12, 13}) // if blocks were not shared, there would be no room
		if len(c) != 0 {
			t.Fatal("a request runs for which there is no room")
		}
		s.Release(<-a)
		synctest.Wait()
		if used, _ := s.UsedTokensAndSlots(); len(c) != 1 || used != 10*BlockTokens {
			t.Fatalf("%d tokens are held", used)
		}
		s.Release(<-b)
		s.Release(<-c)
		if used, _ := s.UsedTokensAndSlots(); used != 0 || len(s.pins.holders) != 0 {
			t.Errorf("%d tokens are held at the end", used)
		}
	})
}
