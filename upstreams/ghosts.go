package upstreams

import "time"

// ghostTracker finds ghosts: slots that an engine still works in after their client has left
// (llama.cpp's plain requests, some builds of SGLang). Seen from outside that is an estimate. A
// ghost is counted only where a call of ours was abandoned *and* the engine's unexplained work rose
// by as much above what it was before, in two reports in a row. Work that others had there before
// is never taken for ghosts. Work of theirs that comes in the same seconds can be, for as long as
// it lasts, and by no more than the calls abandoned. The mutex of its reports guards it.
type ghostTracker struct {
	confirmed    int       // ghosts, by the last report
	baseline     int       // unexplained work before the first abandoned call
	abandonedNow int       // calls abandoned since the last report was begun
	unconfirmed  int       // calls abandoned before that which the report's unexplained work may still hold
	since        time.Time // of the last abandoned calls
}

// ghostLife is how long a suspicion lasts without a new abandoned call.
const ghostLife = 10 * time.Minute

// beginReport is called before a report is read. That report does not judge calls abandoned later.
func (g *ghostTracker) beginReport(now time.Time) (batch int) {
	batch, g.abandonedNow = g.abandonedNow, 0
	if batch > 0 {
		g.since = now
	}
	return batch
}

// judgeReport takes the report's unexplained work. It returns how many abandoned calls have had
// their slots freed by the engine since, and how many have just turned out to hold theirs.
func (g *ghostTracker) judgeReport(batch, unexplained int, now time.Time) (freed, held int) {
	before := g.unconfirmed + batch
	if before == 0 || now.Sub(g.since) > ghostLife {
		*g = ghostTracker{baseline: unexplained, abandonedNow: g.abandonedNow}
		return before, 0
	}
	unconfirmed := min(before, max(0, unexplained-g.baseline))
	confirmed := min(unconfirmed, g.unconfirmed) // by two reports in a row
	held = max(0, confirmed-g.confirmed)
	g.unconfirmed, g.confirmed = unconfirmed, confirmed
	return before - unconfirmed, held
}
