package status

import "strconv"

// Badge shows an upstream's state as a word from a closed set. If several states apply, the badge
// shows the first of these:
//
//   - draining, maintenance and retiring, which an operator has set
//   - down, stalled and pending, in which the upstream takes no calls
//   - breaker open and half-open; without calls for five minutes after the last failure, half-open
//     counts as up
//   - failing, with more failed attempts in the last minute than Bounds allows
//   - suspect, when a call could not reach it and no probe has confirmed that, or when it is busy
//     and has been silent for so long that it may have stopped
//   - incomplete, when it refuses a feature that others answer, or lacks a model
//   - busy
//   - up
type Badge struct {
	Word  string
	Class string // down, warn, hold or up: the colour, which repeats what Sign means
	Sign  string
	Lasts bool // Upstream.Since is how long this state has lasted
}

// Badge returns the badge for the worst of the upstream's mode, health, breaker and failure rate.
func (u *Upstream) Badge() Badge {
	switch {
	case u.Mode == "drain":
		return Badge{"draining", "hold", "◐", true}
	case u.Mode == "maintenance":
		return Badge{"maintenance", "hold", "■", true}
	case u.State == "retiring":
		return Badge{"retiring", "hold", "◐", true}
	case u.State == "down", u.State == "stalled":
		return Badge{u.State, "down", "✕", true}
	case u.State == "pending":
		return Badge{u.State, "warn", "…", true}
	case u.Breaker == "open":
		return Badge{"breaker open", "down", "✕", false}
	case u.failsCalls():
		return Badge{"breaker half-open", "warn", "!", false}
	case most(u.failed()):
		return Badge{"failing", "down", "✕", false}
	case Bounds.Attempts.share(u.failed()):
		return Badge{"failing", "warn", "!", false}
	case u.Suspect, u.Unheard > 0:
		return Badge{"suspect", "warn", "!", false}
	case len(u.Lacks)+len(u.Missing) > 0:
		return Badge{"incomplete", "warn", "!", false}
	case u.State == "busy":
		return Badge{u.State, "up", "▸", true}
	}
	return Badge{"up", "up", "✓", true}
}

// down returns how many targets are down as a text, or "" if none is.
func down(all []Target) string {
	n := 0
	for i := range all {
		if all[i].Down {
			n++
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return "1 of " + count(len(all), "target") + " is down"
	}
	return strconv.Itoa(n) + " of " + count(len(all), "target") + " are down"
}
