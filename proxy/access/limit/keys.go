package limit

import (
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"penstock/config"
)

// Keys stores the usage of every key, keyed by id, until the process exits. Its methods may be
// called by multiple goroutines.
type Keys struct {
	epoch   time.Time
	account func(id string) Account // nil if this edge counts locally
	used    Used                    // nil if budgets start at zero
	budget  SharedBudget            // nil if this edge counts locally

	mu      sync.Mutex
	live    map[string]*keyState
	retired *lru.Cache[string, *keyState]
	tokens  *lru.Cache[string, *Key] // keys of callers that present tokens
}

// NewKeys returns an empty Keys. Its clock starts at now, and later calls must not pass an earlier
// time. retired is the maximum number of removed keys whose usage is kept. A key that is removed
// and added again therefore does not start with a full minute.
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

// rememberedTokens is the maximum number of callers with tokens whose usage is stored.
const rememberedTokens = 8192

// OfToken returns the Key for a caller that has presented a token. id is the caller's id. from is
// the configured key whose rights the token has. bound contains from, unless a reload has removed
// that key. The limits of from apply to each caller separately, while the limits of its group apply
// to all callers together. The caller's usage survives reloads.
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
		state: s, epoch: k.epoch, limits: limits, texts: textsOf(&limits), budget: k.budgetOf(id, s, &limits),
		group: group, groupName: from.Group,
	}
	k.tokens.Add(id, next)
	return next
}

// ShareBy makes the fleet's accounts count the usage of keys. It must be called before Bind.
func (k *Keys) ShareBy(account func(id string) Account) { k.account = account }

// BeginWith makes new budgets start from the usage that used returns. It must be called before
// Bind.
func (k *Keys) BeginWith(used Used) { k.used = used }

// SharedBudget returns the fleet-wide budget of a key or group. by converts a Used for keys into a
// Used for this key or group.
type SharedBudget func(id string, by func(Used) Used) Budget

// ShareBudgetsBy makes fleet-wide budgets count the usage of keys. It must be called before Bind.
func (k *Keys) ShareBudgetsBy(budget SharedBudget) { k.budget = budget }

// Bound contains the Keys of one configuration, keyed by id. It does not change after Bind.
type Bound map[string]*Key

// Bind combines the keys in a configuration with their existing state. Calls under an earlier Bound
// use the limits of that Bound, but share the state. If the fleet has no accounts, each key gets
// its share of the fleet's limits. The result may be discarded if the configuration is not used.
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

func (k *Keys) bind(of *config.Key, s *keyState) *Key {
	limits := of.Share()
	if k.account != nil {
		limits = of.Limits
	}
	return &Key{
		state: s, epoch: k.epoch, limits: limits, texts: textsOf(&limits), budget: k.budgetOf(of.ID, s, &limits),
	}
}

// budgetOf returns the budget of a key, or nil if the key has none. A new budget starts from the
// usage so far, so nothing has to be counted while a key has no budget.
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

// Add adds usage that was counted outside these budgets to the local budgets. It may also be called
// after Bind.
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
