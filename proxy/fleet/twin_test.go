package fleet

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"
)

// scriptModel is the account script in Go. Property tests use the model because it is a thousand
// times faster than the script. TestScript compares the two.
type scriptModel struct {
	now      int64 // in milliseconds
	births   int64
	accounts map[string]*modelAccount

	// Called when an edge's lease has expired; may be nil.
	lapsed  func(id, edge string, e *modelEdge)
	publish func(id, edge string) // called when an edge's turn begins; may be nil
}

type modelAccount struct {
	birth    string
	at, ends int64
	ahead    int64 // how far the store's clock has been set forward
	cells    [cellCount]struct{ debt, held, limit float64 }
	known    [cellCount]struct{ before, since float64 }
	edges    map[string]*modelEdge
	turns    []modelTurn
}

// modelTurn is the turn of an edge whose calls are waiting for a slot.
type modelTurn struct {
	edge string
	till int64
}

type modelEdge struct {
	ends    int64
	number  uint64
	held    [cellCount]int64
	charged [cellCount]int64
}

func (t *scriptModel) forget() { t.accounts = nil }

func (m *accountMessage) budget() bool { return m.parts[tokenCellIndex].kind == cellKindBudget }

func (t *scriptModel) answer(id string, m *accountMessage) (r accountReply, err error) {
	ms := leaseTime.Milliseconds()
	a := t.accounts[id]
	if a == nil {
		t.births++
		a = &modelAccount{birth: strings.Repeat("b", int(t.births)), at: t.now, ends: t.now + ms, edges: map[string]*modelEdge{}}
		if t.accounts == nil {
			t.accounts = map[string]*modelAccount{}
		}
		t.accounts[id] = a
	}
	now, me := max(t.now+a.ahead, a.at), a.edges[m.edge]
	if me != nil && m.number <= me.number {
		return accountReply{laterNumber: me.number}, errOvertaken
	}
	for i := range m.parts {
		c, p := &a.cells[i], &m.parts[i]
		if p.kind == cellKindRate {
			c.debt = max(0, c.debt-float64(now-a.at)/60000*c.limit)
			if c.limit > 0 && p.limit > 0 {
				c.debt *= float64(p.limit) / c.limit
			}
		}
		if p.limit > 0 {
			c.limit = float64(p.limit)
		}
	}
	if a.ends < now {
		a.ends = now + ms
		for name, o := range a.edges {
			switch {
			case o == me:
			case o.ends >= now:
				a.ends = min(a.ends, o.ends)
			default:
				if t.lapsed != nil {
					t.lapsed(id, name, o)
				}
				for i := range a.cells {
					a.cells[i].held -= float64(o.held[i])
					if m.parts[i].kind == cellKindRate {
						a.cells[i].debt += float64(o.held[i])
					}
				}
				if !m.budget() {
					delete(a.edges, name)
					continue
				}
				o.ends, o.held = math.MaxInt64, [cellCount]int64{}
			}
		}
	}
	known := me != nil
	if !known {
		me = &modelEdge{}
		a.edges[m.edge] = me
	}
	ahead, others := a.turnsOf(m.edge, now)
	a.turns = others
	me.ends, me.number, r.birth = now+ms, m.number, a.birth
	a.ahead, r.clock = now-t.now, time.Duration(t.now)*time.Millisecond
	for i := range m.parts {
		c, p := &a.cells[i], &m.parts[i]
		last := p.knownCharge
		if known {
			last = max(last, me.charged[i])
		}
		switch {
		case p.kind == cellKindSlot, p.kind == cellKindTurn:
		case p.kind == cellKindBudget:
			more, of := max(0, p.charged-me.charged[i]), &a.known[i]
			c.debt += float64(more)
			if m.birth != "" && m.birth != a.birth {
				of.before = max(of.before, float64(p.ownDebt))
				if !known {
					more = max(0, p.charged-p.knownCharge)
				}
			} else if !known {
				more = 0
			}
			of.since += float64(more)
		case m.birth != "" && m.birth != a.birth && !known:
			c.debt += float64(p.ownDebt)
		default:
			c.debt += float64(max(0, p.charged-last))
		}
		granted, used := int64(0), c.debt
		if p.kind == cellKindBudget {
			used = max(used, a.known[i].before+a.known[i].since)
		}
		if p.limit > 0 {
			free := float64(p.limit) - used - (c.held - float64(me.held[i]))
			granted = max(p.minHeld, int64(math.Floor(min(float64(p.fairWant(int64(free), ahead, len(others))), free))))
		}
		c.held += float64(granted - me.held[i])
		if me.held[i] = granted; p.kind == cellKindBudget {
			p.charged = max(p.charged, me.charged[i])
		}
		me.charged[i] = p.charged
		if p.kind == cellKindSlot || p.kind == cellKindTurn {
			a.wait(m.edge, p, granted, ahead, now)
			for n := range max(0, min(len(a.turns), int(p.limit)-int(c.held))) {
				if w := a.turns[n].edge; w != m.edge && t.publish != nil {
					t.publish(id, w)
				}
			}
		}
		r.grants[i] = cellGrant{held: granted, debt: used, free: float64(p.limit) - used - c.held}
	}
	a.at, a.ends = now, min(a.ends, now+ms)
	return r, nil
}

type simulatedStore struct {
	twin  *scriptModel
	cut   bool   // whether the edge knows that the store is lost
	began uint64 // number at which message numbers start

	// lose: the next message is lost; mute: the answer to the next message is lost.
	lose, mute func() bool
	late       []func() // messages that will arrive a second time
	repeat     func() bool
	delay      func() bool // reports whether a lost message arrives later
	meanwhile  func()      // runs while an answer is in flight
}

func never() bool { return false }

func (l *simulatedStore) Exchange(_ context.Context, id string, m *accountMessage) (accountReply, error) {
	sent := *m
	sent.number += l.began
	again := sent
	hear := func() { _, _ = l.twin.answer(id, &again) }
	if l.lose() {
		if l.delay() { // the store receives the message long after the edge has given up
			l.late = append(l.late, hear)
		}
		return accountReply{}, context.DeadlineExceeded
	}
	if l.repeat() {
		l.late = append(l.late, hear)
	}
	r, err := l.twin.answer(id, &sent)
	l.meanwhile()
	if l.mute() {
		return accountReply{}, context.DeadlineExceeded
	}
	return r, err
}

func (l *simulatedStore) hearLate() {
	for _, late := range l.late {
		late()
	}
	l.late = nil
}

func (l *simulatedStore) Available() bool { return !l.cut }

func (l *simulatedStore) CountMissed() {}

func (l *simulatedStore) ConsecutiveFailures() int { return 0 }

func (l *simulatedStore) Heartbeat(context.Context, string, string) (heartbeatReply, error) {
	return heartbeatReply{edgeKnown: true}, nil
}

func (l *simulatedStore) EvictionPolicy(context.Context) string { return "" }

func (l *simulatedStore) Close() {}

// turnsOf returns how many edges come before the given edge in the order, and the turns of all
// other edges. If the given edge has no turn, ahead is -1.
func (a *modelAccount) turnsOf(edge string, now int64) (ahead int, others []modelTurn) {
	ahead = -1
	for _, w := range a.turns {
		switch {
		case w.edge == edge:
			ahead = len(others)
		case w.till >= now:
			others = append(others, w)
		}
	}
	return ahead, others
}

func (a *modelAccount) wait(edge string, p *cellReport, granted int64, ahead int, now int64) {
	if p.kind != cellKindTurn || granted >= p.wanted && granted > p.minHeld {
		return
	}
	if ahead < 0 || granted > p.minHeld {
		ahead = len(a.turns)
	}
	a.turns = slices.Insert(a.turns, ahead, modelTurn{edge, now + leaseTime.Milliseconds()/10})
}

// fairWant returns how many slots an edge may claim while other edges are also waiting for slots.
func (p *cellReport) fairWant(free int64, ahead, others int) int64 {
	if p.kind != cellKindSlot && p.kind != cellKindTurn || others == 0 {
		return p.wanted
	}
	if ahead < 0 {
		ahead = others
	}
	free -= p.minHeld
	most := max(0, free-int64(others))
	if p.kind == cellKindTurn {
		most = max(most, min(1, free-int64(ahead)))
	}
	return min(p.wanted, p.minHeld+most)
}
