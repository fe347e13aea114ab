package upstreams

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// OperatorMode is the operator's setting for an upstream, independent of its probes. It survives
// reloads that keep the upstream, but not a restart.
type OperatorMode uint8

// In drain and maintenance, the upstream gets no new calls. Running calls finish at the upstream,
// or move to another upstream after the drain time (ShouldHandOverCalls). In maintenance, the
// upstream is also not probed, so that an engine under repair does not fill the log.
const (
	ModeReady OperatorMode = iota
	ModeDrain
	ModeMaintenance
)

var modeNames = [...]string{"ready", "drain", "maintenance"}

// String returns ready, drain or maintenance.
func (m OperatorMode) String() string { return modeNames[m] }

// ParseMode parses the name of a mode.
func ParseMode(name string) (OperatorMode, error) {
	for i, n := range modeNames {
		if n == name {
			return OperatorMode(i), nil
		}
	}
	return 0, fmt.Errorf("mode %q is none of ready, drain, maintenance", name)
}

// modeSwitch stores an upstream's mode. The zero value is ready.
type modeSwitch struct {
	mode atomic.Uint32

	mu        sync.Mutex
	changedAt time.Time // zero if the mode was never changed
}

// drainTimer is the timer for an upstream that gets no new calls. When the timer fires, running
// calls should move to other upstreams. Calls that no other upstream can accept stay.
type drainTimer struct {
	isDue atomic.Bool

	mu    sync.Mutex
	timer *time.Timer // nil while the upstream gets calls
}

func (h *drainTimer) start(after time.Duration, hooks *upstreamHooks) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer == nil {
		var own *time.Timer
		own = time.AfterFunc(after, func() {
			defer hooks.guard.Catch(guardSlotWakeups, nil)
			h.mu.Lock()
			defer h.mu.Unlock()
			h.isDue.Store(h.timer == own)
		})
		h.timer = own
	}
}

func (h *drainTimer) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
	h.isDue.Store(false)
}

// ShouldHandOverCalls reports whether an upstream's calls should move to another upstream, because
// the drain time of a drained or removed upstream is over.
func ShouldHandOverCalls(u *Upstream) bool { return u.removal.handover.isDue.Load() }

// updateDrainTimer starts or stops the drain timer after a change of the mode or configuration.
func updateDrainTimer(u *Upstream) {
	if after := u.set.o.DrainTime; u.mode.current() == ModeReady && !u.removal.isRetiring.Load() {
		u.removal.handover.stop()
	} else if after != nil {
		u.removal.handover.start(after(), &u.hooks)
	}
}

func (m *modeSwitch) current() OperatorMode { return OperatorMode(m.mode.Load()) }

func (m *modeSwitch) set(mode OperatorMode) (before OperatorMode) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before = OperatorMode(m.mode.Swap(uint32(mode))); before != mode {
		m.changedAt = time.Now()
	}
	return before
}

// secondsSinceChange returns the seconds since the last change, or -1 if there was none.
func (m *modeSwitch) secondsSinceChange(now time.Time) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return secondsSince(m.changedAt, now)
}

// Mode returns the operator's setting.
func (u *Upstream) Mode() OperatorMode { return u.mode.current() }

// SetMode changes the mode. When an upstream leaves maintenance, SetMode probes it immediately.
func (u *Upstream) SetMode(m OperatorMode) {
	before := u.mode.set(m)
	if before == m {
		return
	}
	updateDrainTimer(u)
	u.hooks.log.Info("upstream's mode set", zap.Stringer("from", before), zap.Stringer("to", m))
	u.hooks.wakeWaiting()
	if before == ModeMaintenance {
		u.Health.markSuspect() // the state is stale, so a single failed probe must take the upstream down
		u.probeControl.probeNow()
	}
}
