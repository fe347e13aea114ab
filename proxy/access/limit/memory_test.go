package limit

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestMemory(t *testing.T) {
	m := NewMemoryBudget(100)
	if !m.Reserve(60) || m.Reserve(41) || !m.Reserve(40) || m.Reserve(1) || !m.Reserve(0) || m.Reserve(math.MaxInt64) {
		t.Errorf("used %d of %d", m.UsedBytes(), m.Limit())
	}
	m.Release(100)
	if m.UsedBytes() != 0 || m.Limit() != 100 {
		t.Errorf("used %d of %d", m.UsedBytes(), m.Limit())
	}
	defer func() {
		if recover() == nil {
			t.Error("released more than was reserved")
		}
	}()
	m.Release(1)
}

func TestMemoryIsExactUnderConcurrency(t *testing.T) {
	m := NewMemoryBudget(1000)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 5000 {
				n := int64(100 + 37*i)
				if m.Reserve(n) {
					if u := m.UsedBytes(); u > 1000 || u < n {
						t.Errorf("Used() = %d, want between %d and 1000", u, n)
					}
					m.Release(n)
				}
			}
		})
	}
	wg.Wait()
	if m.UsedBytes() != 0 {
		t.Errorf("%d used at rest", m.UsedBytes())
	}
}

// TestMemoryGarbage checks that garbage counts as used until it is collected. When memory is
// needed, a large amount of garbage must be collected immediately, and a small amount at most once
// a second.
func TestMemoryGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemoryBudget(1600)
		collected := 0
		m.collect = func() { collected++ }
		if !m.Reserve(1500) {
			t.Fatal("no room in an empty budget")
		}
		m.ReleaseGarbage(50)
		if m.UsedBytes() != 1450 || m.Reserve(151) || collected != 0 {
			t.Errorf("used %d, %d collections that could not help", m.UsedBytes(), collected)
		}
		if !m.Reserve(100) || collected != 0 {
			t.Errorf("%d collections although there was room", collected)
		}
		if !m.Reserve(50) || collected != 1 || m.UsedBytes() != 1600 {
			t.Errorf("used %d after %d collections of little garbage", m.UsedBytes(), collected)
		}
		m.ReleaseGarbage(99)
		if m.Reserve(99) || collected != 1 {
			t.Errorf("%d collections of little garbage within a second", collected)
		}
		time.Sleep(collectInterval)
		if !m.Reserve(99) || collected != 2 {
			t.Errorf("%d collections of little garbage after a second", collected)
		}
		m.ReleaseGarbage(100)
		if !m.Reserve(100) || collected != 3 || m.UsedBytes() != 1600 {
			t.Errorf("used %d after %d collections", m.UsedBytes(), collected)
		}
		m.Release(600)
		m.ReleaseGarbage(1000)
		if m.UsedBytes() != 0 || !m.Reserve(1600) || collected != 4 {
			t.Errorf("used %d after %d collections", m.UsedBytes(), collected)
		}
		m.ReleaseGarbage(1601)
		defer func() {
			if recover() == nil {
				t.Error("discarded more than was reserved")
			}
		}()
		m.Reserve(1)
	})
}

func TestMemoryGarbageUnderConcurrency(t *testing.T) {
	m := NewMemoryBudget(1000)
	m.collect = func() {}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 5000 {
				n := int64(100 + 37*i)
				if !m.Reserve(n) {
					continue
				}
				if u := m.used.Load(); u > 1000 {
					t.Errorf("used = %d, want at most 1000", u)
				}
				if j%2 == 0 {
					m.ReleaseGarbage(n)
				} else {
					m.Release(n)
				}
			}
		})
	}
	wg.Wait()
	if m.UsedBytes() != 0 || !m.Reserve(1000) {
		t.Errorf("%d used at rest", m.UsedBytes())
	}
}
