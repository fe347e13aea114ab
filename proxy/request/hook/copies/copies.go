package copies

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/request/hook"
	"penstock/proxy/telemetry/guard"
)

// Options configures CopySinks.
type Options struct {
	Log     *zap.Logger
	Guard   *guard.Guard
	Metrics *metrics.Set
}

// CopySinks manages the sinks of the current configuration. Its methods may be called by multiple
// goroutines.
type CopySinks struct {
	opts   Options
	recent hook.RecentFailures[string]

	mu           sync.Mutex                           // locked while the sinks change
	sinks        atomic.Pointer[map[string]*hookSink] // keyed by hook name; replaced as a whole
	removedSinks []*hookSink                          // removed sinks that may still be sending
}

// New returns CopySinks without sinks.
func New(o Options) *CopySinks {
	c := &CopySinks{opts: o}
	c.sinks.Store(&map[string]*hookSink{})
	return c
}

// Apply replaces the current sinks with the sinks configured by hooks. A sink whose settings did
// not change continues to run. A removed sink may continue to send its queued copies for at most
// flushTimeout.
func (c *CopySinks) Apply(hooks []config.Hook) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, next := *c.sinks.Load(), map[string]*hookSink{}
	for i := range hooks {
		h := &hooks[i]
		if h.After == "" {
			continue
		}
		if s := before[h.Name]; s != nil && s.settings == hookSettings(h) {
			next[h.Name] = s
		} else {
			next[h.Name] = c.openSink(h)
		}
	}
	c.sinks.Store(&next)
	c.removedSinks = slices.DeleteFunc(c.removedSinks, (*hookSink).isDone)
	for name, s := range before {
		if next[name] != s {
			s.close()
			c.removedSinks = append(c.removedSinks, s)
		}
	}
}

// BeginCopy returns a Copy for the sink of the hook h, linked to the copies in next. model is the
// model that the client requested. If a reload has removed the sink, BeginCopy returns next.
func (c *CopySinks) BeginCopy(h *config.Hook, model string, next *Copy) *Copy {
	s := (*c.sinks.Load())[h.Name]
	if s == nil {
		return next
	}
	return &Copy{Model: model, sink: s, next: next, maxBytes: int(s.settings.maxBytes)}
}

// Close stops the sinks. They may continue to send their queued copies for at most flushTimeout.
func (c *CopySinks) Close() {
	c.Apply(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	late := time.After(flushTimeout + flushTimeout/4)
	for _, s := range c.removedSinks {
		select {
		case <-s.done:
		case <-late: // a write to a file is blocked
			return
		}
	}
	c.removedSinks = nil
}

// LostCopies describes the copies that a hook lost in the last minute.
type LostCopies struct {
	Hook        string
	Calls, Lost int
	Why         string // why the copies were lost, in plain text
}

// RecentLosses returns the hooks that lost copies in the last minute, sorted by name.
func (c *CopySinks) RecentLosses(now time.Time) (all []LostCopies) {
	for _, f := range c.recent.FailedHooks(now) {
		all = append(all, LostCopies{f.Hook, f.Asked, f.Failed, lossReasonDescriptions[f.Last]})
	}
	return all
}
