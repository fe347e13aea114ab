package routing

import (
	"slices"
	"sync/atomic"
	"time"

	"penstock/config"
	"penstock/routing/turns"
	"penstock/upstreams"
)

// Target is an upstream of a route, together with the engine's name for the model.
type Target struct {
	Upstream         *upstreams.Upstream
	Served           string
	Tier             int                    // tier of the deployment
	Arm              string                 // name of the arm, or empty
	isExternal       bool                   // the upstream is outside the organization
	armNumber        uint8                  // number of the arm in the route, counting from 1, or 0
	maxPromptTokens  int                    // maximum prompt length in tokens; 0 means no limit
	model            *upstreams.ServedModel // the model named Served at the upstream
	requiredFeatures upstreams.Features     // features that every call of the route requires
	// prefixIndex is the route's index, or nil. member is the target's number in the index.
	// rankHash is a hash of the upstream's ID, and is the same at every edge.
	prefixIndex  *prefixIndex
	engineNumber engineNumber
	rankHash     uint64
}

// Percent is a percentage.
type Percent = config.Percent

// TierSet says which targets the calls of a key may use.
type TierSet = config.TierSet

// Query describes a call that needs an engine. The methods of Route do not retain it, and change
// only Why.
type Query struct {
	Pool    upstreams.SlotPool
	Key     string   // id of the client's key, or empty
	Weight  float64  // weight of the key in package turns; 0 if the call has no charge
	Tokens  int      // estimated prompt tokens
	Prefix  []uint64 // HashBlocks of the prompt; only needed if Route.UsesPrefixIndex
	Text    int      // size of the prompt text in bytes; 0 means the total size of the blocks in Prefix
	Session uint64   // hash of the session, the same at every edge; 0 if unknown
	// CacheKey is a hash of the client's cache key, or 0. A client sets the same cache key for
	// prompts that should share a cache. Calls with the same cache key may belong to different
	// conversations.
	CacheKey uint64
	Exclude  []upstreams.ID // upstreams that the call has already tried
	Busy     bool           // at least one upstream in Exclude was full
	UpOnly   bool           // never fall back to pending, busy or stalled upstreams
	Tiers    TierSet        // the tiers that the key lists
	Arms     ArmSet         // the call's arms, from SelectArms
	// Overflow means that the call does not wait for a slot, or has stopped waiting. If the earlier
	// tiers are full, the call may then use a tier for which When is config.DeploymentUsedWhenFull.
	Overflow bool
	Needs    upstreams.Features // features that the call requires
	Now      time.Time
	Rand     uint64 // random number to break ties
	// RetryAfter is the Retry-After that the client gets if the call is refused. A refused call
	// adds a claim (see SlotClaims). If RetryAfter is 0, the call ignores claims and adds no claim.
	RetryAfter time.Duration
	// RetryAfterIsMinimum means that the client gets FullError.RetryAfter instead, if that is
	// longer.
	RetryAfterIsMinimum bool
	Rank                int // rank of the call's class; claims from earlier classes go first
	// Share of an upstream's slots, rounded down, that the call must leave free.
	Reserve Percent
	Why     *PickExplanation // receives the reasons for the pick; may be nil
}

// targetSearch is the state of one search for a target. It contains a copy of the Query, because a
// pointer would move each caller's Query to the heap.
type targetSearch struct {
	Query
	moment      upstreams.Moment // moment of Now; set when a pick begins
	skipStalled bool             // skip stalled upstreams for now
	ignoreNeeds bool             // consider engines that lack a needed feature
	searchArms  ArmSet           // arms whose targets are considered in the current pass
	cached      cacheMatch       // result of looking up Prefix in the prefixIndex

	fullUpstreams []upstreams.ID // upstreams whose slots are occupied by other edges or reserved by claims
}

func (q *Query) excludesTarget(t *Target) bool {
	for _, id := range q.Exclude {
		if id == t.Upstream.ID() {
			return true
		}
	}
	return false
}

// mayUse reports whether the target is in state s, is open to the key, has the model, and was not
// tried by this call.
func (q *targetSearch) mayUse(t *Target, s upstreams.State) bool {
	return t.isInArmSet(q.searchArms) && t.Upstream.IsEligibleFor(q.Key, s, q.moment) && t.model.IsAvailable() && t.IsOpenToTiers(q.Tiers) &&
		(q.ignoreNeeds || !t.model.LacksFeature(q.Needs, q.moment)) &&
		(len(q.Exclude) == 0 || !q.excludesTarget(t))
}

// IsOpenToTiers reports whether calls of a key that has these tiers (Query.Tiers) may use the
// target. Prompts go to an external upstream only if the key lists its tier.
func (t *Target) IsOpenToTiers(tiers TierSet) bool { return tiers.Allows(t.Tier, t.isExternal) }

// IsOpenToTiers reports whether calls of a key that has these tiers (Query.Tiers) may use at least
// one target of a route.
func IsOpenToTiers(r *Route, tiers TierSet) bool {
	for i := range r.targets {
		if r.targets[i].IsOpenToTiers(tiers) {
			return true
		}
	}
	return len(r.targets) == 0
}

// HasExternalUpstream reports whether a route has an external upstream.
func HasExternalUpstream(r *Route) bool {
	return slices.ContainsFunc(r.targets, func(t Target) bool { return t.isExternal })
}

// readLoad sets l to the target's load from the perspective of the query.
func (t *Target) readLoad(l *upstreams.Load, q *targetSearch) {
	t.Upstream.ReadLoad(l, q.Pool, q.moment)
	t.model.AdjustLoadForCall(l, q.Now)
	if q.Reserve > 0 {
		l.Limit -= int(q.Reserve.Of(int64(l.Limit)))
		l.Taken = max(l.Taken, l.Active)
	}
	if len(q.fullUpstreams) > 0 && slices.Contains(q.fullUpstreams, t.Upstream.ID()) {
		l.Active, l.Taken = max(l.Active, l.Limit), max(l.Taken, l.Limit)
	}
}

// statePreference lists the states in which targets accept calls, in order of preference. Targets
// in a state are used only if no target is in an earlier state. A busy target counts as full for
// every call.
var statePreference = [...]upstreams.State{
	upstreams.StateUp, upstreams.StatePending, upstreams.StateBusy, upstreams.StateStalled,
}

// Route sends the calls of one model to its engines. It is safe for concurrent use.
type Route struct {
	ID    string // canonical id of the model
	Index int    // position in Table.Routes
	// Tiers are the route's tiers in order, or nil if there is only one. Each tier is a Route over
	// some of the targets. When is config.DeploymentUsedWhenFull or config.DeploymentUsedWhenDown,
	// or empty for the first tier.
	Tiers   []*Route
	When    string
	targets []Target
	arms    []armCallRange // arms of all tiers, or nil
	seed    uint64         // hash of the ID
	// hasLengthLimits is true if some targets get only short prompts.
	hasLengthLimits bool
	policy          scoringPolicy
	startCounter    *atomic.Uint32
	claims          *SlotClaims // the claims of all routes in the table
	scheduler       *turns.Scheduler
	// prefixIndex tracks the prompts sent to the targets. It is nil if it cannot affect a pick,
	// because there is only one target or the policy is round_robin.
	prefixIndex   *prefixIndex
	siblingSpeeds *upstreams.SiblingSpeeds // speeds of the targets, by position
}

// AppendTooShortUpstreams appends the upstreams whose maximum prompt length
// (config.PromptTokenLimits) is less than tokens.
func (r *Route) AppendTooShortUpstreams(to []upstreams.ID, tokens int) []upstreams.ID {
	if !r.hasLengthLimits {
		return to
	}
	for i := range r.targets {
		if t := &r.targets[i]; t.maxPromptTokens > 0 && tokens > t.maxPromptTokens {
			to = append(to, t.Upstream.ID())
		}
	}
	return to
}

// FirstTier returns the first tier, or the route itself if it has no tiers.
func FirstTier(r *Route) *Route {
	if r.Tiers != nil {
		return r.Tiers[0]
	}
	return r
}

// tiersOrSelf returns the route's tiers, or the route itself if it has none.
func tiersOrSelf(r *Route) []*Route {
	if r.Tiers != nil {
		return r.Tiers
	}
	return []*Route{r}
}

// Targets returns the targets by tier, in configuration order. Callers must not modify the slice.
func (r *Route) Targets() []Target { return r.targets }

// TurnScheduler returns the scheduler that tracks each key's service at the model.
func TurnScheduler(r *Route) *turns.Scheduler { return r.scheduler }

// RegisterWait registers a call that is waiting for a slot. Engines that keep few models in memory
// can then load the call's model. quit removes the registration.
func (r *Route) RegisterWait(q *Query) (quit func()) {
	var all []func()
	for i := range r.targets {
		if t := &r.targets[i]; t.IsOpenToTiers(q.Tiers) && !q.excludesTarget(t) {
			if quit := t.model.BeginWait(q.Now); quit != nil {
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

// UsesPrefixIndex reports whether picks use Query.Prefix, Session and CacheKey.
func (r *Route) UsesPrefixIndex() bool { return r.prefixIndex != nil }
