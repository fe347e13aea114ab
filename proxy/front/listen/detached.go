package listen

import (
	"slices"
	"sync"
	"time"

	"penstock/proxy/telemetry/guard"
)

// maxParked is the maximum number of goroutines that wait for a detached connection. It is reached
// only if many streams end at the same time.
const maxParked = 64

// parkedFor is how long an unneeded goroutine waits before it ends.
const parkedFor = 10 * time.Second

// detached runs the functions of detached connections. It reuses goroutines because their stacks
// have already grown. Growing the stack was a quarter of the cost of a short stream. A long stream
// does not keep a large stack, because each garbage collection halves a stack that is less than a
// quarter full.
type detached struct {
	guard  *guard.Guard // may be nil
	mu     sync.Mutex
	parked []chan func() // ordered by waiting time; the goroutine that has waited longest is first
	unused int           // minimum of len(parked) since the last sweep
	sweep  *time.Timer   // nil: no goroutine is parked
	closed bool
}

// run runs f on another goroutine. f must recover from its panics.
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

// park waits for the next function. It returns nil if enough goroutines are waiting, or after
// close.
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

// endUnused ends the goroutines that were idle during the whole time since the last sweep. It
// starts with those that have waited longest.
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

// close ends the waiting goroutines. A goroutine that runs a function ends when the function
// returns.
func (d *detached) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end(len(d.parked))
	d.unused, d.closed = 0, true
}

func (d *detached) end(n int) {
	for _, next := range d.parked[:n] {
		next <- nil
	}
	d.parked = slices.Delete(d.parked, 0, n)
}
