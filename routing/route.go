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
	Tier     int                    // the tier of its deployment
	Arm      string                 // its arm's name; empty: none
	external bool                   // it runs outside the organization
	arm      uint8                  // its arm's number in the route, from 1
	longest  int                    // longest prompt in tokens that the target gets; 0: any
	model    *upstreams.ServedModel // the upstream's model with the served name
	work     upstreams.Features     // the features that every call of the route needs
	// directory is the route's directory, if it has one. member is the target's number in the
	// directory. rank is a hash of the upstream's id, and is the same at every edge.
	directory *directory
	member    member
	rank      uint64
}

// Percent is a share in hundredths.
type Percent = config.Percent

// Query describes a call that needs an engine. The methods of Route neither change nor keep it, except
// for Why.
type Query struct {
	Pool    upstreams.Pool
	Key     string   // id of the client's key, empty without one
	Weight  float64  // the key's weight where keys take turns (package turns); 0: the call takes no turns
	Tokens  int      // estimated number of tokens in the prompt
	Prefix  []uint64 // HashBlocks of the prompt, for a route that WantsPrefix
	Text    int      // bytes of the prompt text that Prefix hashes; 0: the size of its blocks
	Session uint64   // hash of the call's session, the same at every edge; 0: unknown
	// CacheKey is a hash of the client's cache key; 0: none. With this key a client requests that
	// similar prompts share one cache. Calls with one cache key may belong to several
	// conversations.
	CacheKey uint64
	Exclude  []upstreams.ID // upstreams that this call has already tried
	Busy     bool           // one of Exclude had no room for the call: full, not down
	UpOnly   bool           // only upstreams that are up, and no last resort
	Tiers    uint8          // a bit for each tier that the key lists; 0: no list, so all but external targets
	Arms     Arms           // the call's arms, from ArmsOf
	// Overflow says that the call does not wait for a slot, or has stopped waiting. A tier that
	// serves when the tiers before it are full may then take the call.
	Overflow bool
	Needs    upstreams.Features // features that the call needs from its engine
	Now      time.Time
	Rand     uint64 // random number that breaks ties
	// RetryAfter is the Retry-After that the client gets if the call is refused. The client then has a
	// claim on a slot (Claims). 0: the call heeds no claims and makes none.
	RetryAfter time.Duration
	Rank       int     // the rank of the call's class: claims from earlier classes go first
	Reserve    Percent // share of an upstream's slots, rounded down, that it must leave free
	Why        *Why    // receives the reasons for the pick; nil: not wanted
}

// search is the state of one search for a target. It holds a copy of the Query, because a pointer
// would move each caller's Query to the heap.
type search struct {
	Query
	at         upstreams.Moment // Now, once a pick has begun
	notStalled bool             // skip stalled upstreams for now
	anyway     bool             // no engine has every needed feature: ask engines that lack some
	within     Arms             // the arms whose targets are asked now
	known      knowledge        // the directory's knowledge about Prefix

	full []upstreams.ID // upstreams whose slots are held by other edges of the fleet or kept for claims
}

func (q *Query) excludes(t *Target) bool {
	for _, id := range q.Exclude {
		if id == t.Upstream.ID() {
			return true
		}
	}
	return false
}

// allows reports whether the target is in the state, open to the key, has the model, and was not
// tried by this call.
func (q *search) allows(t *Target, s upstreams.State) bool {
	return t.of(q.within) && t.Upstream.EligibleFor(q.Key, s, q.at) && t.model.Available() && t.OpenTo(q.Tiers) &&
		(q.anyway || !t.model.Lacks(q.Needs, q.at)) &&
		(len(q.Exclude) == 0 || !q.excludes(t))
}

// OpenTo reports whether calls of a key with these tiers (Query.Tiers) may go to the target at all:
// prompts go to an external upstream only if the key lists the upstream's tier.
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

// External reports whether any target of a route is an external upstream.
func External(r *Route) bool {
	return slices.ContainsFunc(r.targets, func(t Target) bool { return t.external })
}

// readLoad sets l to the target's load as the query would find it.
func (t *Target) readLoad(l *upstreams.Load, q *search) {
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

// states are the states in which targets take calls, in order of preference: a state is used only
// if no target is in an earlier one. A busy target is full for every call.
var states = [...]upstreams.State{
	upstreams.StateUp, upstreams.StatePending, upstreams.StateBusy, upstreams.StateStalled,
}

// Route leads one model's calls to its engines. It is safe for concurrent use.
type Route struct {
	ID    string // the model's canonical id
	Index int    // position in Table.Routes
	// Tiers are the route's tiers in order, each a route of its own over some of the targets; nil
	// if there is only one tier. When of a tier is config.WhenFull or config.WhenDown. The first
	// tier's When is empty.
	Tiers   []*Route
	When    string
	targets []Target
	arms    []share // the shares in all tiers; nil: all targets take any call
	seed    uint64  // hash of the id
	// byLength says that some targets are sent only short prompts.
	byLength bool
	policy   policy
	rotor    *atomic.Uint32
	claims   *Claims // the claims on all of the table's routes
	line     *turns.Line
	// directory knows the prompts that were sent to the targets. It is nil if it cannot change a
	// choice: with one target, or with round-robin.
	directory *directory
}

// AppendTooShort appends the upstreams that the configuration keeps for prompts with fewer than the
// given number of tokens (config.PromptTokens).
func (r *Route) AppendTooShort(to []upstreams.ID, tokens int) []upstreams.ID {
	if !r.byLength {
		return to
	}
	for i := range r.targets {
		if t := &r.targets[i]; t.longest > 0 && tokens > t.longest {
			to = append(to, t.Upstream.ID())
		}
	}
	return to
}

// First returns the tier that always serves: the route itself if it has no tiers.
func First(r *Route) *Route {
	if r.Tiers != nil {
		return r.Tiers[0]
	}
	return r
}

// tiersOf returns the tiers of a route: the route itself if it has no tiers.
func tiersOf(r *Route) []*Route {
	if r.Tiers != nil {
		return r.Tiers
	}
	return []*Route{r}
}

// Targets returns the route's targets by tier, in the order of the configuration. Callers must not
// change the slice.
func (r *Route) Targets() []Target { return r.targets }

// Line returns the line that records each key's service at the model while keys took turns.
func Line(r *Route) *turns.Line { return r.line }

// Wait counts a call that waits for a slot. It counts the call at the targets that keep few models
// in memory, so that these targets load the call's model. quit ends the count.
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

// WantsPrefix reports whether a pick uses Query.Prefix, Session and CacheKey.
func (r *Route) WantsPrefix() bool { return r.directory != nil }
