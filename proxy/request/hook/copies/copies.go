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

// Options holds what the sinks need from the edge.
type Options struct {
	Log     *zap.Logger
	Guard   *guard.Guard
	Metrics *metrics.Set
}

// Copies holds the sinks of the running configuration. Any goroutine may use it.
type Copies struct {
	opts   Options
	recent hook.Recent[string]

	mu    sync.Mutex                           // held while sinks change
	sinks atomic.Pointer[map[string]*hookSink] // by the hook's name; replaced on change
	old   []*hookSink                          // earlier sinks, which may still be sending
}

// New returns Copies without sinks.
func New(o Options) *Copies {
	c := &Copies{opts: o}
	c.sinks.Store(&map[string]*hookSink{})
	return c
}

// Apply makes hooks the ones that get copies. A sink whose settings are unchanged continues. A
// removed sink may still send its queued copies for at most flushTime.
func (c *Copies) Apply(hooks []config.Hook) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, next := *c.sinks.Load(), map[string]*hookSink{}
	for i := range hooks {
		h := &hooks[i]
		if h.After == "" {
			continue
		}
		if s := before[h.Name]; s != nil && s.settings == settingsOf(h) {
			next[h.Name] = s
		} else {
			next[h.Name] = c.open(h)
		}
	}
	c.sinks.Store(&next)
	c.old = slices.DeleteFunc(c.old, (*hookSink).ended)
	for name, s := range before {
		if next[name] != s {
			s.close()
			c.old = append(c.old, s)
		}
	}
}

// Begin returns a copy for the sink of the hook h, followed by the copies in next. The copied call
// is for the given model. It returns next if a reload has removed the sink.
func (c *Copies) Begin(h *config.Hook, model string, next *Copy) *Copy {
	s := (*c.sinks.Load())[h.Name]
	if s == nil {
		return next
	}
	return &Copy{Model: model, of: s, next: next, most: int(s.settings.most)}
}

// Close gives the sinks at most flushTime to send their queued copies, and then ends them.
func (c *Copies) Close() {
	c.Apply(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	late := time.After(flushTime + flushTime/4)
	for _, s := range c.old {
		select {
		case <-s.done:
		case <-late: // a write to a file hangs
			return
		}
	}
	c.old = nil
}

// Lost is the number of a hook's copies that were lost in the last minute.
type Lost struct {
	Hook        string
	Calls, Lost int
	Why         string // in words
}

// Lost returns the hooks that have lost copies in the last minute, sorted by name.
func (c *Copies) Lost(now time.Time) (all []Lost) {
	for _, f := range c.recent.Failures(now) {
		all = append(all, Lost{f.Hook, f.Asked, f.Failed, words[f.Last]})
	}
	return all
}
