package routing

import (
	"slices"
	"sync/atomic"
	"time"

	"penstock/config"
	"penstock/routing/turns"
	"penstock/upstreams"
)

// Target is one upstream that serves a route's model, under the name that its engine knows.
type Target struct {
	Upstream *upstreams.Upstream
	Served   string
	Tier     int                    // of its deployment
	Arm      string                 // name of its arm; empty: it is of none
	external bool                   // it is not of the house
	arm      uint8                  // its arm's place among the route's, from 1 on
	model    *upstreams.ServedModel // of the served name
	work     upstreams.Features     // what every call of the route asks of the engine
	// directory is the route's, where there is one; member is the target's place in it, and rank a hash
	// of the upstream's id, the same at every edge.
	directory *directory
	member    member
	rank      uint64
}

// Percent is a share in hundredths.
type Percent = config.Percent

// Query is one call's question. It is borrowed for the length of Acquire.
type Query struct {
	Pool    upstreams.Pool
	Key     string   // id of the client's key, empty without one
	Weight  float64  // of the key where keys take turns (package turns); 0: the call takes no part in that
	Tokens  int      // estimated tokens of the prompt
	Prefix  []uint64 // HashBlocks of the prompt, for a route that WantsPrefix
	Text    int      // bytes of the prompt that Prefix is of; 0: as many as its blocks have
	Session uint64   // hash of the session that the call is of, the same at every edge; 0: not known
	// CacheKey is a hash of the key by which the client wants like prompts to find one cache; 0: none.
	// Calls with one key need not be of one conversation.
	CacheKey uint64
	Exclude  []upstreams.ID // upstreams that this call has tried
	Busy     bool           // one of Exclude has refused the call for want of room: it is full, not down
	UpOnly   bool           // no upstream that would be asked for want of a better one
	Tiers    uint8          // a bit for each tier that the key lists; 0: it lists none, so all but external targets
	Arms     Arms           // that the call is of, by ArmsOf
	// Overflow says that the call waits for no slot, or no longer: while the targets before a tier
	// that serves then are full, that one does.
	Overflow bool
	Needs    upstreams.Features // what the call asks of its engine
	Now      time.Time
	Rand     uint64 // source of chance for ties
	// RetryAfter is when a client is told to come back for which no slot is free. It then has a
	// claim on one (Claims). 0: the call heeds no claims and makes none.
	RetryAfter time.Duration
	Rank       int     // of its class: it goes behind the claims of those before it
	Reserve    Percent // of an upstream's slots, rounded down, that it leaves free
	Why        *Why    // gets what the pick goes by; nil: nobody asks

	// Turn is set by Acquire while keys take turns at the model: what the call is served is booked in
	// it. The caller has it from then on.
	Turn turns.Turn

	at         upstreams.Moment // Now, once a pick has begun
	notStalled bool             // a stalled upstream is not asked yet
	anyway     bool             // no engine has all that it needs: those that lack some are asked
	within     Arms             // of which targets are asked now
	known      knowledge        // of Prefix

	full []upstreams.ID // upstreams whose slots other edges of the fleet have turned out to hold, or claims do
}

func (q *Query) excludes(t *Target) bool {
	for _, id := range q.Exclude {
		if id == t.Upstream.ID() {
			return true
		}
	}
	return false
}

// allows filters: the upstream is in the state and may be used by the key, it has the model, and
// this call has not tried it.
func (q *Query) allows(t *Target, s upstreams.State) bool {
	return t.of(q.within) && t.Upstream.EligibleFor(q.Key, s, q.at) && t.model.Available() && t.OpenTo(q.Tiers) &&
		(q.anyway || !t.model.Lacks(q.Needs, q.at)) &&
		(len(q.Exclude) == 0 || !q.excludes(t))
}

// OpenTo reports whether calls of a key with these tiers (Query.Tiers) may go to the target at all:
// prompts leave the house by consent alone.
func (t *Target) OpenTo(tiers uint8) bool {
	if tiers == 0 {
		return !t.external
	}
	return tiers>>t.Tier&1 != 0
}

// Open reports whether calls of a key with these tiers (Query.Tiers) may go to any target of a
// route.
func Open(r *Route, tiers uint8) bool {
	for i := range r.targets {
		if r.targets[i].OpenTo(tiers) {
			return true
		}
	}
	return len(r.targets) == 0
}

// External reports whether a target of a route is not of the house.
func External(r *Route) bool {
	return slices.ContainsFunc(r.targets, func(t Target) bool { return t.external })
}

// readLoad sets l to the load that a query would meet at the target.
func (t *Target) readLoad(l *upstreams.Load, q *Query) {
	t.Upstream.ReadLoad(l, q.Pool, q.at)
	t.model.Weigh(l, q.Now)
	if q.Reserve > 0 {
		l.Limit -= int(q.Reserve.Of(int64(l.Limit)))
		l.Taken = max(l.Taken, l.Active)
	}
	if len(q.full) > 0 && slices.Contains(q.full, t.Upstream.ID()) {
		l.Active, l.Taken = max(l.Active, l.Limit), max(l.Taken, l.Limit)
	}
}

// states are those in which targets take calls: of each one only if no target is in one before it.
// Busy targets are full to every call.
var states = [...]upstreams.State{
	upstreams.StateUp, upstreams.StatePending, upstreams.StateBusy, upstreams.StateStalled,
}

// Route is one model's way to its engines. It is safe for concurrent use.
type Route struct {
	ID    string // the model's canonical id
	Index int    // position in Table.Routes
	// Tiers are the route's tiers in their order, each a route of its own over a part of the targets;
	// nil where there are no several. When is a tier's: what has it serve, config.WhenFull or
	// config.WhenDown, and empty for the first.
	Tiers   []*Route
	When    string
	targets []Target
	arms    []share // of all tiers; nil: every target takes its part of all calls
	seed    uint64  // hash of the id
	policy  policy
	rotor   *atomic.Uint32
	claims  *Claims // of all routes of the table
	line    *turns.Line
	// directory knows the prompts that were sent to the targets. It is nil where there is no choice
	// that it could change: one target, or turns.
	directory *directory
}

// First is the tier that always serves, and the route where there are no several.
func First(r *Route) *Route {
	if r.Tiers != nil {
		return r.Tiers[0]
	}
	return r
}

// tiersOf are the tiers of a route, which is its own where there are no several.
func tiersOf(r *Route) []*Route {
	if r.Tiers != nil {
		return r.Tiers
	}
	return []*Route{r}
}

// Targets returns the route's targets by their tiers, in the order of the configuration. The slice
// is the route's own.
func (r *Route) Targets() []Target { return r.targets }

// Line has what keys were served at the model while they took turns.
func Line(r *Route) *turns.Line { return r.line }

// Wait counts a call that waits for a slot with the targets that keep few models in memory, so that
// they come to load its model. quit ends that.
func (r *Route) Wait(q *Query) (quit func()) {
	var all []func()
	for i := range r.targets {
		if t := &r.targets[i]; t.OpenTo(q.Tiers) && !q.excludes(t) {
			if quit := t.model.Wait(q.Now); quit != nil {
				all = append(all, quit)
			}
		}
	}
	return func() {
		for _, quit := range all {
			quit()
		}
	}
}

// WantsPrefix reports whether a pick looks at Query.Prefix, Session and CacheKey.
func (r *Route) WantsPrefix() bool { return r.directory != nil }
