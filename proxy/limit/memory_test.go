package limit

import (
	"math"
	"sync"
	"testing"
)

func TestMemory(t *testing.T) {
	m := NewMemory(100)
	if !m.Reserve(60) || m.Reserve(41) || !m.Reserve(40) || m.Reserve(1) || !m.Reserve(0) || m.Reserve(math.MaxInt64) {
		t.Errorf("used %d of %d", m.Used(), m.Limit())
	}
	m.Release(100)
	if m.Used() != 0 || m.Limit() != 100 {
		t.Errorf("used %d of %d", m.Used(), m.Limit())
	}
	defer func() {
		if recover() == nil {
			t.Error("released more than was reserved")
		}
	}()
	m.Release(1)
}

func TestMemoryIsExactUnderConcurrency(t *testing.T) {
	m := NewMemory(1000)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 5000 {
				n := int64(100 + 37*i)
				if m.Reserve(n) {
					if u := m.Used(); u > 1000 || u < n {
						t.Errorf("used %d", u)
					}
					m.Release(n)
				}
			}
		})
	}
	wg.Wait()
	if m.Used() != 0 {
		t.Errorf("%d used at rest", m.Used())
	}
}
