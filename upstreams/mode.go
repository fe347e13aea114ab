package upstreams

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Mode is what the operator wants of an upstream, whatever its probes say. It survives reloads with
// the identity, and ends with the process.
type Mode uint8

// The modes. In either of the last two no new call goes to the upstream and those that run there
// end by themselves; in maintenance it is not probed either, so that nothing is logged about an
// engine that is being worked on.
const (
	ModeReady Mode = iota
	ModeDrain
	ModeMaintenance
)

var modeNames = [...]string{"ready", "drain", "maintenance"}

// String returns the mode's name: ready, drain or maintenance.
func (m Mode) String() string { return modeNames[m] }

// ParseMode reads a mode's name.
func ParseMode(name string) (Mode, error) {
	for i, n := range modeNames {
		if n == name {
			return Mode(i), nil
		}
	}
	return 0, fmt.Errorf("mode %q is none of ready, drain, maintenance", name)
}

// modeSwitch holds an upstream's mode. The zero value is ready.
type modeSwitch struct {
	mode atomic.Uint32

	mu      sync.Mutex
	changed time.Time // zero: never
}

func (m *modeSwitch) now() Mode { return Mode(m.mode.Load()) }

// set returns the mode before.
func (m *modeSwitch) set(mode Mode) (before Mode) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before = Mode(m.mode.Swap(uint32(mode))); before != mode {
		m.changed = time.Now()
	}
	return before
}

// age is the seconds since the last change, or -1.
func (m *modeSwitch) age(now time.Time) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return age(m.changed, now)
}

// Mode returns what the operator wants.
func (u *Upstream) Mode() Mode { return u.mode.now() }

// SetMode lets calls in or keeps them out. Coming back from maintenance it is probed at once.
func (u *Upstream) SetMode(m Mode) {
	before := u.mode.set(m)
	if before == m {
		return
	}
	u.hooks.log.Info("upstream's mode set", zap.Stringer("from", before), zap.Stringer("to", m))
	u.hooks.room()
	if before == ModeMaintenance {
		u.Health.distrust() // what it was before says little: one bad probe takes it down
		u.probing.kick()
	}
}
