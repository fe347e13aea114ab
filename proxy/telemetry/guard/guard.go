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

// A place is in a storm after stormPanicCount panics within stormTime. The storm is over after
// calmTime without a panic.
const (
	stormPanicCount = 10
	stormTime       = 10 * time.Second
	calmTime        = 30 * time.Second
)

// The pause before a goroutine restarts grows from firstRestartPause to maxRestartPause. If the
// goroutine has run for at least steadyRunTime, the next pause is firstRestartPause again.
const (
	firstRestartPause = 100 * time.Millisecond
	maxRestartPause   = 10 * time.Second
	steadyRunTime     = time.Minute
)

// Guard catches panics in one edge. It is safe for concurrent use. A nil Guard catches nothing.
type Guard struct {
	log    atomic.Pointer[zap.Logger]
	places map[string]*panicRecord
}

type panicRecord struct {
	panics atomic.Uint64

	mu          sync.Mutex
	panicTimes  [stormPanicCount]time.Time // a ring; oldestIndex is the index of the oldest time
	oldestIndex int
	inStorm     bool // whether the place is in a storm
}

// New returns a Guard for all places returned by Places.
func New() *Guard {
	g := &Guard{places: make(map[string]*panicRecord, len(panicPlaces))}
	for _, name := range panicPlaces {
		g.places[name] = new(panicRecord)
	}
	return g
}

// LogTo sets the log for panics.
func (g *Guard) LogTo(log *zap.Logger) { g.log.Store(log) }

// PanicCount returns the number of panics at a place.
func (g *Guard) PanicCount(place string) uint64 {
	if r := g.places[place]; r != nil {
		return r.panics.Load()
	}
	return 0
}

// StormPlace returns a place that is in a storm, or "".
func (g *Guard) StormPlace(now time.Time) string {
	for _, name := range panicPlaces {
		if g.places[name].isInStorm(now) {
			return name
		}
	}
	return ""
}

// Catch must be deferred. It recovers from a panic, counts the panic for the place, and then calls
// the function after, which may be nil. It also catches a panic in after.
func (g *Guard) Catch(place string, after func()) {
	if g == nil {
		return
	}
	if v := recover(); v != nil {
		g.countPanic(place, v)
		if after != nil {
			g.runCaught(place, after)
		}
	}
}

// RunWithRecover runs f. A panic in f ends only f.
func (g *Guard) RunWithRecover(place string, f func()) { g.runCaught(place, f) }

// Loop runs f and ends when f returns. If f panics, Loop pauses and runs f again, unless stop is
// closed.
func (g *Guard) Loop(stop <-chan struct{}, place string, f func()) {
	for pause := firstRestartPause; ; pause = min(2*pause, maxRestartPause) {
		begun := time.Now()
		if g.runCaught(place, f) {
			return
		}
		if time.Since(begun) >= steadyRunTime {
			pause = firstRestartPause
		}
		select {
		case <-stop:
			return
		case <-time.After(pause):
		}
	}
}

func (g *Guard) runCaught(place string, f func()) (whole bool) {
	defer g.Catch(place, nil)
	f()
	return true
}

// countPanic does not log the panic's value, because it may contain client text.
func (g *Guard) countPanic(place string, v any) {
	defer func() { _ = recover() }()
	if r := g.places[place]; r != nil {
		r.panics.Add(1)
		r.addPanic(time.Now())
	}
	if log := g.log.Load(); log != nil {
		log.Error("panic", zap.String("where", place), zap.String("type", fmt.Sprintf("%T", v)),
			zap.String("stack", stackTrace()))
	}
}

func (r *panicRecord) addPanic(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.panicTimes[r.oldestIndex] = now
	r.oldestIndex = (r.oldestIndex + 1) % stormPanicCount
	if oldest := r.panicTimes[r.oldestIndex]; !oldest.IsZero() && now.Sub(oldest) <= stormTime {
		r.inStorm = true
	}
}

func (r *panicRecord) isInStorm(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.panicTimes[(r.oldestIndex+stormPanicCount-1)%stormPanicCount]; now.Sub(last) >= calmTime {
		r.inStorm = false
	}
	return r.inStorm
}

// stackTrace returns the stack as functions and lines only. Go's own stack traces also print raw
// memory, which may contain parts of keys and prompts.
func stackTrace() string {
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
