package admin

import (
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"penstock/proxy/operate/status"
)

// problemLogger logs the first sentence of the status page when the sentence changes. The zero
// value is ready for use. It is not safe for concurrent use.
type problemLogger struct {
	loggedSubject string // subject of the last log line; "" if the edge was healthy
	loggedAt      time.Time
	// lastFailing is when the level was last LevelFailing. A less severe level is logged only after
	// failingHoldTime, because the level fluctuates near the threshold.
	lastFailing time.Time
	// lastOut is when the level was last LevelOut, and outSubjects are the subjects of that
	// verdict. After a model's engine has recovered, the last minute's numbers still show the model
	// as failing. This is not logged again.
	lastOut      time.Time
	outSubjects  []string
	loggedLimits map[exceededLimit]keyLimitLogState

	// loggedRefusals maps an upstream and a refused feature to the time of the last log line about
	// them.
	loggedRefusals map[exceededLimit]time.Time
}

type keyLimitLogState struct {
	lastLogged time.Time
	lineCount  int       // number of log lines since the limit started to refuse calls
	over       time.Time // when the status last counted calls refused by the limit
}

type exceededLimit struct{ key, limit string }

const (
	// minLogInterval is the minimum time between two log lines, because a problem near a threshold
	// fluctuates.
	minLogInterval = 10 * time.Second
	// failingHoldTime is how long the level must have been lower before this is logged.
	failingHoldTime = time.Minute
	// firstRepeatDelay is the time after which a key that is still over a limit is logged a second
	// time. repeatInterval is the interval between later lines.
	firstRepeatDelay = time.Minute
	repeatInterval   = 5 * time.Minute
	// limitRestoredDelay is how long a limit must have refused no calls before the log says that
	// the key is within the limit again. It starts after the minute that the status page counts. A
	// shorter delay would log every pause of a client that is refused only now and then.
	limitRestoredDelay = 4 * time.Minute
	// maxKeyLogLines is the maximum number of log lines about keys in one check.
	maxKeyLogLines = 20
)

func (a *problemLogger) logProblems(s *status.Status, log *zap.Logger) {
	a.logVerdict(s, log)
	a.logExceededLimits(s, log)
	a.logRefusedFeatures(s, log)
}

// logVerdict logs a changed verdict, unless only the numbers in it have changed.
func (a *problemLogger) logVerdict(s *status.Status, log *zap.Logger) {
	v, subject, alerts := &s.Verdict, "", s.Runbooks()
	if v.Level == status.LevelDraining || s.Now.Sub(a.loggedAt) < minLogInterval {
		return
	}
	if v.Level == status.LevelFailing {
		a.lastFailing = s.Now
	} else if v.Level == status.LevelDegraded && strings.HasPrefix(a.loggedSubject, status.LevelFailing) && s.Now.Sub(a.lastFailing) < failingHoldTime {
		return
	}
	if v.Level == status.LevelOut {
		a.lastOut, a.outSubjects = s.Now, v.About
	} else if v.Level != status.LevelOK && strings.HasPrefix(a.loggedSubject, status.LevelOut) && s.Now.Sub(a.lastOut) < failingHoldTime && containsAll(v.About, a.outSubjects) {
		return
	}
	if v.Level != status.LevelOK {
		subject = v.Level + "\n" + strings.Join(v.About, " ") + "\n" + strings.Join(alerts, " ")
	}
	if subject == a.loggedSubject {
		return
	}
	a.loggedSubject, a.loggedAt = subject, s.Now
	if subject == "" {
		log.Info("the edge is well again", zap.String("event", "edge_ok"), zap.String("state", v.Text))
		return
	}
	write, msg := log.Warn, "the edge is degraded"
	switch v.Level {
	case status.LevelFailing:
		write, msg = log.Error, "the edge is failing"
	case status.LevelOut:
		write, msg = log.Error, "models are out"
	}
	write(msg, zap.String("event", "edge_"+v.Level), zap.String("state", v.Text), zap.Strings("remedy", s.Remedies()))
}

// containsAll reports whether all contains every name in names.
func containsAll(names, all []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(all, name) })
}

// logExceededLimits logs the key limits that have refused calls in the last minute.
func (a *problemLogger) logExceededLimits(s *status.Status, log *zap.Logger) {
	a.logRestoredLimits(s, log)
	lines := 0
	for i := range s.Refusals {
		r := &s.Refusals[i]
		of := exceededLimit{r.Key, r.Limit}
		t, known := a.loggedLimits[of]
		pause := repeatInterval
		if t.lineCount == 1 {
			pause = firstRepeatDelay
		}
		if r.Limit == "" || r.Minute == 0 || lines == maxKeyLogLines || known && s.Now.Sub(t.lastLogged) < pause {
			continue
		}
		l := s.DescribeLimit(r.Key, r.Limit)
		if !l.Over {
			continue
		}
		if a.loggedLimits == nil {
			a.loggedLimits = map[exceededLimit]keyLimitLogState{}
		}
		a.loggedLimits[of] = keyLimitLogState{s.Now, t.lineCount + 1, s.Now}
		lines++
		used, most, until := zap.Skip(), zap.Skip(), zap.Skip()
		if !l.Until.IsZero() {
			used, most, until = zap.String("used", l.Used), zap.String("of", l.Limit), zap.Time("until", l.Until.UTC())
		}
		log.Warn("a key is over its limit", zap.String("event", "key_over_limit"), zap.String("key", r.Key),
			zap.String("limit", r.Limit), zap.Int("refused", r.Minute), zap.String("model", r.Model),
			used, most, until, zap.String("remedy", l.Remedy))
	}
}

// logRestoredLimits logs the limits that have been logged as exceeded and have refused no calls for
// a while.
func (a *problemLogger) logRestoredLimits(s *status.Status, log *zap.Logger) {
	for of, t := range a.loggedLimits {
		refuses := slices.ContainsFunc(s.Refusals, func(r status.Reason) bool {
			return r.Key == of.key && r.Limit == of.limit && r.Minute > 0
		})
		if refuses && s.DescribeLimit(of.key, of.limit).Over {
			t.over = s.Now
			a.loggedLimits[of] = t
		} else if s.Now.Sub(t.over) >= limitRestoredDelay {
			delete(a.loggedLimits, of)
			log.Info("a key is within its limit again", zap.String("event", "key_within_limit"), zap.String("key", of.key),
				zap.String("limit", of.limit))
		}
	}
}

// logRefusedFeatures logs features that an upstream refuses but the model's other upstreams accept,
// and features that a model's only upstream refuses.
func (a *problemLogger) logRefusedFeatures(s *status.Status, log *zap.Logger) {
	for of, at := range a.loggedRefusals {
		if s.Now.Sub(at) >= repeatInterval {
			delete(a.loggedRefusals, of)
		}
	}
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		for _, r := range slices.Concat(s.RefusedOnlyBy(u), s.SoleRefusals(u)) {
			of := exceededLimit{u.Label, r.Served + " " + r.Feature}
			if _, told := a.loggedRefusals[of]; told || len(a.loggedRefusals) >= maxKeyLogLines {
				continue
			}
			if a.loggedRefusals == nil {
				a.loggedRefusals = map[exceededLimit]time.Time{}
			}
			a.loggedRefusals[of] = s.Now
			log.Warn("an upstream refuses calls with a feature", zap.String("event", "upstream_refuses"),
				zap.String("upstream", u.Label), zap.String("served", r.Served), zap.String("feature", r.Feature),
				zap.Int("status", r.Status), zap.Int("refused", r.Refused), zap.Int("answers", r.Answers),
				zap.String("remedy", r.Remedy()))
		}
	}
}
