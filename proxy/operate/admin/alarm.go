package admin

import (
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"penstock/proxy/operate/status"
)

// alarms logs the first sentence of the status page when the sentence changes. The zero value is
// ready for use. It is not safe for concurrent use.
type alarms struct {
	said string // the subject of the last log line; "" if the edge is healthy
	at   time.Time
	// failed is when the level was last LevelFailing. A less severe level is logged only after
	// failingLeast, because the level fluctuates near the threshold.
	failed time.Time
	// out is when the level was last LevelOut, and about is what that verdict was about. After a
	// model's engine has recovered, the last minute's numbers still show the model as failing,
	// which is not logged again.
	out   time.Time
	about []string
	keys  map[keyLimit]told

	// refused maps an upstream and a refused feature to the time of the last log line about them.
	refused map[keyLimit]time.Time
}

type told struct {
	at    time.Time
	lines int       // number of log lines since the limit started to refuse calls
	over  time.Time // when the limit was last seen to have refused calls within a minute
}

type keyLimit struct{ key, limit string }

const (
	// alarmLeast is the minimum time between two log lines, because a problem near a threshold
	// fluctuates.
	alarmLeast = 10 * time.Second
	// failingLeast is how long the level must have been lower before a line says so.
	failingLeast = time.Minute
	// keySecond is the time after which a key that is still over a limit is logged a second time.
	// keyAgain is the interval between later lines.
	keySecond = time.Minute
	keyAgain  = 5 * time.Minute
	// keyWithin is how long a limit must have refused no call, beyond the minute that the status
	// page counts, before a line says so. A client that polls is refused only now and then.
	keyWithin = 4 * time.Minute
	// alarmKeys is the maximum number of log lines about keys in one check.
	alarmKeys = 20
)

func (a *alarms) look(s *status.Status, log *zap.Logger) {
	a.edge(s, log)
	a.overLimits(s, log)
	a.refusals(s, log)
}

// edge logs a changed verdict, unless only the numbers in it have changed.
func (a *alarms) edge(s *status.Status, log *zap.Logger) {
	v, subject, alerts := &s.Verdict, "", s.Runbooks()
	if v.Level == status.LevelDraining || s.Now.Sub(a.at) < alarmLeast {
		return
	}
	if v.Level == status.LevelFailing {
		a.failed = s.Now
	} else if v.Level == status.LevelDegraded && strings.HasPrefix(a.said, status.LevelFailing) && s.Now.Sub(a.failed) < failingLeast {
		return
	}
	if v.Level == status.LevelOut {
		a.out, a.about = s.Now, v.About
	} else if v.Level != status.LevelOK && strings.HasPrefix(a.said, status.LevelOut) && s.Now.Sub(a.out) < failingLeast && within(v.About, a.about) {
		return
	}
	if v.Level != status.LevelOK {
		subject = v.Level + "\n" + strings.Join(v.About, " ") + "\n" + strings.Join(alerts, " ")
	}
	if subject == a.said {
		return
	}
	a.said, a.at = subject, s.Now
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

// within reports whether all contains every name in names.
func within(names, all []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(all, name) })
}

// overLimits logs the key limits that have refused calls in the last minute.
func (a *alarms) overLimits(s *status.Status, log *zap.Logger) {
	a.withinLimits(s, log)
	lines := 0
	for i := range s.Refusals {
		r := &s.Refusals[i]
		of := keyLimit{r.Key, r.Limit}
		t, known := a.keys[of]
		pause := keyAgain
		if t.lines == 1 {
			pause = keySecond
		}
		if r.Limit == "" || r.Minute == 0 || lines == alarmKeys || known && s.Now.Sub(t.at) < pause {
			continue
		}
		l := s.LimitOf(r.Key, r.Limit)
		if !l.Over {
			continue
		}
		if a.keys == nil {
			a.keys = map[keyLimit]told{}
		}
		a.keys[of] = told{s.Now, t.lines + 1, s.Now}
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

// withinLimits logs the limits that have been logged as exceeded and have refused no calls for a
// while.
func (a *alarms) withinLimits(s *status.Status, log *zap.Logger) {
	for of, t := range a.keys {
		refuses := slices.ContainsFunc(s.Refusals, func(r status.Reason) bool {
			return r.Key == of.key && r.Limit == of.limit && r.Minute > 0
		})
		if refuses && s.LimitOf(of.key, of.limit).Over {
			t.over = s.Now
			a.keys[of] = t
		} else if s.Now.Sub(t.over) >= keyWithin {
			delete(a.keys, of)
			log.Info("a key is within its limit again", zap.String("event", "key_within_limit"), zap.String("key", of.key),
				zap.String("limit", of.limit))
		}
	}
}

// refusals logs features that an upstream refuses but the model's other upstreams accept, and
// features that a model's only upstream refuses.
func (a *alarms) refusals(s *status.Status, log *zap.Logger) {
	for of, at := range a.refused {
		if s.Now.Sub(at) >= keyAgain {
			delete(a.refused, of)
		}
	}
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		for _, r := range slices.Concat(s.RefusedOnlyBy(u), s.RefusedWithout(u)) {
			of := keyLimit{u.Label, r.Served + " " + r.Feature}
			if _, told := a.refused[of]; told || len(a.refused) >= alarmKeys {
				continue
			}
			if a.refused == nil {
				a.refused = map[keyLimit]time.Time{}
			}
			a.refused[of] = s.Now
			log.Warn("an upstream refuses calls with a feature", zap.String("event", "upstream_refuses"),
				zap.String("upstream", u.Label), zap.String("served", r.Served), zap.String("feature", r.Feature),
				zap.Int("status", r.Status), zap.Int("refused", r.Refused), zap.Int("answers", r.Answers),
				zap.String("remedy", r.Remedy()))
		}
	}
}
