package limit

import (
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"penstock/config"
)

// Keys holds the usage of every key, by id, until the process ends. Its methods may be called from
// any goroutine.
type Keys struct {
	epoch   time.Time
	account func(id string) Account // nil: this edge counts by itself
	used    Used                    // nil: budgets start from zero
	budget  SharedBudget            // nil: this edge counts by itself

	mu      sync.Mutex
	live    map[string]*keyState
	retired *lru.Cache[string, *keyState]
	tokens  *lru.Cache[string, *Key] // callers without a key of their own
}

// NewKeys returns an empty set. The time now is the start of its clock, and no later call may pass
// an earlier time. Keys remembers the state of retired keys, which are no longer configured: the
// most recent ones, up to the given number. Thus a key that is removed and added again does not
// start a new minute with its full limits.
func NewKeys(retired int, now time.Time) *Keys {
	cache, err := lru.New[string, *keyState](retired)
	if err != nil {
		panic(fmt.Sprintf("BUG: limit.NewKeys(%d): %v", retired, err))
	}
	tokens, err := lru.New[string, *Key](rememberedTokens)
	if err != nil {
		panic("BUG: limit.NewKeys: " + err.Error())
	}
	return &Keys{epoch: now, live: make(map[string]*keyState), retired: cache, tokens: tokens}
}

// rememberedTokens is the maximum number of callers with tokens whose usage is remembered. The most
// recent callers are kept.
const rememberedTokens = 8192

// OfToken returns the limits of a caller with a token, by the caller's id. from is the configured
// key whose rights the token has. bound contains that key unless the configuration no longer has
// it. The key's limits apply to each caller separately, and the limits of the key's group to all
// callers together. The caller's usage is remembered across reloads.
func (k *Keys) OfToken(id string, from *config.Key, bound Bound) *Key {
	var group *Key
	if of := bound[from.ID]; of != nil {
		group = of.group
	}
	limits := from.Share()
	if k.account != nil {
		limits = from.Limits
	}
	if known, ok := k.tokens.Get(id); ok && known.limits == limits && known.group == group {
		return known
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	known, ok := k.tokens.Get(id)
	if ok && known.limits == limits && known.group == group {
		return known
	}
	s := new(keyState)
	if ok {
		s = known.state
	} else if k.account != nil {
		s.shared = k.account(id)
	}
	next := &Key{
		state: s, epoch: k.epoch, limits: limits, budget: k.budgetOf(id, s, &limits), group: group, groupName: from.Group,
	}
	k.tokens.Add(id, next)
	return next
}

// ShareBy makes each key's usage be counted in an account. It must be called before Bind.
func (k *Keys) ShareBy(account func(id string) Account) { k.account = account }

// BeginWith makes budgets start from what their keys have used so far. It must be called before
// Bind.
func (k *Keys) BeginWith(used Used) { k.used = used }

// SharedBudget returns a fleet-wide budget for a key or a group. by converts a function that
// reports the usage of keys into one that reports the usage of this key or group.
type SharedBudget func(id string, by func(Used) Used) Budget

// ShareBudgetsBy makes shared budgets count the usage of keys. It must be called before Bind.
func (k *Keys) ShareBudgetsBy(budget SharedBudget) { k.budget = budget }

// Bound holds the limits of the keys of one configuration, by id. It does not change after Bind.
type Bound map[string]*Key

// Bind returns the keys of a configuration with the state that they had before, each with its
// group. It changes no limit of an earlier Bound: calls under it keep their limits and use the same
// state. A key has its share of the fleet's limits, unless an account counts for the fleet. The
// configuration need not be put into use afterwards.
func (k *Keys) Bind(keys []config.Key, groups []config.Group) Bound {
	k.mu.Lock()
	defer k.mu.Unlock()
	bound := make(Bound, len(keys))
	live := make(map[string]*keyState, len(keys))
	ofGroup := make(map[string]*Key, len(groups))
	members := make(map[string][]string, len(groups))
	for i := range keys {
		if of := keys[i].Group; of != "" {
			members[of] = append(members[of], keys[i].ID)
		}
	}
	for i := range groups {
		id, as := groups[i].ID, groups[i].AsKey()
		its := members[id]
		live[as.ID] = k.find(as.ID)
		live[as.ID].members.Store(&its)
		ofGroup[id] = k.bind(&as, live[as.ID])
	}
	for i := range keys {
		id := keys[i].ID
		if live[id] == nil {
			live[id] = k.find(id)
		}
		bound[id] = k.bind(&keys[i], live[id])
		bound[id].group, bound[id].groupName = ofGroup[keys[i].Group], keys[i].Group
	}
	for id, s := range k.live {
		if live[id] == nil {
			k.retired.Add(id, s)
		}
	}
	k.live = live
	return bound
}

// bind returns a key or a group: its limits with its state.
func (k *Keys) bind(of *config.Key, s *keyState) *Key {
	limits := of.Share()
	if k.account != nil {
		limits = of.Limits
	}
	return &Key{state: s, epoch: k.epoch, limits: limits, budget: k.budgetOf(of.ID, s, &limits)}
}

// budgetOf returns the budget of a key, or nil if it has none. A new budget starts from the key's
// usage so far, so calls of a key without a budget need not be counted here.
func (k *Keys) budgetOf(id string, s *keyState, l *config.KeyLimits) Budget {
	if !l.Budgeted() {
		s.budget = nil
		return nil
	}
	if s.budget == nil && k.budget != nil {
		s.budget = k.budget(id, s.usedBy)
	}
	if s.budget == nil {
		now, used := time.Now(), [Periods]Cost{}
		if k.used != nil {
			used = s.usedBy(k.used)(id, now)
		}
		s.budget = newLocalBudget(used, now)
	}
	return s.budget
}

// Add adds usage of keys that was counted elsewhere to this edge's budgets. It is for usage that
// becomes known after Bind.
func (k *Keys) Add(used Used) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	add := func(id string, s *keyState) {
		if b, ok := s.budget.(*localBudget); ok {
			b.add(s.usedBy(used)(id, now), now)
		}
	}
	for id, s := range k.live {
		add(id, s)
	}
	for _, id := range k.retired.Keys() {
		if s, ok := k.retired.Peek(id); ok {
			add(id, s)
		}
	}
	for _, id := range k.tokens.Keys() {
		if known, ok := k.tokens.Peek(id); ok {
			add(id, known.state)
		}
	}
}

// find returns the state for an id: the state in use, a remembered state or a new state.
func (k *Keys) find(id string) *keyState {
	if s := k.live[id]; s != nil {
		return s
	}
	if s, ok := k.retired.Get(id); ok {
		k.retired.Remove(id)
		return s
	}
	s := new(keyState)
	if k.account != nil {
		s.shared = k.account(id)
	}
	return s
}
