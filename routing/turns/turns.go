// Package turns decides which key gets the next slot of a model whose slots are all in use: the key
// that was served least in proportion to its weight. Keys are opaque names, and the caller measures
// the service (ServiceUnits). The package does no I/O, and its functions get the time as an
// argument.
//
// # Design
//
// Keys share the engines' time, and the durations of calls differ by five orders of magnitude.
// Counting calls would therefore be unfair. Instead, each key has an Account of the service that it
// has received, divided by its weight. The key with the lowest account is next (VTC, arXiv
// 2401.00588). An account is charged an estimate when a call acquires its slot. The charge is
// corrected while the response streams and when it ends.
//
// An idle key does not accumulate credit. When it waits again, its account is raised to the
// scheduler's virtual time, which lies between the accounts of the waiting keys. As in fair packet
// queueing, virtual time advances with the service, divided by the total weight of the waiting
// keys. It therefore eventually reaches even the highest account, so no key waits forever, even if
// new keys keep arriving. An account below virtual time carries no information and is dropped.
//
// If no key has waited for a minute, no service is counted, and a call costs one atomic load.
package turns

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// answerTokenWeight is the number of prompt tokens that count as much as one response token. In one
// step, an engine reads many prompt tokens but generates only one token per call. The value was
// chosen without a measurement.
const answerTokenWeight = 4

// ServiceUnits returns the service of a call: the prompt tokens that its engine had to read, plus
// answerTokenWeight for each response token.
func ServiceUnits(uncached, answer int) int64 {
	return int64(max(0, uncached)) + answerTokenWeight*int64(max(0, answer))
}

// countingTimeAfterWait is how long a scheduler continues to count service after the last wait.
const countingTimeAfterWait = time.Minute

// maxIdleAccounts is the maximum number of accounts for keys that are not waiting.
const maxIdleAccounts = 1024

// Scheduler orders the keys that wait for one model. The zero value is ready to use. It is safe for
// concurrent use.
type Scheduler struct {
	counting atomic.Bool // keys are waiting, or were waiting within countingTimeAfterWait

	mu          sync.Mutex
	accounts    map[string]*Account
	waiting     map[string]*Account // accounts of waiting keys
	totalWeight float64             // sum of the weights of the waiting keys
	virtualTime float64
	lastWaitEnd time.Time // if no key is waiting, when the last wait ended
}

// Account tracks the service of one key at a Scheduler.
type Account struct {
	served atomic.Uint64 // bits of a float64: service / weight; written with scheduler.mu held

	scheduler *Scheduler
	name      string
	weight    atomic.Uint64 // float64 bits: the key's weight; read by WeightedServiceAfter without a lock
	waiters   int           // number of StartWait calls minus number of EndWait calls
}

// IsQuiet reports whether no key has waited recently. Service then need not be counted.
func (l *Scheduler) IsQuiet() bool { return !l.counting.Load() }

// StartWait records that a key with this weight begins to wait. Each StartWait requires one
// EndWait. A key that was not waiting gets no credit for its idle time.
func (l *Scheduler) StartWait(key string, weight float64, now time.Time) *Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopCountingIfQuiet(now)
	l.counting.Store(true)
	a := l.getOrAddAccount(key, weight)
	if a.waiters++; a.waiters == 1 {
		l.clampTime()
		a.raiseTo(l.virtualTime)
		if l.waiting == nil {
			l.waiting = make(map[string]*Account)
		}
		l.waiting[key] = a
		l.totalWeight += a.keyWeight()
	}
	return a
}

// EndWait undoes one StartWait.
func (a *Account) EndWait(now time.Time) {
	l := a.scheduler
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.waiters--; a.waiters > 0 {
		return
	}
	delete(l.waiting, a.name)
	l.totalWeight -= a.keyWeight()
	if len(l.waiting) == 0 {
		l.lastWaitEnd, l.totalWeight = now, 0
		l.virtualTime = max(l.virtualTime, a.WeightedService())
	}
	l.dropIdleAccount(a)
}

// WeightedService returns the key's service divided by its weight. The key with the lowest value is
// next.
func (a *Account) WeightedService() float64 { return math.Float64frombits(a.served.Load()) }

// WeightedServiceAfter returns the value that WeightedService would return after the given
// additional service.
func (a *Account) WeightedServiceAfter(more int64) float64 {
	return a.WeightedService() + float64(more)/a.keyWeight()
}

func (a *Account) keyWeight() float64 { return math.Float64frombits(a.weight.Load()) }

// KeyWeightedService is like Account.WeightedService, for a key that may not be waiting.
func (l *Scheduler) KeyWeightedService(key string) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[key]
	switch {
	case a == nil:
		return l.virtualTime
	case a.waiters == 0:
		return max(l.virtualTime, a.WeightedService())
	}
	return a.WeightedService()
}

// CallCharge records the service of one call in its key's account. The zero value belongs to no
// scheduler and records nothing. Only one goroutine may use a CallCharge.
type CallCharge struct {
	scheduler *Scheduler
	key       string
	weight    float64
	expected  int64
	charged   int64
}

// IsActive reports whether the turn belongs to a scheduler.
func (t *CallCharge) IsActive() bool { return t.scheduler != nil }

// StartCharging charges the expected service of a call that has acquired its slot, but at least 1.
// If the scheduler is quiet, StartCharging charges nothing and returns the zero CallCharge.
func (l *Scheduler) StartCharging(key string, weight float64, expected int64, now time.Time) CallCharge {
	if l.IsQuiet() {
		return CallCharge{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopCountingIfQuiet(now) {
		return CallCharge{}
	}
	a := l.getOrAddAccount(key, weight)
	if a.waiters == 0 {
		l.clampTime()
		a.raiseTo(l.virtualTime)
	}
	expected = max(1, expected)
	l.charge(a, expected)
	return CallCharge{l, key, a.keyWeight(), expected, expected}
}

// chargeIntervalTokens is the number of response tokens between two charges.
const chargeIntervalTokens = 16

// ChargeAnswered charges the response tokens received so far, in addition to the expected service
// of the prompt. A long response therefore counts while it streams. ChargeAnswered is cheap enough
// to be called for each token.
func (t *CallCharge) ChargeAnswered(tokens int) {
	if t.scheduler == nil {
		return
	}
	if served := t.expected + ServiceUnits(0, tokens); served-t.charged >= answerTokenWeight*chargeIntervalTokens {
		t.SetCharge(served)
	}
}

// ChargeFinal charges the call's final service. If the engine has reported no token counts (known
// is false) but has sent response tokens, the estimate for the prompt stays.
func (t *CallCharge) ChargeFinal(uncached, answer int, known bool) {
	switch {
	case known:
		t.SetCharge(ServiceUnits(uncached, answer))
	case uncached > 0 || answer > 0:
		t.SetCharge(min(t.expected, ServiceUnits(uncached, 0)) + ServiceUnits(0, answer))
	default:
		t.SetCharge(0)
	}
}

// SetCharge sets the call's total service, which may be less than expected.
func (t *CallCharge) SetCharge(served int64) {
	more := served - t.charged
	if t.scheduler == nil || more == 0 {
		return
	}
	t.charged = served
	l := t.scheduler
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.IsQuiet() {
		return
	}
	a := l.accounts[t.key]
	if a == nil { // the account was dropped, because virtual time had passed it
		if more < 0 {
			return
		}
		a = l.getOrAddAccount(t.key, t.weight)
		a.raiseTo(l.virtualTime)
	}
	l.charge(a, more)
	l.dropIdleAccount(a)
}

// ChargedService returns the service charged so far.
func (t *CallCharge) ChargedService() int64 { return t.charged }

// charge adds service to an account and advances virtual time.
func (l *Scheduler) charge(a *Account, more int64) {
	a.setServed(a.WeightedService() + float64(more)/a.keyWeight())
	share := l.totalWeight
	if a.waiters == 0 {
		share += a.keyWeight()
	}
	if more > 0 {
		l.virtualTime += float64(more) / share
	}
}

// clampTime moves virtual time into the range of the waiting keys' accounts.
func (l *Scheduler) clampTime() {
	if len(l.waiting) == 0 {
		return
	}
	least, most := math.Inf(1), math.Inf(-1)
	for _, a := range l.waiting {
		least, most = min(least, a.WeightedService()), max(most, a.WeightedService())
	}
	l.virtualTime = min(max(l.virtualTime, least), most)
}

// getOrAddAccount returns or creates a key's account, and sets the key's weight.
func (l *Scheduler) getOrAddAccount(key string, weight float64) *Account {
	if !(weight > 0) {
		weight = 1
	}
	a := l.accounts[key]
	if a == nil {
		if l.accounts == nil {
			l.accounts = make(map[string]*Account)
		}
		if len(l.accounts)-len(l.waiting) >= maxIdleAccounts {
			for _, idle := range l.accounts {
				if idle.waiters == 0 {
					delete(l.accounts, idle.name)
				}
			}
		}
		a = &Account{scheduler: l, name: key}
		a.weight.Store(math.Float64bits(weight))
		a.setServed(l.virtualTime)
		l.accounts[key] = a
	}
	if a.waiters > 0 {
		l.totalWeight += weight - a.keyWeight()
	}
	a.weight.Store(math.Float64bits(weight))
	return a
}

// stopCountingIfQuiet makes the scheduler quiet if no key has waited for longer than
// countingTimeAfterWait. It reports whether the scheduler is quiet.
func (l *Scheduler) stopCountingIfQuiet(now time.Time) (quiet bool) {
	if len(l.waiting) == 0 && l.counting.Load() && now.Sub(l.lastWaitEnd) > countingTimeAfterWait {
		clear(l.accounts)
		l.virtualTime = 0
		l.counting.Store(false)
	}
	return l.IsQuiet()
}

// dropIdleAccount drops an account if its key is not waiting and virtual time has passed the
// account.
func (l *Scheduler) dropIdleAccount(a *Account) {
	if a.waiters == 0 && a.WeightedService() <= l.virtualTime {
		delete(l.accounts, a.name)
	}
}

func (a *Account) raiseTo(to float64) {
	if a.WeightedService() < to {
		a.setServed(to)
	}
}

func (a *Account) setServed(v float64) { a.served.Store(math.Float64bits(v)) }
