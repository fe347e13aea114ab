package upstreams_test

import (
	"testing"
	"time"

	"penstock/config"
	"penstock/routing"
)

// conversations simulates conversations whose prompts grow with every turn. Each turn may arrive at
// any edge.
type conversations struct {
	*fleet
	systems [][]uint64          // common prefixes of the prompts
	stream  []routing.Placement // placements shared among the edges
	read    []int               // how many entries of stream each edge has read
	started []time.Time         // start times, by edge

	follows, same int // turns after a conversation's first; same: those that stayed
	young, stayed int // like follows and same, but only at edges that started less than five seconds ago
}

const (
	fleetTurns  = 6
	fleetThinks = 4 * time.Second // average pause between turns
	fleetTold   = 100 * time.Millisecond
)

func newConversations(t *testing.T, edges int, seed uint64) *conversations {
	c := &conversations{fleet: newFleet(t, 0, 8, 32, seed)}
	for range 3 {
		c.systems = append(c.systems, c.blocks(48))
	}
	for range edges {
		c.start()
	}
	return c
}

func (c *conversations) blocks(n int) (all []uint64) {
	for range n {
		all = append(all, c.chance.Uint64())
	}
	return all
}

func (c *conversations) start() {
	c.addEdge(config.PolicyLeastLoaded)
	c.read, c.started = append(c.read, 0), append(c.started, c.now)
}

// sharePlacements makes the edges share placements for the duration of the test.
func (c *conversations) sharePlacements() {
	for i, r := range c.edges {
		p := routing.PlacementsOfRoute(r)
		c.stream = p.TakeUnshared(c.stream)
		p.AddFromFleet(c.stream[c.read[i]:])
		c.read[i] = len(c.stream)
	}
	c.in(fleetTold, c.sharePlacements)
}

// restart restarts the edges one after another. An edge loses its state when it restarts.
func (c *conversations) restart(every time.Duration) {
	c.in(every, func() {
		c.start()
		c.join(c.sets[len(c.sets)-1])
		c.edges, c.sets, c.read, c.started = c.edges[1:], c.sets[1:], c.read[1:], c.started[1:]
		c.restart(every)
	})
}

// begin starts conversations at a rate that occupies the given share of the engines' slots.
func (c *conversations) begin(busy float64) {
	between := float64(fleetCall) * fleetTurns / (busy * float64(c.engines[0].slots*len(c.engines)))
	c.in(time.Duration(c.chance.ExpFloat64()*between), func() {
		prompt := append([]uint64{}, c.systems[c.chance.IntN(len(c.systems))]...)
		c.turn(append(prompt, c.blocks(16+c.chance.IntN(64))...), 1, -1)
		c.begin(busy)
	})
}

func (c *conversations) turn(prompt []uint64, n, before int) {
	i := c.chance.IntN(len(c.edges))
	r := c.edges[i]
	lease, target, err := r.Acquire(&routing.Query{Now: c.now, Rand: c.chance.Uint64(), Prefix: prompt})
	if err != nil {
		return // the client gives up
	}
	at := c.fleet.begin(r, lease, target, func() {
		if n < fleetTurns {
			c.in(time.Duration(c.chance.ExpFloat64()*float64(fleetThinks)), func() {
				more := append(append([]uint64{}, prompt...), c.blocks(4+c.chance.IntN(12))...)
				c.turn(more, n+1, c.engineOf(r, target))
			})
		}
	})
	if before < 0 {
		return
	}
	c.follows++
	young := c.now.Sub(c.started[i]) < 5*time.Second
	if young {
		c.young++
	}
	if at == before {
		c.same++
		if young {
			c.stayed++
		}
	}
}

func (c *conversations) engineOf(r *routing.Route, target *routing.Target) int {
	for i := range r.Targets() {
		if r.Targets()[i].Upstream == target.Upstream {
			return i
		}
	}
	return -1
}

// simulate simulates conversations for some time. It returns the share of later turns that went to
// the same engine as the previous turn. young is that share at edges that started less than five
// seconds ago.
func (c *conversations) simulate(t *testing.T, busy float64) (share, young float64) {
	t.Helper()
	c.share()
	c.sharePlacements()
	c.begin(busy)
	c.run(2 * time.Minute)
	c.follows, c.same, c.young, c.stayed = 0, 0, 0, 0
	c.run(5 * time.Minute)
	share, young = float64(c.same)/float64(c.follows), float64(c.stayed)/float64(max(1, c.young))
	t.Logf("%d follow-ups, %.2f %% where the one before went; of %d through a fresh edge %.1f %%", c.follows, 100*share, c.young, 100*young)
	return share, young
}

// TestConversationsStay checks goal 11 of the fleet. The edges share load and placements. Each
// turn of a conversation therefore goes to the engine that has the earlier turns in its cache,
// whichever edge the turn reaches. This is also true for an edge that has just restarted. A
// conversation leaves its engine only if more tokens are queued there than the earlier turns
// contain. If there is more than one edge, an additional 1 % of the conversations may move. The
// reason is that an edge does not know how many prompt tokens of the other edges' calls are
// unread.
func TestConversationsStay(t *testing.T) {
	t.Parallel()
	one, _ := newConversations(t, 1, 7).simulate(t, 0.6)
	if one < 0.96 {
		t.Errorf("one edge: %.2f %% of the follow-ups went where the one before did", 100*one)
	}
	c := newConversations(t, 4, 7)
	c.restart(10 * time.Second)
	if share, young := c.simulate(t, 0.6); share < one-0.01 || young < one-0.01 {
		t.Errorf("%.2f %% of the follow-ups went where the one before did, %.1f %% through a fresh edge; %.2f %% with one edge", 100*share, 100*young, 100*one)
	}
	if share, _ := newConversations(t, 16, 7).simulate(t, 0.6); share < one-0.01 {
		t.Errorf("16 edges: %.2f %% of the follow-ups went where the one before did, %.2f %% with one edge", 100*share, 100*one)
	}
}

// TestConversationsOfOneEdge checks that four edges move no more conversations than one edge does
// if the engines are so full that some conversations must move.
func TestConversationsOfOneEdge(t *testing.T) {
	t.Parallel()
	one, _ := newConversations(t, 1, 7).simulate(t, 0.8)
	if four, _ := newConversations(t, 4, 7).simulate(t, 0.8); four < one-0.01 {
		t.Errorf("%.2f %% of the follow-ups went where the one before did, %.2f %% with one edge", 100*four, 100*one)
	}
}
