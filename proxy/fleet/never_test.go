package fleet

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"penstock/config"
)

// admissionModel records everything that the fleet has admitted: the debt, the reserved amounts,
// and the running calls.
type admissionModel struct {
	*rapid.T
	*world

	at     time.Time
	owed   [cellCount]float64
	calls  []runningCall
	beyond [cellCount]float64 // amounts granted before the store lost its data

	held, running int64 // reserved tokens and running calls of edges with a valid lease
}

type runningCall struct {
	edge int
	held int64
	// Whether the edge's lease has expired: the reserved amount counts as used, and the slot is
	// free.
	freed bool
}

func (e *admissionModel) decayDebt() {
	passed := e.now.Sub(e.at).Minutes()
	e.at = e.now
	for i, l := range [...]int{e.limits.RequestsPerMinute, e.limits.TokensPerMinute} {
		e.owed[i] = max(0, e.owed[i]-passed*float64(l))
	}
}

// admit starts a call at an edge. It fails the test if a single edge with the entire limit would
// reject this call.
func (e *admissionModel) admit(i int) {
	if !e.keys[i].TakeRequest(e.limits, e.now).OK {
		return
	}
	e.decayDebt()
	e.owed[requestCellIndex]++
	e.check(requestCellIndex, e.owed[requestCellIndex], e.limits.RequestsPerMinute)
	held, d := e.keys[i].Reserve(e.limits, rapid.Int64Range(1, 400).Draw(e.T, "estimate"), e.now)
	if !d.OK {
		return
	}
	e.decayDebt()
	e.calls = append(e.calls, runningCall{edge: i, held: held})
	e.held, e.running = e.held+held, e.running+1
	e.check(tokenCellIndex, e.owed[tokenCellIndex]+float64(e.held), e.limits.TokensPerMinute)
	e.check(slotCellIndex, float64(e.running), e.limits.Concurrency)
}

func (e *admissionModel) check(cell int, used float64, most int) {
	if most > 0 && used > float64(most)+e.beyond[cell]+1e-3 {
		e.Fatalf("%v of %d %s are used or held", used, most, cellLimitNames[cell])
	}
}

func (e *admissionModel) end(n int) {
	c := e.calls[n]
	e.calls = append(e.calls[:n:n], e.calls[n+1:]...)
	used := rapid.Int64Range(0, c.held).Draw(e.T, "used")
	e.keys[c.edge].Settle(c.held, used)
	if !c.freed {
		e.done(&c, used)
	}
}

func (e *admissionModel) done(c *runningCall, used int64) {
	e.decayDebt()
	e.owed[tokenCellIndex] += float64(used)
	e.held, e.running = e.held-c.held, e.running-1
}

// kill ends the process of an edge, including its calls, and starts a new process.
func (e *admissionModel) kill(i int) {
	for n := len(e.calls) - 1; n >= 0; n-- {
		if e.calls[n].edge == i {
			e.end(n)
		}
	}
	e.start(i)
}

// used returns the debt and the reserved amounts in each cell, including the amounts granted for
// future calls.
func (e *admissionModel) used() [cellCount]float64 {
	e.decayDebt()
	all := [cellCount]float64{e.owed[requestCellIndex], e.owed[tokenCellIndex] + float64(e.held), float64(e.running)}
	for _, k := range e.keys {
		if e.now.Sub(k.edgeState.epoch)-k.lastAnswer > leaseTime-fenceMargin {
			continue
		}
		for i := range all {
			all[i] += float64(max(0, k.keyCells.cells[i].spare))
		}
	}
	return all
}

// checkStoreKnows fails the test if the store does not know all usage, because it would then grant
// some amounts twice.
func (e *admissionModel) checkStoreKnows() {
	a := e.twin.accounts["a"]
	for i, used := range e.used() {
		known := e.beyond[i]
		if a != nil {
			c := &a.cells[i]
			known += c.held + max(0, c.debt-float64(e.twin.now-a.at)/60000*c.limit)
		}
		if limitAmounts(e.limits)[i] > 0 && used > known+1e-3 {
			e.Fatalf("%v %s are used or held, and the store knows of %v", used, cellLimitNames[i], known)
		}
	}
}

func (e *admissionModel) loseStoreData() {
	e.beyond = e.used()
	for _, c := range e.calls {
		if c.freed { // the edge has reported the call again after its lease expired
			e.beyond[tokenCellIndex] += float64(c.held)
			e.beyond[slotCellIndex]++
		}
	}
	e.twin.forget()
}

// expireLease makes the store release the amounts reserved by the calls of an edge.
func (e *admissionModel) expireLease(id string) {
	for n := range e.calls {
		if c := &e.calls[n]; e.edges[c.edge].edgeState.edgeID == id && !c.freed {
			c.freed = true
			e.done(c, c.held)
		}
	}
}

// meanwhile simulates other events while an answer to edge i is in flight.
func (e *admissionModel) meanwhile(i int) {
	l := e.lines[i]
	was := l.meanwhile
	l.meanwhile = func() {}
	defer func() { l.meanwhile = was }()
	for range rapid.IntRange(0, 2).Draw(e.T, "meanwhile") {
		if n := rapid.IntRange(0, len(e.calls)+1).Draw(e.T, "what"); n < len(e.calls) {
			e.end(n)
		} else if other := rapid.IntRange(0, len(e.keys)-1).Draw(e.T, "edge"); e.keys[other].inFlight == nil {
			e.admit(other)
		}
	}
}

// TestNeverMoreThanOneEdge loses, delays, repeats and reorders messages, interleaves calls at
// different edges, and kills edges. The fleet must never admit more requests, tokens or
// simultaneous calls than a single edge with the entire limit would. There are two exceptions:
// calls that continue after their edge's lease has expired, and amounts that the store granted
// before it lost its data.
func TestNeverMoreThanOneEdge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := config.KeyLimits{
			RequestsPerMinute: rapid.SampledFrom([]int{0, 3, 60, 6000}).Draw(t, "requests"),
			TokensPerMinute:   rapid.SampledFrom([]int{0, 500, 36_000}).Draw(t, "tokens"),
			Concurrency:       rapid.SampledFrom([]int{0, 1, 4, 200}).Draw(t, "concurrency"),
		}
		w := newWorld(rapid.IntRange(1, 5).Draw(t, "edges"), limits, config.StoreLostClosed)
		chance := rapid.IntRange(0, 30).Draw(t, "faults in a hundred")
		kinds := 9 + rapid.IntRange(0, 2).Draw(t, "kinds of events")
		fault := func() bool { return rapid.IntRange(1, 100).Draw(t, "fault") <= chance }
		e := &admissionModel{T: t, world: w, at: w.now}
		w.twin.lapsed = func(_, edge string, _ *modelEdge) { e.expireLease(edge) }
		for i, l := range w.lines {
			l.lose, l.mute, l.repeat, l.delay = fault, fault, fault, fault
			if kinds > 9 {
				l.meanwhile = func() { e.meanwhile(i) }
			}
		}
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			i := rapid.IntRange(0, len(w.keys)-1).Draw(t, "edge")
			switch rapid.IntRange(0, kinds).Draw(t, "what") {
			case 0:
				w.advance(time.Duration(rapid.IntRange(1, rapid.SampledFrom([]int{10, 300, 3000, 12_000}).Draw(t, "at most")).Draw(t, "ms")) * time.Millisecond)
			case 1:
				w.lines[i].hearLate()
			case 2, 3:
				if len(e.calls) > 0 {
					e.end(rapid.IntRange(0, len(e.calls)-1).Draw(t, "call"))
				}
			case 10:
				e.kill(i)
			case 11:
				e.loseStoreData()
			default:
				e.admit(i)
			}
			e.checkStoreKnows()
		}
	})
}
