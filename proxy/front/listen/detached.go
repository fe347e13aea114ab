package listen

import (
	"slices"
	"sync"
	"time"

	"penstock/proxy/telemetry/guard"
)

// maxParked is the maximum number of goroutines that wait for the next detached connection. More
// than a few wait only after many streams have ended at once.
const maxParked = 64

// parkedFor is how long a surplus goroutine waits before it ends.
const parkedFor = 10 * time.Second

// detached runs the functions of detached connections. A goroutine that is done waits for the next
// function and is reused, because its stack has already grown. Growing a new stack took a quarter
// of the cost of a short stream. A long stream does not keep the larger stack, because each garbage
// collection halves a stack that is less than a quarter full.
type detached struct {
	guard  *guard.Guard // recovers panics of the sweep; nil recovers none
	mu     sync.Mutex
	parked []chan func() // the longest-waiting goroutine first
	unused int           // the minimum number parked since the last sweep
	sweep  *time.Timer   // nil while none is parked
	closed bool
}

// run starts f, which must catch its own panics.
func (d *detached) run(f func()) {
	d.mu.Lock()
	var next chan func()
	if last := len(d.parked) - 1; last >= 0 {
		next, d.parked = d.parked[last], d.parked[:last]
		d.unused = min(d.unused, last)
	}
	d.mu.Unlock()
	if next == nil {
		go d.work(f)
		return
	}
	next <- f
}

// work runs f, and then the functions that run passes to this goroutine.
func (d *detached) work(f func()) {
	for next := make(chan func(), 1); f != nil; {
		f()
		f = d.park(next)
	}
}

// park waits for the next function. It returns nil if enough goroutines are already waiting, or
// after close.
func (d *detached) park(next chan func()) func() {
	d.mu.Lock()
	if d.closed || len(d.parked) == maxParked {
		d.mu.Unlock()
		return nil
	}
	d.parked = append(d.parked, next)
	if d.sweep == nil {
		d.sweep = time.AfterFunc(parkedFor, d.endUnused)
	}
	d.mu.Unlock()
	return <-next
}

// endUnused ends the goroutines that no connection has needed since the last sweep. It picks those
// that have waited longest.
func (d *detached) endUnused() {
	defer d.guard.Catch(guard.Clients, nil)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end(d.unused)
	d.unused = len(d.parked)
	if d.unused == 0 {
		d.sweep = nil
		return
	}
	d.sweep.Reset(parkedFor)
}

// close ends the waiting goroutines. A running goroutine ends when its function returns.
func (d *detached) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end(len(d.parked))
	d.unused, d.closed = 0, true
}

// end ends the first n waiting goroutines.
func (d *detached) end(n int) {
	for _, next := range d.parked[:n] {
		next <- nil
	}
	d.parked = slices.Delete(d.parked, 0, n)
}
