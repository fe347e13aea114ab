package listen

import (
	"slices"
	"sync"
	"time"

	"penstock/proxy/telemetry/guard"
)

// maxParked is the maximum number of goroutines waiting for a detached connection. It is reached
// only if many streams end at about the same time.
const maxParked = 64

// parkedFor is how long an idle goroutine waits before it exits.
const parkedFor = 10 * time.Second

// detached runs the functions of detached connections. It reuses goroutines because their stacks
// have already grown: growing the stack took a quarter of the time of a short stream. A long stream
// does not retain a large stack, because each garbage collection halves a stack of which less than
// a quarter is used.
type detached struct {
	guard  *guard.Guard // may be nil
	mu     sync.Mutex
	parked []chan func() // the goroutine that has waited longest is first
	unused int           // minimum of len(parked) since the last sweep
	sweep  *time.Timer   // nil if no goroutine is parked
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

// work runs f, and then the functions that run passes to the same goroutine.
func (d *detached) work(f func()) {
	for next := make(chan func(), 1); f != nil; {
		f()
		f = d.park(next)
	}
}

// park waits for the next function. It returns nil if enough goroutines are waiting, or once close
// is called.
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

// endUnused stops as many goroutines as have been idle the entire time since the last sweep. It
// stops those that have waited longest first.
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

// close stops the waiting goroutines. A goroutine that is running a function exits when the
// function returns.
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
