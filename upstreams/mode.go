package upstreams

import (
	"fmt"
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

// Mode returns what the operator wants.
func (u *Upstream) Mode() Mode { return Mode(u.mode.Load()) }

// SetMode lets calls in or keeps them out. Coming back from maintenance it is probed at once.
func (u *Upstream) SetMode(m Mode) {
	u.mu.Lock()
	before := Mode(u.mode.Swap(uint32(m)))
	if before != m {
		u.modeChanged = time.Now()
	}
	u.mu.Unlock()
	if before == m {
		return
	}
	u.log.Info("upstream's mode set", zap.String("upstream", u.label), zap.Stringer("from", before), zap.Stringer("to", m))
	u.set.o.OnRoom(u)
	if before != ModeMaintenance {
		return
	}
	u.mu.Lock()
	u.health.suspect = true // what it was before says little: one bad probe takes it down
	prober := u.prober
	u.mu.Unlock()
	if prober != nil {
		prober.kick()
	}
}

// LastCheck is how the last probe went.
type LastCheck struct {
	OK           bool    `json:"ok"`
	Reason       string  `json:"reason,omitempty"` // why not
	Status       int     `json:"status,omitempty"` // what the engine answered with
	Milliseconds float64 `json:"milliseconds"`
}

// fate is what became of an abandoned call's slot in its engine.
type fate uint8

const (
	fateFreed   fate = iota // the engine's running count fell
	fateHeld                // it did not
	fateUnknown             // the engine does not say
	fateCount
)

// String returns the fate as a metric label.
func (f fate) String() string { return [...]string{"freed", "held", "unknown"}[f] }
