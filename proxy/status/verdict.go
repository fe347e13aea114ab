package status

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Verdict is the state of the edge in one sentence.
type Verdict struct {
	Level string `json:"level"` // ok, degraded, out, draining
	Text  string `json:"text"`
}

// Levels of a verdict.
const (
	LevelOK       = "ok"
	LevelDegraded = "degraded"
	LevelOut      = "out"
	LevelDraining = "draining"
)

// Judge works out the verdict from the rest.
func (s *Status) Judge() {
	if s.Draining {
		s.Verdict = Verdict{LevelDraining, fmt.Sprintf("Shutting down: %s left.", count(int(s.InFlight), "call"))}
		return
	}
	var out, troubles []string
	for i := range s.Models {
		if m := &s.Models[i]; !m.Ready {
			out = append(out, m.ID)
		}
	}
	good := 0
	for i := range s.Upstreams {
		if t := s.Upstreams[i].trouble(); t != "" {
			troubles = append(troubles, t)
		} else {
			good++
		}
	}
	if t := s.Certificate.Trouble(s.Now); t != "" {
		troubles = append([]string{t + ", so clients refuse to connect"}, troubles...)
	}
	if s.Panicking != "" {
		troubles = append([]string{"the edge panics again and again (" + s.Panicking + "), so it is not ready; its log has the stacks"}, troubles...)
	}
	if s.Unsaved > unsavedMost {
		troubles = append(troubles, fmt.Sprintf("the ledger cannot be written for %.0f s, so usage is in memory alone; the log says why", s.Unsaved))
	}
	for _, d := range s.Discoveries {
		if t := d.Problem(); t != "" {
			troubles = append(troubles, t)
		}
	}
	for _, i := range s.Issuers {
		if t := i.Problem(); t != "" {
			troubles = append(troubles, t)
		}
	}
	if t := s.Fleet.Trouble(); t != "" {
		troubles = append(troubles, t)
	}
	if r := s.LastReload; r != nil && r.KeysInForce {
		troubles = append(troubles, "the configuration on disk was refused: its keys are in force, its models are not")
	} else if r != nil && !r.OK {
		troubles = append(troubles, "the configuration on disk is wrong, so the one before is in force")
	}
	switch {
	case len(out) > 0:
		s.Verdict = Verdict{LevelOut, "Out: no engine serves " + list(out) + "."}
		if len(troubles) > 0 {
			s.Verdict.Text += " Trouble: " + strings.Join(clip(troubles), "; ") + "."
		}
	case len(troubles) > 0:
		s.Verdict = Verdict{LevelDegraded, "Degraded: " + strings.Join(clip(troubles),
			"; ") + ". Every model is served."}
	default:
		s.Verdict = Verdict{LevelOK, fmt.Sprintf("Healthy: %d of %s, %s in flight, %s.", good,
			takes(len(s.Upstreams)), count(int(s.InFlight), "call"), s.waiting())}
	}
}

func takes(n int) string {
	if n == 1 {
		return "1 upstream takes calls"
	}
	return fmt.Sprintf("%d upstreams take calls", n)
}

func (s *Status) waiting() string {
	n := 0
	for i := range s.Models {
		if q := s.Models[i].Queue; q != nil {
			n += q.Waiting
		}
	}
	if n == 0 {
		return "nothing waits"
	}
	return fmt.Sprintf("%d waiting for a slot", n)
}

// Since is for how many seconds the upstream has been in what is shown of it: the operator's mode,
// which stands before the state of its health, or that state.
func (u *Upstream) Since() float64 {
	if u.Mode != "ready" {
		return u.ModeSeconds
	}
	return u.StateSeconds
}

// trouble says why an upstream takes no calls, or nothing.
func (u *Upstream) trouble() string {
	since := " for " + Ago(secondsOf(u.Since()))
	switch {
	case u.State == "retiring":
		return ""
	case u.Mode != "ready":
		return u.Label + " is in " + u.Mode + " mode" + since
	case u.State == "pending":
		return u.Label + " has not been probed yet"
	case u.State == "down" && u.LastFailure != nil:
		return u.Label + " is down" + since + " (" + reason(u.LastFailure.Reason, u.LastFailure.Status) + ")"
	case u.State == "stalled":
		return u.Label + " has stalled" + since + ": it has work and nothing moves"
	case u.State != "up":
		return u.Label + " is " + u.State + since
	case u.Breaker != "closed" && u.LastFailure != nil && u.LastFailure.During == "call":
		return u.Label + " answers its probes but fails its calls (" + reason(u.LastFailure.Reason,
			u.LastFailure.Status) + "; breaker " + u.Breaker + ")"
	case u.Breaker != "closed":
		return u.Label + " answers its probes but fails its calls (breaker " + u.Breaker + ")"
	case len(u.Missing) > 0:
		return u.Label + " does not serve " + list(u.Missing)
	}
	return ""
}

// reason says why a probe or a call failed. The two statuses say what to do, too: a probe often
// needs no key where calls do.
func reason(word string, status int) string {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fmt.Sprintf("%s, status %d: look at its api_key", word, status)
	case status != 0:
		return fmt.Sprintf("%s, status %d", word, status)
	}
	return word
}

// clip keeps a sentence readable when a whole fleet is in trouble.
func clip(all []string) []string {
	const most = 3
	if len(all) <= most {
		return all
	}
	return append(append([]string{}, all[:most]...), fmt.Sprintf("%d more are in trouble", len(all)-most))
}

func list(names []string) string {
	const most = 4
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func secondsOf(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

// Ago writes a duration the way people say it: 12 s, 4 min, 2 h 5 min, 3 d 2 h.
func Ago(d time.Duration) string {
	switch s := int(d.Seconds()); {
	case s < 60:
		return fmt.Sprintf("%d s", max(0, s))
	case s < 3600:
		return fmt.Sprintf("%d min", s/60)
	case s < 24*3600:
		return fmt.Sprintf("%d h %d min", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%d d %d h", s/86400, s/3600%24)
	}
}
