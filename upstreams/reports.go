package upstreams

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"penstock/upstreams/engine"
)

// LoadReport is an engine's report of its load.
type LoadReport struct {
	engine.EngineLoad
	OwnAtScrape int       `json:"own_at_scrape"`
	Elsewhere   int       `json:"elsewhere_at_scrape,omitempty"` // calls from the fleet's other edges
	At          time.Time `json:"at"`
	Source      string    `json:"source"` // path of the page
}

// unexplainedRequests returns how many requests at the engine belong to no lease of this edge or
// its fleet.
func (r *LoadReport) unexplainedRequests() int {
	return max(0, r.Running+r.Waiting-r.OwnAtScrape-r.Elsewhere)
}

// judgedLoadReport is a report with the conclusions drawn from it. It is immutable.
type judgedLoadReport struct {
	LoadReport
	validUntil    Moment  // when the report expires
	others        int     // unexplained requests minus ghosts
	averageOthers float64 // moving average of others
}

func (r *judgedLoadReport) isFresh(now Moment) bool { return r != nil && now <= r.validUntil }

// othersAverageTime is the time constant of the average of others' work. Reports are seconds old,
// and all edges read the same reports. If each edge used only the newest report, all edges would
// send calls to the same seemingly idle engine until the next report. The average changes more
// slowly, but still reflects continuous work.
const othersAverageTime = 15 * time.Second

// updateAverage computes averageOthers from the average of the previous report. before is that
// report, or nil.
func (r *judgedLoadReport) updateAverage(before *judgedLoadReport) {
	r.averageOthers = float64(r.others)
	if !before.isFresh(MomentOf(r.At)) {
		return
	}
	if d := r.At.Sub(before.At); d >= 0 {
		r.averageOthers += (before.averageOthers - r.averageOthers) * math.Exp(-float64(d)/float64(othersAverageTime))
	}
}

// loadReports tracks an engine's newest report and what the edge has concluded from all reports:
// others' work, ghosts and places.
type loadReports struct {
	last atomic.Pointer[judgedLoadReport] // nil until the first report

	mu     sync.Mutex
	ghosts ghostRequestTracker
	places concurrencyTracker
}

// abandonedSlotFate describes what happened to an abandoned call's slot at its engine.
type abandonedSlotFate uint8

const (
	slotFateFreed   abandonedSlotFate = iota // the engine's running count decreased
	slotFateHeld                             // the running count did not decrease
	slotFateUnknown                          // the engine does not report its running calls
	slotFateCount
)

// String returns the fate as a metric label.
func (f abandonedSlotFate) String() string { return [...]string{"freed", "held", "unknown"}[f] }

// countAbandonedCall counts a call that was abandoned while the engine was working on it.
func (r *loadReports) countAbandonedCall() {
	r.mu.Lock()
	r.ghosts.abandonedNow++
	r.mu.Unlock()
}

// beginReport must be called before a report is read. Calls that are abandoned after beginReport
// count for the next report.
func (r *loadReports) beginReport(now time.Time) (batch int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ghosts.beginReport(now)
}

// storeReport stores a report, which stays fresh for freshFor. It returns the number of ghosts, the
// number of requests that the engine runs concurrently (0 if no limit was observed), and the fates
// of abandoned calls. report is nil if the read failed.
func (r *loadReports) storeReport(
	report *LoadReport, batch int, freshFor time.Duration, now time.Time,
) (ghosts, places int, fates [slotFateCount]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.last.Load()
	if report == nil {
		r.ghosts.abandonedNow += batch
		if !before.isFresh(MomentOf(now)) {
			fates[slotFateUnknown] = r.ghosts.abandonedNow + r.ghosts.unconfirmed
			r.ghosts, r.places = ghostRequestTracker{}, concurrencyTracker{}
		}
		return r.ghosts.confirmed, r.places.current, fates
	}
	fates[slotFateFreed], fates[slotFateHeld] = r.ghosts.judgeReport(batch, report.unexplainedRequests(), now)
	others := max(0, report.unexplainedRequests()-r.ghosts.confirmed)
	judged := &judgedLoadReport{LoadReport: *report, validUntil: MomentOf(report.At.Add(freshFor)), others: others}
	judged.updateAverage(before)
	r.last.Store(judged)
	if !before.isFresh(MomentOf(report.At)) { // the engine may have restarted in the meantime
		r.places = concurrencyTracker{}
	}
	r.places.judgeReport(report.Running, report.Waiting, report.At)
	return r.ghosts.confirmed, r.places.current, fates
}

// otherRequests returns the number of other clients' requests at the engine, according to the
// newest report and on average.
func (r *loadReports) otherRequests(now Moment) (others int, usual float64) {
	if last := r.last.Load(); last.isFresh(now) {
		return last.others, last.averageOthers
	}
	return 0, 0
}

// queuesForOthers reports whether the newest report was made after the given time, and shows
// queued requests and requests from other clients.
func (r *loadReports) queuesForOthers(since time.Time) bool {
	last := r.last.Load()
	return last != nil && last.At.After(since) && last.Waiting > 0 && last.others > 0
}

// ghostRequestTracker estimates ghosts: slots in which an engine still generates after the client
// has disconnected (llama.cpp's plain requests, some builds of SGLang). It counts a ghost only if
// a call of this edge was abandoned and two consecutive reports then contain more unexplained
// requests than the reports before. A ghost also ends only after two consecutive reports without
// it. A single report may miss a ghost: a call that has its slot but has not reached the engine
// yet is subtracted as if the engine had reported it. Work that other clients started earlier
// never counts as ghosts. New work from other clients may be mistaken for ghosts, but the number
// of ghosts never exceeds the number of abandoned calls. loadReports.mu guards the tracker.
type ghostRequestTracker struct {
	confirmed    int       // ghosts according to the last two reports
	baseline     int       // unexplained requests before the first abandoned call
	abandonedNow int       // calls abandoned since the last beginReport
	unconfirmed  int       // earlier abandoned calls that may still occupy their slots, including ghosts
	seen         int       // how many of these the last report contained
	abandonedAt  time.Time // when the last calls were abandoned
}

// ghostSuspicionTime is how long the edge suspects ghosts after the last abandoned call.
const ghostSuspicionTime = 10 * time.Minute

func (g *ghostRequestTracker) beginReport(now time.Time) (batch int) {
	batch, g.abandonedNow = g.abandonedNow, 0
	if batch > 0 {
		g.abandonedAt = now
	}
	return batch
}

// judgeReport evaluates a report's unexplained requests. It returns how many slots of abandoned
// calls the engine has freed, and how many it evidently still occupies.
func (g *ghostRequestTracker) judgeReport(batch, unexplained int, now time.Time) (freed, held int) {
	before := g.unconfirmed + batch
	if before == 0 || now.Sub(g.abandonedAt) > ghostSuspicionTime {
		*g = ghostRequestTracker{baseline: unexplained, abandonedNow: g.abandonedNow}
		return before, 0
	}
	seen := min(before, max(0, unexplained-g.baseline))
	fewest, most := min(seen, g.seen), max(seen, g.seen)
	confirmed := min(max(g.confirmed, fewest), most)
	held = max(0, confirmed-g.confirmed)
	g.seen, g.confirmed, g.unconfirmed = seen, confirmed, max(seen, confirmed)
	return before - g.unconfirmed, held
}

// concurrencyTracker estimates how many requests an engine runs concurrently. If R requests are
// running while others wait, the engine has R places. The estimate requires two consecutive
// reports, because a burst of long prompts queues briefly even at an engine with free places.
// loadReports.mu guards the tracker.
type concurrencyTracker struct {
	current       int       // the current result in places; 0 if unknown
	estimate      float64   // the unrounded estimate; 0 if there is no estimate yet
	queuedRunning int       // running requests in the last report, if other requests were waiting in it
	reportedAt    time.Time // time of the last report
}

// concurrencyGrowthTime is the time in which the assumed number of places grows by a factor of e
// while the engine does not queue calls. The engine may have more places than its reports have
// shown, for example after long prompts. Only more calls can reveal these places. The growth is
// slow, because some of these additional calls will queue if there are no more places.
const concurrencyGrowthTime = 10 * time.Minute

// judgeReport evaluates how many requests are running and how many are waiting. If requests are
// waiting but none is running, the engine is loading or paused, and the report reveals nothing
// about places.
func (t *concurrencyTracker) judgeReport(running, waiting int, at time.Time) {
	passed := max(0, at.Sub(t.reportedAt))
	t.reportedAt = at
	if waiting > 0 && running > 0 {
		t.current = max(running, t.queuedRunning)
		if t.queuedRunning > 0 {
			t.estimate = float64(t.current)
		}
		t.queuedRunning = running
		return
	}
	if t.estimate > 0 {
		grown := t.estimate * math.Exp(float64(passed)/float64(concurrencyGrowthTime))
		t.estimate = min(maxPoolSlots, max(grown, float64(running)))
	}
	t.current, t.queuedRunning = int(t.estimate), 0
}
