package fleet

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"penstock/config"
)

// queue contains one edge's calls for an engine whose slots the fleet counts exactly. When a slot
// may be free, it lets waiting calls try one after another, like queue.Queues.
type queue struct {
	slots   *Slots
	waiting int
	running int
	awake   bool // whether a waiting call must try
	dead    bool
	// Number of slots that other edges have acquired since the first waiting call began to wait.
	overtaken int
}

type turnSimulation struct {
	*world
	t      fataler
	limit  int
	queues []*queue
	deaf   func() bool // reports whether the store's next notification is lost
	turns  []string
}

type fataler interface {
	Fatalf(format string, args ...any)
}

func newHall(t fataler, edges, limit int) *turnSimulation {
	h := &turnSimulation{world: newWorld(edges, config.KeyLimits{}, config.StoreLostDivide), t: t, limit: limit, deaf: never}
	for _, f := range h.edges {
		q := &queue{}
		q.slots = NewSlots(f, "e", func() bool { return q.waiting > 0 }, func() { q.awake = true })
		h.queues = append(h.queues, q)
	}
	h.twin.publish = func(id, edge string) { h.turns = append(h.turns, id+" "+edge) }
	return h
}

// arrive adds a call at an edge. As in production, the call either acquires a slot or waits in the
// queue.
func (h *turnSimulation) arrive(i int) {
	q := h.queues[i]
	if q.waiting == 0 && h.take(i) {
		return
	}
	if q.waiting++; q.waiting == 1 {
		q.overtaken, q.awake = 0, true
	}
	h.settle()
}

func (h *turnSimulation) end(i int) {
	q := h.queues[i]
	q.running--
	q.slots.ReleaseSlot()
	q.awake = q.waiting > 0
	h.settle()
}

func (h *turnSimulation) take(i int) bool {
	if !h.queues[i].slots.AcquireSlot(h.limit, h.now) {
		return false
	}
	h.queues[i].running++
	sum := 0
	for k, q := range h.queues {
		sum += q.running
		if k != i {
			q.overtaken++
		}
	}
	if sum > h.limit {
		h.t.Fatalf("%d calls in %d slots", sum, h.limit)
	}
	return true
}

// settle runs everything that is due now: reports, published turns, and attempts by waiting calls.
func (h *turnSimulation) settle() {
	for range 1000 {
		h.advance(0)
		said := h.turns
		h.turns = nil
		for _, one := range said {
			if h.deaf() {
				continue
			}
			for i, f := range h.edges {
				if !h.queues[i].dead {
					handleTurnNotice(f, one)
				}
			}
		}
		tried := false
		for i, q := range h.queues {
			if !q.awake || q.dead {
				continue
			}
			q.awake, tried = false, true
			if q.waiting == 0 || !h.take(i) {
				continue
			}
			q.waiting--
			q.overtaken = 0
			q.awake = q.waiting > 0 // the edge sees a free slot, so the next call tries
		}
		if !tried && len(said)+len(h.turns) == 0 {
			return
		}
	}
	h.t.Fatalf("it comes to no rest")
}

// checkFairness fails the test if other edges have overtaken an edge's calls too often, or if a
// slot is free while a call is waiting.
func (h *turnSimulation) checkFairness(settled bool) {
	held := 0
	for _, q := range h.queues {
		held += q.running
	}
	for i, q := range h.queues {
		switch {
		case q.dead || q.waiting == 0:
		case q.overtaken > 2*len(h.queues):
			h.t.Fatalf("others got %d slots while calls of edge %d waited", q.overtaken, i)
		case settled && held < h.limit:
			h.t.Fatalf("%d of %d slots are in use, and %d calls of edge %d wait", held, h.limit, q.waiting, i)
		}
	}
}

// TestTurns starts and ends calls at the edges in arbitrary order. No call may wait for a long time
// while other calls are served. No slot may stay free while a call is waiting, even if the store's
// notification is lost. There must never be more calls than slots.
func TestTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHall(t, rapid.IntRange(2, 5).Draw(t, "edges"), rapid.SampledFrom([]int{1, 2, 5, 120}).Draw(t, "slots"))
		lost := rapid.IntRange(0, 60).Draw(t, "words lost in a hundred")
		h.deaf = func() bool { return lost > 0 && rapid.IntRange(1, 100).Draw(t, "loss") <= lost }
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			i := rapid.IntRange(0, len(h.queues)-1).Draw(t, "edge")
			switch q := h.queues[i]; rapid.IntRange(0, 7).Draw(t, "what") {
			case 0:
				h.advance(time.Duration(rapid.IntRange(1, 200).Draw(t, "ms")) * time.Millisecond)
				h.settle()
			case 1, 2, 3:
				for range min(h.limit, 40) {
					if q.running > 0 {
						h.end(i)
						break
					}
					i = (i + 1) % len(h.queues)
					q = h.queues[i]
				}
			case 4:
				if q.waiting > 0 { // the client of the call disconnects
					q.waiting--
					h.settle()
				}
			default:
				for range 1 + h.limit/10 {
					h.arrive(i)
				}
			}
			h.checkFairness(lost == 0)
		}
		for range 3 { // edges that missed a notification ask the store
			h.advance(askInterval)
			h.settle()
		}
		if lost > 0 {
			h.deaf = never
			h.advance(askInterval)
			h.settle()
		}
		h.checkFairness(true)
	})
}

// TestTurnsOfABusyEdge checks that an edge whose queue is never empty does not block other edges.
// If that edge has all slots, it must pass them to the waiting edges in turn, no matter how long
// its queue is.
func TestTurnsOfABusyEdge(t *testing.T) {
	h := newHall(t, 3, 4)
	for range 30 {
		h.arrive(0)
	}
	h.arrive(1)
	h.arrive(2)
	if got := fmt.Sprint(h.queues[0].running, h.queues[1].running, h.queues[2].running); got != "4 0 0" {
		t.Fatalf("at first: %s", got)
	}
	h.end(0)
	h.end(0)
	h.end(0)
	if got := fmt.Sprint(h.queues[0].running, h.queues[1].running, h.queues[2].running); got != "2 1 1" {
		t.Errorf("after three ends: %s", got)
	}
}

// TestTurnOfADeadEdge checks that a dead edge loses its turn, and that its slots become free when
// its lease expires.
func TestTurnOfADeadEdge(t *testing.T) {
	h := newHall(t, 3, 2)
	h.arrive(0)
	h.arrive(0)
	h.arrive(1) // first to wait
	h.arrive(2) // second to wait
	h.queues[1].dead, h.lines[1].cut = true, true
	h.end(0)
	if n := h.queues[2].running; n != 0 {
		t.Fatalf("%d calls run out of turn", n)
	}
	for range 25 {
		h.advance(askInterval)
		h.settle()
	}
	if n := h.queues[2].running; n != 1 {
		t.Fatalf("a second after an edge has died, %d calls of another run", n)
	}
	h.queues[0].dead, h.lines[0].cut = true, true
	h.queues[0].running = 0 // the engine also ends the calls of the dead edge
	h.arrive(2)
	for range int(leaseTime/askInterval) + 20 {
		h.advance(askInterval)
		h.settle()
	}
	if n := h.queues[2].running; n != 2 {
		t.Errorf("after the lease of the edge with slots, %d calls run", n)
	}
}
