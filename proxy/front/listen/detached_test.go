package listen

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func (d *detached) parkedNow() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.parked)
}

// TestDetachedGoroutines checks that a goroutine waits for another function after its first one,
// that the number of waiting goroutines is limited, and that no goroutine waits after close.
// synctest fails if a goroutine is left.
func TestDetachedGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d detached
		var ran sync.WaitGroup
		block := make(chan struct{})
		for range maxParked + 5 {
			ran.Add(1)
			d.run(func() { <-block; ran.Done() })
		}
		close(block)
		ran.Wait()
		synctest.Wait()
		if n := d.parkedNow(); n != maxParked {
			t.Fatalf("%d wait, want %d", n, maxParked)
		}
		held := make(chan struct{})
		d.run(func() { <-held })
		synctest.Wait()
		if n := d.parkedNow(); n != maxParked-1 {
			t.Errorf("%d wait while one of them runs, want %d", n, maxParked-1)
		}
		d.close()
		synctest.Wait()
		close(held)
		synctest.Wait()
		d.run(func() {})
		synctest.Wait()
		if n := d.parkedNow(); n != 0 {
			t.Errorf("%d wait after close", n)
		}
	})
}

// TestDetachedGoroutinesEndUnused checks that idle goroutines exit after a while, starting with
// those that have waited longest. Otherwise, the goroutines from a burst of streams would remain.
func TestDetachedGoroutinesEndUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d detached
		atOnce := func(n int) {
			block := make(chan struct{})
			for range n {
				d.run(func() { <-block })
			}
			close(block)
			synctest.Wait()
		}
		atOnce(20)
		time.Sleep(parkedFor + time.Second)
		if n := d.parkedNow(); n != 20 {
			t.Errorf("%d wait, want all 20: they were needed since the last look", n)
		}
		atOnce(3)
		time.Sleep(parkedFor)
		if n := d.parkedNow(); n != 3 {
			t.Errorf("%d wait, want the 3 that were needed", n)
		}
		time.Sleep(parkedFor)
		if n := d.parkedNow(); n != 0 {
			t.Errorf("%d wait though none was needed", n)
		}
		atOnce(2) // the pool fills again from empty
		time.Sleep(3 * parkedFor)
		if n := d.parkedNow(); n != 0 {
			t.Errorf("%d wait though none was needed", n)
		}
		atOnce(4)
		d.close()
	})
}

// TestDetachedStackShrinks checks that a function that runs for an hour, like a stream, does not
// retain the large stack of an earlier function.
func TestDetachedStackShrinks(t *testing.T) {
	var d detached
	defer d.close()
	var done sync.WaitGroup
	hold, held := make(chan struct{}), make(chan struct{})
	all := func(f func()) {
		for range maxParked {
			done.Add(1)
			d.run(func() { f(); done.Done() })
		}
	}
	all(func() { deep(64); <-hold })
	close(hold)
	for d.parkedNow() < maxParked {
		runtime.Gosched()
	}
	grown := stacks()
	all(func() { <-held })
	for range 6 {
		debug.FreeOSMemory()
	}
	if now := stacks(); grown-now < maxParked*48<<10 {
		t.Errorf("%d KiB of stacks with the goroutines grown, %d KiB held", grown>>10, now>>10)
	}
	close(held)
	done.Wait()
}

// deep uses n KiB of stack.
//
//go:noinline
func deep(n int) byte {
	var b [1 << 10]byte
	if n > 0 {
		b[n%len(b)] = deep(n - 1)
	}
	return b[n%len(b)]
}

func stacks() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
