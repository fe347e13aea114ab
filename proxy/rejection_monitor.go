package proxy

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// The access log has no lines for rejected clients, so the edge reports their number.
const (
	rejectionRecentTime  = time.Minute // how long the verdict mentions rejected clients
	rejectionLogInterval = time.Minute // minimum time between two log lines
)

// rejectionMonitor reports connections that were rejected because of a connection limit. It is safe
// for concurrent use.
type rejectionMonitor struct {
	mu            sync.Mutex
	lastCount     uint64 // number of rejections at the last check
	lastRejection time.Time
	loggedCount   uint64 // number of rejections at the last log line
	lastLogTime   time.Time
}

// logNewRejections logs new rejections, at most once a minute. rejected is the number of rejections
// since the edge started.
func (t *rejectionMonitor) logNewRejections(rejected uint64, now time.Time, open, most int64, log *zap.Logger) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if rejected != t.lastCount {
		t.lastCount, t.lastRejection = rejected, now
	}
	if t.loggedCount == rejected || !t.lastLogTime.IsZero() && now.Sub(t.lastLogTime) < rejectionLogInterval {
		return
	}
	log.Warn("client connections were turned away (503): the limit of open connections is reached",
		zap.Uint64("turned_away", rejected-t.loggedCount), zap.Int64("connections", open), zap.Int64("limits.connections", most),
		zap.String("remedy", "raise limits.connections (and the limit on open files), or bound what one address may hold: limits.connections_per_address"))
	t.loggedCount, t.lastLogTime = rejected, now
}

// hasRecentRejections reports whether clients were rejected recently.
func (t *rejectionMonitor) hasRecentRejections(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.lastRejection.IsZero() && now.Sub(t.lastRejection) < rejectionRecentTime
}
