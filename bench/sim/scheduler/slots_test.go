package scheduler

import (
	"slices"
	"testing"
	"testing/synctest"
)

// TestSlotsAreOrdered: the lowest priority is served first, of one priority the first that came, and one that was evicted before
// all.
func TestSlotsAreOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1, -1, 0)
		running, err := s.Enter(nil, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		var served []int
		enter := func(id, priority int) {
			go func() {
				holder, err := s.Enter(nil, 1, priority)
				if err != nil {
					t.Error(err)
				}
				served = append(served, id) // one runs at a time
				s.Leave(holder)
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
			s.Leave(running)
		}()
		synctest.Wait()
		if want := []int{-1, 4, 1, 3, 2, 0, 5}; !slices.Equal(served, want) {
			t.Errorf("served %v, want %v", served, want)
		}
	})
}
