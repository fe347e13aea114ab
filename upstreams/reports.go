package upstreams

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"penstock/upstreams/engine"
)

// Report is an engine's report about its work.
type Report struct {
	engine.Load
	OwnAtScrape int       `json:"own_at_scrape"`
	Elsewhere   int       `json:"elsewhere_at_scrape,omitempty"` // calls of the fleet's other edges
	At          time.Time `json:"at"`
	Source      string    `json:"source"` // the page's path
}

// unexplained returns the number of requests at the engine beyond the leases of this edge and its
// fleet.
func (r *Report) unexplained() int { return max(0, r.Running+r.Waiting-r.OwnAtScrape-r.Elsewhere) }

// judgedReport is a report with the conclusions from it. It is immutable.
type judgedReport struct {
	Report
	until  Moment  // when it expires
	others int     // unexplained work minus ghosts
	usual  float64 // moving average of others' work
}

func (r *judgedReport) fresh(now Moment) bool { return r != nil && now <= r.until }

// othersTime is the time constant of the average of others' work. Reports are seconds old, and
// other edges read the same ones. If all edges used only the newest report, they would fill the
// same seemingly empty engine until the next report. An average moves more slowly, and still shows
// lasting work.
const othersTime = 15 * time.Second

// average computes usual from the average in the previous report. before may be nil.
func (r *judgedReport) average(before *judgedReport) {
	r.usual = float64(r.others)
	if !before.fresh(At(r.At)) {
		return
	}
	if d := r.At.Sub(before.At); d >= 0 {
		r.usual += (before.usual - r.usual) * math.Exp(-float64(d)/float64(othersTime))
	}
}

// reports holds an engine's reports about its work, and the conclusions from them: others' work,
// ghosts and places.
type reports struct {
	last atomic.Pointer[judgedReport] // nil: none yet

	mu     sync.Mutex
	ghosts ghostTracker
	places placeTracker
}

// fate is the fate of an abandoned call's slot in its engine.
type fate uint8

const (
	fateFreed   fate = iota // the engine's running count fell
	fateHeld                // the running count did not fall
	fateUnknown             // the engine does not say
	fateCount
)

// String returns the fate as a metric label.
func (f fate) String() string { return [...]string{"freed", "held", "unknown"}[f] }

// abandon counts a call that was given up while the engine worked on it.
func (r *reports) abandon() {
	r.mu.Lock()
	r.ghosts.abandonedNow++
	r.mu.Unlock()
}

// beginReport is called before a report is read. Calls abandoned later are left to the next
// report.
func (r *reports) beginReport(now time.Time) (batch int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ghosts.beginReport(now)
}

// set stores a report, which stays fresh for a while. It returns how many ghosts there are, how
// many requests the engine was seen to run at once (0: as many as it was given), and the fates of
// abandoned calls. report is nil if the engine reported nothing.
func (r *reports) set(
	report *Report, batch int, freshFor time.Duration, now time.Time,
) (ghosts, places int, fates [fateCount]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.last.Load()
	if report == nil {
		r.ghosts.abandonedNow += batch
		if !before.fresh(At(now)) {
			fates[fateUnknown] = r.ghosts.abandonedNow + r.ghosts.unconfirmed
			r.ghosts, r.places = ghostTracker{}, placeTracker{}
		}
		return r.ghosts.confirmed, r.places.now, fates
	}
	fates[fateFreed], fates[fateHeld] = r.ghosts.judgeReport(batch, report.unexplained(), now)
	others := max(0, report.unexplained()-r.ghosts.confirmed)
	judged := &judgedReport{Report: *report, until: At(report.At.Add(freshFor)), others: others}
	judged.average(before)
	r.last.Store(judged)
	if !before.fresh(At(report.At)) { // the engine may have been restarted meanwhile
		r.places = placeTracker{}
	}
	r.places.judgeReport(report.Running, report.Waiting, report.At)
	return r.ghosts.confirmed, r.places.now, fates
}

// others returns the work of the engine's other clients, now and on average.
func (r *reports) others(now Moment) (others int, usual float64) {
	if last := r.last.Load(); last.fresh(now) {
		return last.others, last.usual
	}
	return 0, 0
}

// queuesForOthers reports whether the engine has reported, since the given time, that requests
// wait, and that some of them come from other clients.
func (r *reports) queuesForOthers(since time.Time) bool {
	last := r.last.Load()
	return last != nil && last.At.After(since) && last.Waiting > 0 && last.others > 0
}

// ghostTracker finds ghosts: slots in which an engine still works after the client has left
// (llama.cpp's plain requests, some builds of SGLang). An edge can only estimate them. It counts
// a ghost only if one of its own calls was abandoned *and* the engine's unexplained work rose
// accordingly above its earlier level, in two reports in a row. Others' earlier work is never taken
// for ghosts. Others' work that arrives in the same seconds can be taken for ghosts while it lasts,
// but never for more ghosts than there are abandoned calls. The mutex of its reports guards it.
type ghostTracker struct {
	confirmed    int       // ghosts according to the last report
	baseline     int       // unexplained work before the first abandoned call
	abandonedNow int       // calls abandoned since the last begin
	unconfirmed  int       // calls abandoned earlier that the unexplained work may still contain
	since        time.Time // when the last calls were abandoned
}

// ghostLife is the time for which ghosts are suspected after the last abandoned call.
const ghostLife = 10 * time.Minute

// beginReport is called before a report is read. Calls abandoned later are left to the next
// report.
func (g *ghostTracker) beginReport(now time.Time) (batch int) {
	batch, g.abandonedNow = g.abandonedNow, 0
	if batch > 0 {
		g.since = now
	}
	return batch
}

// judgeReport evaluates the report's unexplained work. It returns the number of slots of abandoned
// calls that the engine has freed since then, and the number that it evidently still holds.
func (g *ghostTracker) judgeReport(batch, unexplained int, now time.Time) (freed, held int) {
	before := g.unconfirmed + batch
	if before == 0 || now.Sub(g.since) > ghostLife {
		*g = ghostTracker{baseline: unexplained, abandonedNow: g.abandonedNow}
		return before, 0
	}
	unconfirmed := min(before, max(0, unexplained-g.baseline))
	confirmed := min(unconfirmed, g.unconfirmed) // confirmed by two reports in a row
	held = max(0, confirmed-g.confirmed)
	g.unconfirmed, g.confirmed = unconfirmed, confirmed
	return before - unconfirmed, held
}

// placeTracker finds the number of requests that an engine runs at once: an engine that runs R
// requests while others wait has R places, however many it was given. The value is kept only after
// two reports in a row, because even at an engine with room a burst of long prompts waits for a
// moment. The mutex of its reports guards it.
type placeTracker struct {
	now     int       // places in the last report; 0: unknown
	lasting float64   // places in two reports in a row; 0: none yet
	queued  int       // running requests of the last report, if some waited
	at      time.Time // when the last report came
}

// placesTime is the time in which an engine's assumed places grow by a factor of e while the engine
// does not queue. The engine may have more places than it has shown, for example after long
// prompts, and only more calls can reveal them. The growth is slow, because some of those calls
// wait if there are no more places.
const placesTime = 10 * time.Minute

// judgeReport records how many requests an engine runs and how many wait. If an engine runs none
// while some wait, it is loading or paused, and the report says nothing about places.
func (t *placeTracker) judgeReport(running, waiting int, at time.Time) {
	passed := max(0, at.Sub(t.at))
	t.at = at
	if waiting > 0 && running > 0 {
		t.now = max(running, t.queued)
		if t.queued > 0 {
			t.lasting = float64(t.now)
		}
		t.queued = running
		return
	}
	if t.lasting > 0 {
		grown := t.lasting * math.Exp(float64(passed)/float64(placesTime))
		t.lasting = min(slotMax, max(grown, float64(running)))
	}
	t.now, t.queued = int(t.lasting), 0
}
