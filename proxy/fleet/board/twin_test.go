package board

import (
	"context"
	"fmt"
	"maps"
)

// scriptModel is the board's script in Go, for property tests. TestScript compares the model with
// the script.
type scriptModel struct {
	now    int64 // in milliseconds
	seed   string
	first  int64
	newest int
	sum    workByUpstream
	edges  map[string]*twinEdge
	work   map[string]workByUpstream
	facts  map[string]twinFact
}

type twinEdge struct {
	ends   int64
	number uint64
	fact   uint64
}

type twinFact struct {
	ends  int64
	value string
}

func (t *scriptModel) forget() { *t = scriptModel{now: t.now} }

func (w workByUpstream) add(more workByUpstream, sign int) {
	for name, m := range more {
		one := w[name]
		for i := range m.calls {
			one.calls[i] += sign * m.calls[i]
		}
		one.down += sign * m.down
		if w[name] = one; one == (upstreamWork{}) {
			delete(w, name)
		}
	}
}

func (t *scriptModel) answer(m *boardMessage) (boardReply, error) {
	ms := workLeaseDuration.Milliseconds()
	if t.edges == nil {
		t.seed, t.first = m.seed, t.now+ms
		t.sum, t.edges, t.work, t.facts = workByUpstream{}, map[string]*twinEdge{}, map[string]workByUpstream{}, map[string]twinFact{}
	}
	me := t.edges[m.edge]
	if me != nil && m.number <= me.number {
		return boardReply{}, errOvertaken
	}
	if me == nil {
		me = &twinEdge{}
		t.edges[m.edge] = me
	}
	known := true
	if m.work != unchangedWork {
		now, err := parseWorks(m.work)
		if err != nil {
			panic(err)
		}
		t.sum.add(t.work[m.edge], -1)
		t.sum.add(now, 1)
		t.work[m.edge] = now
	} else {
		_, known = t.work[m.edge]
	}
	for _, f := range m.facts {
		if f.number <= me.fact {
			continue
		}
		me.fact = f.number
		t.newest++
		if f.value == "" {
			delete(t.facts, f.name)
			continue
		}
		fact := twinFact{value: f.value}
		if f.lifetime > 0 {
			fact.ends = t.now + f.lifetime.Milliseconds()
			t.first = min(t.first, fact.ends)
		}
		t.facts[f.name] = fact
	}
	me.ends, me.number = t.now+ms, m.number
	if t.first = min(t.first, me.ends); t.first <= t.now {
		t.reap()
	}
	r := boardReply{workKnown: known, edges: len(t.edges), works: maps.Clone(t.sum), version: fmt.Sprintf("%s:%d", t.seed, t.newest)}
	if r.version != m.version {
		r.facts = map[string]string{}
		for name, f := range t.facts {
			r.facts[name] = f.value
		}
	}
	return r, nil
}

func (t *scriptModel) reap() {
	t.first = t.now + workLeaseDuration.Milliseconds()
	for name, e := range t.edges {
		if e.ends <= t.now {
			delete(t.edges, name)
			t.sum.add(t.work[name], -1)
			delete(t.work, name)
		} else {
			t.first = min(t.first, e.ends)
		}
	}
	for name, f := range t.facts {
		switch {
		case f.ends == 0:
		case f.ends <= t.now:
			delete(t.facts, name)
			t.newest++
		default:
			t.first = min(t.first, f.ends)
		}
	}
}

type simulatedStore struct {
	twin *scriptModel
	cut  bool
	// Number of edges that share the limits while the line is cut.
	edges              int
	lose, mute, repeat func() bool
	late               []func() // messages that will arrive a second time
}

func (l *simulatedStore) exchange(_ context.Context, m *boardMessage) (boardReply, error) {
	if l.lose() {
		return boardReply{}, context.DeadlineExceeded
	}
	if l.repeat() {
		again := *m
		l.late = append(l.late, func() { _, _ = l.twin.answer(&again) })
	}
	r, err := l.twin.answer(m)
	if l.mute() {
		return boardReply{}, context.DeadlineExceeded
	}
	return r, err
}
