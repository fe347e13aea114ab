package guard

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// A place is in a storm after stormPanics panics within stormTime. The storm is over after calmTime
// without a panic.
const (
	stormPanics = 10
	stormTime   = 10 * time.Second
	calmTime    = 30 * time.Second
)

// The pause before a goroutine restarts grows from firstPause to lastPause. If the goroutine has
// run for at least steadyTime, the next pause is firstPause again.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
	steadyTime = time.Minute
)

// Guard catches panics in one edge. It is safe for concurrent use. A nil Guard catches nothing.
type Guard struct {
	log    atomic.Pointer[zap.Logger]
	places map[string]*record
}

type record struct {
	panics atomic.Uint64

	mu     sync.Mutex
	newest [stormPanics]time.Time // a ring; next is the index of the oldest time
	next   int
	storm  bool // the place is in a storm
}

// New returns a Guard for all places in Places.
func New() *Guard {
	g := &Guard{places: make(map[string]*record, len(places))}
	for _, name := range places {
		g.places[name] = new(record)
	}
	return g
}

// LogTo sets the log for panics.
func (g *Guard) LogTo(log *zap.Logger) { g.log.Store(log) }

// Panics returns the number of panics at a place.
func (g *Guard) Panics(place string) uint64 {
	if r := g.places[place]; r != nil {
		return r.panics.Load()
	}
	return 0
}

// Storm returns a place that is in a storm, or "".
func (g *Guard) Storm(now time.Time) string {
	for _, name := range places {
		if g.places[name].stormy(now) {
			return name
		}
	}
	return ""
}

// Catch must be deferred. It recovers from a panic, counts the panic for the place, and calls
// after, which may be nil. It also catches a panic in after.
func (g *Guard) Catch(place string, after func()) {
	if g == nil {
		return
	}
	if v := recover(); v != nil {
		g.countPanic(place, v)
		if after != nil {
			g.run(place, after)
		}
	}
}

// Once runs f. A panic in f ends only f.
func (g *Guard) Once(place string, f func()) { g.run(place, f) }

// Loop runs f until it returns. After a panic, Loop pauses and runs f again, unless stop is closed.
func (g *Guard) Loop(stop <-chan struct{}, place string, f func()) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		begun := time.Now()
		if g.run(place, f) {
			return
		}
		if time.Since(begun) >= steadyTime {
			pause = firstPause
		}
		select {
		case <-stop:
			return
		case <-time.After(pause):
		}
	}
}

func (g *Guard) run(place string, f func()) (whole bool) {
	defer g.Catch(place, nil)
	f()
	return true
}

// countPanic does not log the panic's value, because it may contain client text.
func (g *Guard) countPanic(place string, v any) {
	defer func() { _ = recover() }()
	if r := g.places[place]; r != nil {
		r.panics.Add(1)
		r.add(time.Now())
	}
	if log := g.log.Load(); log != nil {
		log.Error("panic", zap.String("where", place), zap.String("type", fmt.Sprintf("%T", v)),
			zap.String("stack", stack()))
	}
}

func (r *record) add(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest[r.next] = now
	r.next = (r.next + 1) % stormPanics
	if oldest := r.newest[r.next]; !oldest.IsZero() && now.Sub(oldest) <= stormTime {
		r.storm = true
	}
}

func (r *record) stormy(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.newest[(r.next+stormPanics-1)%stormPanics]; now.Sub(last) >= calmTime {
		r.storm = false
	}
	return r.storm
}

// stack returns functions and lines. Go's stack traces also print raw memory, which may contain
// parts of keys and prompts.
func stack() string {
	var at [64]uintptr
	var b strings.Builder
	frames := runtime.CallersFrames(at[:runtime.Callers(2, at[:])])
	for {
		f, more := frames.Next()
		fmt.Fprintf(&b, "%s %s:%d\n", f.Function, f.File, f.Line)
		if !more {
			return b.String()
		}
	}
}
