package limit

import (
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"penstock/config"
)

// KeyUsages stores the usage of every key, keyed by id, until the process exits. Its methods may be
// called by multiple goroutines.
type KeyUsages struct {
	epoch        time.Time
	newAccount   func(id string) KeyAccount // nil if this edge counts locally
	initialUsage UsageFunc                  // nil if budgets start at zero
	newBudget    BudgetFunc                 // nil if this edge counts locally

	mu            sync.Mutex
	liveStates    map[string]*keyUsage
	retiredStates *lru.Cache[string, *keyUsage]
	tokenKeys     *lru.Cache[string, *KeyLimiter] // keys of callers that present tokens
}

// NewKeyUsages returns a KeyUsages without keys. Its clock starts at now, and later calls must not
// pass an earlier time. retired is the maximum number of removed keys whose usage is kept. If such
// a key is added again, it therefore continues with its usage of the current minute.
func NewKeyUsages(retired int, now time.Time) *KeyUsages {
	cache, err := lru.New[string, *keyUsage](retired)
	if err != nil {
		panic(fmt.Sprintf("BUG: limit.NewKeys(%d): %v", retired, err))
	}
	tokens, err := lru.New[string, *KeyLimiter](maxTokenCallers)
	if err != nil {
		panic("BUG: limit.NewKeys: " + err.Error())
	}
	return &KeyUsages{epoch: now, liveStates: make(map[string]*keyUsage), retiredStates: cache, tokenKeys: tokens}
}

// maxTokenCallers is the maximum number of callers with tokens whose usage is stored.
const maxTokenCallers = 8192

// TokenKey returns the KeyLimiter for a caller that has presented a token. id is the caller's id.
// from is the configured key whose rights the token has. bound contains from, unless a reload has
// removed that key. The limits of from apply to each caller separately, while the limits of its
// group apply to all callers together. The caller's usage survives reloads.
func (k *KeyUsages) TokenKey(id string, from *config.Key, bound BoundKeys) *KeyLimiter {
	var group *KeyLimiter
	if of := bound[from.ID]; of != nil {
		group = of.group
	}
	limits := from.EdgeLimits()
	if k.newAccount != nil {
		limits = from.Limits
	}
	if known, ok := k.tokenKeys.Get(id); ok && known.limits == limits && known.group == group {
		return known
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	known, ok := k.tokenKeys.Get(id)
	if ok && known.limits == limits && known.group == group {
		return known
	}
	s := new(keyUsage)
	if ok {
		s = known.state
	} else if k.newAccount != nil {
		s.account = k.newAccount(id)
	}
	next := &KeyLimiter{
		state: s, epoch: k.epoch, limits: limits, texts: newLimitTexts(&limits), budget: k.keyBudget(id, s, &limits),
		group: group, groupName: from.Group,
	}
	k.tokenKeys.Add(id, next)
	return next
}

// SetAccounts makes the fleet's accounts count the usage of keys. It must be called before Bind.
func (k *KeyUsages) SetAccounts(account func(id string) KeyAccount) { k.newAccount = account }

// SetInitialUsage makes new budgets start from the usage that used returns. It must be called
// before Bind.
func (k *KeyUsages) SetInitialUsage(used UsageFunc) { k.initialUsage = used }

// BudgetFunc returns the fleet-wide budget of a key or group. by converts a UsageFunc for keys into
// a UsageFunc for this key or group.
type BudgetFunc func(id string, by func(UsageFunc) UsageFunc) UsageBudget

// SetFleetBudgets makes fleet-wide budgets count the usage of keys. It must be called before Bind.
func (k *KeyUsages) SetFleetBudgets(budget BudgetFunc) { k.newBudget = budget }

// BoundKeys contains the KeyLimiters of one configuration, keyed by the key's id. It does not
// change after Bind.
type BoundKeys map[string]*KeyLimiter

// Bind combines the keys in a configuration with their existing state. Calls under an earlier
// BoundKeys use the limits of that BoundKeys, but share the state. If the fleet has no accounts,
// each key gets its share of the fleet's limits. The result may be discarded if the configuration
// is not used.
func (k *KeyUsages) Bind(keys []config.Key, groups []config.Group) BoundKeys {
	k.mu.Lock()
	defer k.mu.Unlock()
	bound := make(BoundKeys, len(keys))
	live := make(map[string]*keyUsage, len(keys))
	ofGroup := make(map[string]*KeyLimiter, len(groups))
	members := make(map[string][]string, len(groups))
	for i := range keys {
		if of := keys[i].Group; of != "" {
			members[of] = append(members[of], keys[i].ID)
		}
	}
	for i := range groups {
		id, as := groups[i].ID, groups[i].AsKey()
		its := members[id]
		live[as.ID] = k.findState(as.ID)
		live[as.ID].memberIDs.Store(&its)
		ofGroup[id] = k.bindKey(&as, live[as.ID])
	}
	for i := range keys {
		id := keys[i].ID
		if live[id] == nil {
			live[id] = k.findState(id)
		}
		bound[id] = k.bindKey(&keys[i], live[id])
		bound[id].group, bound[id].groupName = ofGroup[keys[i].Group], keys[i].Group
	}
	for id, s := range k.liveStates {
		if live[id] == nil {
			k.retiredStates.Add(id, s)
		}
	}
	k.liveStates = live
	return bound
}

func (k *KeyUsages) bindKey(of *config.Key, s *keyUsage) *KeyLimiter {
	limits := of.EdgeLimits()
	if k.newAccount != nil {
		limits = of.Limits
	}
	return &KeyLimiter{
		state: s, epoch: k.epoch, limits: limits, texts: newLimitTexts(&limits), budget: k.keyBudget(of.ID, s, &limits),
	}
}

// keyBudget returns the budget of a key, or nil if the key has none. A new budget starts from the
// usage so far, so nothing has to be counted while a key has no budget.
func (k *KeyUsages) keyBudget(id string, s *keyUsage, l *config.KeyLimits) UsageBudget {
	if !l.HasBudget() {
		s.budget = nil
		return nil
	}
	if s.budget == nil && k.newBudget != nil {
		s.budget = k.newBudget(id, s.aggregateUsage)
	}
	if s.budget == nil {
		now, used := time.Now(), [PeriodCount]Cost{}
		if k.initialUsage != nil {
			used = s.aggregateUsage(k.initialUsage)(id, now)
		}
		s.budget = newLocalBudget(used, now)
	}
	return s.budget
}

// AddUsage adds usage that was counted outside these budgets to the local budgets. It may also be
// called after Bind.
func (k *KeyUsages) AddUsage(used UsageFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	add := func(id string, s *keyUsage) {
		if b, ok := s.budget.(*localBudget); ok {
			b.addUsage(s.aggregateUsage(used)(id, now), now)
		}
	}
	for id, s := range k.liveStates {
		add(id, s)
	}
	for _, id := range k.retiredStates.Keys() {
		if s, ok := k.retiredStates.Peek(id); ok {
			add(id, s)
		}
	}
	for _, id := range k.tokenKeys.Keys() {
		if known, ok := k.tokenKeys.Peek(id); ok {
			add(id, known.state)
		}
	}
}

func (k *KeyUsages) findState(id string) *keyUsage {
	if s := k.liveStates[id]; s != nil {
		return s
	}
	if s, ok := k.retiredStates.Get(id); ok {
		k.retiredStates.Remove(id)
		return s
	}
	s := new(keyUsage)
	if k.newAccount != nil {
		s.account = k.newAccount(id)
	}
	return s
}
