package status

import "strconv"

// Badge shows an upstream's state as a word from a closed set. If more than one state applies, the
// badge shows the first that applies:
//   - draining, maintenance or retiring: set by an operator
//   - down, stalled or pending: the upstream accepts no calls
//   - breaker open or half-open; half-open counts as up if the last failure was more than five
//     minutes ago and there have been no calls since
//   - failing: in the last minute, more attempts failed than Thresholds allows
//   - suspect: a call could not reach the upstream, or the upstream is busy and has been silent for
//     too long
//   - incomplete: the upstream refuses a feature that other upstreams accept, or lacks a model
//   - busy
//   - up
type Badge struct {
	Word  string
	Class string // down, warn, hold or up; sets the colour, which only repeats the meaning of Sign
	Sign  string
	Lasts bool // whether Upstream.Since returns how long this state has lasted
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
	case u.breakerBlocksCalls():
		return Badge{"breaker half-open", "warn", "!", false}
	case isMajority(u.failedAttempts()):
		return Badge{"failing", "down", "✕", false}
	case Thresholds.Attempts.shareExceeds(u.failedAttempts()):
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

func downTargetsText(all []Target) string {
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
		return "1 of " + pluralize(len(all), "target") + " is down"
	}
	return strconv.Itoa(n) + " of " + pluralize(len(all), "target") + " are down"
}
