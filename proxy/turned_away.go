package proxy

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// Rejected clients have no access log line, so the edge reports how many there were.
const (
	turnedAwayRecent = time.Minute // how long the verdict mentions rejected clients
	turnedAwayPause  = time.Minute // minimum time between two log lines
)

// turnedAway reports connections that were rejected because of a connection limit. It is safe for
// concurrent use.
type turnedAway struct {
	mu     sync.Mutex
	seen   uint64 // number of rejections at the last check
	last   time.Time
	logged uint64 // number of rejections at the last log line
	line   time.Time
}

// look logs new rejections, at most once a minute. rejected is the number of rejections since the
// edge started.
func (t *turnedAway) look(rejected uint64, now time.Time, open, most int64, log *zap.Logger) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if rejected != t.seen {
		t.seen, t.last = rejected, now
	}
	if t.logged == rejected || !t.line.IsZero() && now.Sub(t.line) < turnedAwayPause {
		return
	}
	log.Warn("client connections were turned away (503): the limit of open connections is reached",
		zap.Uint64("turned_away", rejected-t.logged), zap.Int64("connections", open), zap.Int64("limits.connections", most),
		zap.String("remedy", "raise limits.connections (and the limit on open files), or bound what one address may hold: limits.connections_per_address"))
	t.logged, t.line = rejected, now
}

// recent reports whether clients were rejected recently.
func (t *turnedAway) recent(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.last.IsZero() && now.Sub(t.last) < turnedAwayRecent
}
