package upstreams_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"pgregory.net/rapid"

	"penstock/config"
	"penstock/routing"
	"penstock/routing/queue"
	"penstock/upstreams"
	"penstock/upstreams/residency"
)

// world is an edge without HTTP. It has real upstreams (without probes), real routes and real
// queues, and calls that arrive, wait, run and end.
type world struct {
	t       *rapid.T
	set     *upstreams.Set
	queues  *queue.Queues
	ups     []*upstreams.Upstream
	plan    *upstreams.ChangePlan
	table   atomic.Pointer[routing.Table]
	waiting []*waitingCall
	running []*upstreams.Lease
	turns   bool // the models take turns at the upstreams

	wakes, ended atomic.Int64 // number of wake-ups, and of ended calls, since the current step started
	freed        int          // number of slots freed since the current step started
}

type waitingCall struct {
	model string
	q     *queue.Queue
	need  queue.WaitRequest
	done  chan struct{}
	once  sync.Once        // closes done
	over  chan struct{}    // closed when the call has ended
	lease *upstreams.Lease // lease that the call acquired
}

const worldModels, worldUpstreams = 4, 4

func newWorld(t *rapid.T, turns bool) *world {
	w := &world{t: t, queues: queue.New(), turns: turns}
	var err error
	if w.set, err = upstreams.NewSet(upstreams.Options{
		OnFree:   w.queues.OnSlotFreed,
		OnRoom:   w.queues.OnUpstreamChanged,
		Register: func(*metrics.Set) {}, Unregister: func(*metrics.Set) {},
	}); err != nil {
		t.Fatal(err)
	}
	specs := make([]config.Upstream, worldUpstreams)
	for i := range specs {
		specs[i] = config.Upstream{Name: fmt.Sprint("up-", i), URL: fmt.Sprint("http://127.0.0.1:", i+1), Engine: "openai", Concurrency: w.concurrency()}
		if turns {
			specs[i].Residents = rapid.IntRange(0, 2).Draw(t, "residents")
		}
	}
	if w.plan, err = w.set.PlanChanges(specs, nil); err != nil {
		t.Fatal(err)
	}
	for i := range specs {
		u := w.plan.Upstream(specs[i].Name)[0]
		if rapid.IntRange(0, 3).Draw(t, "state") > 0 {
			u.SetState(upstreams.StateUp)
		}
		w.ups = append(w.ups, u)
	}
	w.reload()
	return w
}

func (w *world) concurrency() config.Concurrency {
	n := rapid.IntRange(0, 3)
	if rapid.Bool().Draw(w.t, "shared") {
		return config.Concurrency{Shared: 1 + n.Draw(w.t, "slots")}
	}
	return config.Concurrency{Text: n.Draw(w.t, "text"), Vision: 1 + n.Draw(w.t, "vision")}
}

// reload assigns different upstreams to the models, and may remove one model. The last model has no
// queue, so its calls may acquire slots before queued calls of other models.
func (w *world) reload() {
	f := &config.File{}
	policies := []string{config.PolicyLeastLoaded, config.PolicyRoundRobin}
	for i := range worldModels {
		if i == 1 && w.table.Load() != nil && rapid.IntRange(0, 3).Draw(w.t, "left out") == 0 {
			continue
		}
		m := config.Model{ID: fmt.Sprint("m", i), Policy: rapid.SampledFrom(policies).Draw(w.t, "policy")}
		names := rapid.SliceOfNDistinct(rapid.IntRange(0, worldUpstreams-1), 1, worldUpstreams, rapid.ID[int]).Draw(w.t, "upstreams")
		served := "s"
		if w.turns && i > 0 {
			served = fmt.Sprint("s", i+1) // other models use "s2" as a second name
		}
		for _, u := range names {
			m.Deployments = append(m.Deployments, config.Deployment{Upstream: w.ups[u].Name(), Served: served})
		}
		if rapid.Bool().Draw(w.t, "a second name there") {
			m.Deployments = append(m.Deployments, config.Deployment{Upstream: w.ups[names[0]].Name(), Served: "s2"})
		}
		f.Models = append(f.Models, m)
	}
	table, err := routing.BuildTable(f, w.plan, w.table.Load())
	if err != nil {
		w.t.Fatal(err)
	}
	var uses []queue.QueueConfig
	for _, r := range table.Routes() {
		if r.ID != fmt.Sprint("m", worldModels-1) {
			uses = append(uses, queue.QueueConfig{Model: r.ID, Queue: w.queues.ForModel(r.ID), Depth: 30, Route: r})
		}
	}
	w.queues.ApplyConfigs(uses)
	w.table.Store(table)
	w.queues.OfferAllSlots()
}

func (w *world) route(model string) *routing.Route {
	r, _ := w.table.Load().Lookup([]byte(model))
	return r
}

// arrive starts a call like the edge does. If no slot is free and the model has a queue, the call
// waits.
func (w *world) arrive() {
	model := fmt.Sprint("m", rapid.IntRange(0, worldModels-1).Draw(w.t, "model"))
	r := w.route(model)
	if r == nil {
		return
	}
	c := &waitingCall{model: model, done: make(chan struct{}), over: make(chan struct{})}
	c.need = queue.WaitRequest{
		Key:  fmt.Sprint(rapid.IntRange(0, 2).Draw(w.t, "key")),
		Pool: rapid.SampledFrom([]upstreams.SlotPool{upstreams.PoolText, upstreams.PoolVision}).Draw(w.t, "pool"),
	}
	if rapid.IntRange(0, 3).Draw(w.t, "tried") == 0 {
		c.need.Excluded = []upstreams.ID{w.ups[rapid.IntRange(0, worldUpstreams-1).Draw(w.t, "which")].ID()}
	}
	acquire := func(r *routing.Route) (*upstreams.Lease, error) {
		l, _, err := r.Acquire(&routing.Query{Pool: c.need.Pool, Key: c.need.Key, Exclude: c.need.Excluded, Now: time.Now(), Rand: 7})
		return l, err
	}
	var full *routing.FullError
	if model == fmt.Sprint("m", worldModels-1) {
		if l, err := acquire(r); err == nil {
			w.running = append(w.running, l)
		}
		return
	}
	c.q = w.queues.ForModel(model)
	if c.q.WaitingCallCount() == 0 {
		l, err := acquire(r)
		if err == nil {
			w.running = append(w.running, l)
		}
		if !errors.As(err, &full) {
			return
		}
	}
	w.waiting = append(w.waiting, c)
	go func() {
		defer close(c.over)
		_ = c.q.Wait(c.done, &c.need, time.Now().Add(time.Hour), func() bool {
			if newest := w.route(model); newest != nil {
				r = newest
				w.wakes.Add(1)
			} // otherwise the model was removed, and only the call still uses the route
			l, err := acquire(r)
			if errors.As(err, &full) {
				return false
			}
			c.lease = l
			w.ended.Add(1)
			return true
		})
	}()
}

func (c *waitingCall) leave() { c.once.Do(func() { close(c.done) }) }

func (w *world) end() {
	for _, c := range w.waiting {
		c.leave()
	}
	w.settle()
	for _, l := range w.running {
		l.Release(upstreams.OutcomeOK)
	}
	w.running = nil
}

func (w *world) release(l *upstreams.Lease, o upstreams.Outcome) {
	w.freed++
	l.Release(o)
}

// settle waits until all goroutines are blocked, and then collects the calls that are no longer
// waiting.
func (w *world) settle() {
	synctest.Wait()
	w.waiting = slices.DeleteFunc(w.waiting, func(c *waitingCall) bool {
		select {
		case <-c.over:
			if c.lease != nil {
				w.running = append(w.running, c.lease)
			}
			return true
		default:
			return false
		}
	})
}

// check fails the test if a call is waiting even though a slot is free for it, or if it is waiting
// for a slot that can never become free.
func (w *world) check() {
	for _, c := range w.waiting {
		r, ok := w.table.Load().Lookup([]byte(c.model))
		if !ok {
			continue
		}
		l, _, err := r.Acquire(&routing.Query{Pool: c.need.Pool, Key: c.need.Key, Exclude: c.need.Excluded, Now: time.Now()})
		if err == nil { // if this is allowed (see below), this call got its slot before the queued calls
			w.running = append(w.running, l)
		}
		var full *routing.FullError
		if !errors.As(err, &full) && !((onTrial(r) || bars(r, c.need.Key)) && (errors.Is(err, routing.ErrNoUpstream) || err == nil && l.Upstream().State() == upstreams.StatePending)) {
			w.t.Fatalf("a call of %s for the pool %v that has tried %v sleeps, and could have: %v", c.model, c.need.Pool, c.need.Excluded, err)
		}
	}
}

// onTrial reports whether a running call is the trial of one of a route's upstreams. When such a
// call ends, a slot may become free for waiting calls.
func onTrial(r *routing.Route) bool {
	return slices.ContainsFunc(r.Targets(), func(t routing.Target) bool {
		return t.Upstream.Breaker.StateAt(time.Now()) == upstreams.BreakerHalfOpen && !t.Upstream.IsEligibleIn(upstreams.StateUp, upstreams.MomentOf(time.Now()))
	})
}

// bars reports whether one of a route's upstreams is half-open and bars a key from its trial.
func bars(r *routing.Route, key string) bool {
	return slices.ContainsFunc(r.Targets(), func(t routing.Target) bool { return t.Upstream.Breaker.BarsKeyFromTrial(key) })
}

// timeless hides the test's deadline, which rapid must not use in a synctest bubble.
type timeless struct{ testing.TB }

// TestNobodySleepsBesideAFreeSlot checks that no call waits while a slot is free for it, regardless
// of what happens to the upstreams, routes and calls. The test also checks that no more calls are
// woken than there are slots.
func TestNobodySleepsBesideAFreeSlot(t *testing.T) { nobodySleeps(t, false) }

// TestNoWaiterSleepsInModelTurn checks the same as TestNobodySleepsBesideAFreeSlot for engines
// whose models take turns. It also checks that every call leaves its turn.
func TestNoWaiterSleepsInModelTurn(t *testing.T) { nobodySleeps(t, true) }

func nobodySleeps(t *testing.T, turns bool) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(timeless{t}, func(rt *rapid.T) {
			defer time.Sleep(10 * time.Millisecond) // without this, the clock does not advance
			w := newWorld(rt, turns)
			defer w.end()
			up := func() *upstreams.Upstream { return w.ups[rapid.IntRange(0, worldUpstreams-1).Draw(rt, "upstream")] }
			actions := map[string]func(){
				"arrive":  w.arrive,
				"arrive2": w.arrive,
				"arrive3": w.arrive,
				"release": func() {
					if len(w.running) > 0 {
						i := rapid.IntRange(0, len(w.running)-1).Draw(rt, "lease")
						l := w.running[i]
						w.running = slices.Delete(w.running, i, i+1)
						w.release(l, rapid.SampledFrom([]upstreams.Outcome{upstreams.OutcomeOK, upstreams.OutcomeOK, upstreams.OutcomeRejected, upstreams.OutcomeClientGone, upstreams.OutcomeBadResponse}).Draw(rt, "outcome"))
					}
				},
				"fail": func() { // until the breaker opens
					u, clients := up(), 0
					for w.running = slices.DeleteFunc(w.running, func(l *upstreams.Lease) bool {
						if l.Upstream() != u {
							return false
						}
						w.release(l, upstreams.OutcomeBadResponse)
						return true
					}); ; clients++ { // clients that have keys may be barred from the trial
						key := fmt.Sprint(clients)
						l, ok := u.TryLease(key, upstreams.PoolVision, 0, time.Now())
						if !ok {
							break
						}
						l.SetFailureSource(upstreams.FailureSource{Key: key})
						w.release(l, upstreams.OutcomeBadResponse)
					}
				},
				"leave": func() {
					if len(w.waiting) > 0 {
						w.waiting[rapid.IntRange(0, len(w.waiting)-1).Draw(rt, "waiter")].leave()
					}
				},
				"state": func() {
					up().SetState(rapid.SampledFrom([]upstreams.State{upstreams.StateUp, upstreams.StateUp, upstreams.StateDown, upstreams.StateBusy}).Draw(rt, "state"))
				},
				"mode": func() {
					up().SetMode(rapid.SampledFrom([]upstreams.OperatorMode{upstreams.ModeReady, upstreams.ModeReady, upstreams.ModeDrain}).Draw(rt, "mode"))
				},
				"slots":  func() { up().SetConcurrency(w.concurrency()) },
				"ghosts": func() { up().SetGhosts(rapid.IntRange(0, 3).Draw(rt, "ghosts")) },
				"model gone": func() {
					u := up()
					for range 2 { // a single 404 does not take the model out of service
						u.RecordModelGone(upstreams.FailureSource{Served: "s"})
					}
				},
				"model back": func() { up().ModelBack() },
				"reload":     w.reload,
				"time":       func() { time.Sleep(time.Duration(rapid.IntRange(1, 3000).Draw(rt, "ms")) * time.Millisecond) },
			}
			names := make([]string, 0, len(actions))
			for name := range actions {
				names = append(names, name)
			}
			slices.Sort(names)
			for range rapid.IntRange(1, 60).Draw(rt, "steps") {
				w.wakes.Store(0)
				w.ended.Store(0)
				w.freed = 0
				name := rapid.SampledFrom(names).Draw(rt, "action")
				before := len(w.waiting)
				actions[name]()
				w.settle()
				w.check()
				came := max(0, len(w.waiting)-before)
				if wakes, most := int(w.wakes.Load()), came+2*max(w.freed, int(w.ended.Load())); wakes > most && !turns {
					rt.Fatalf("%s: %d looked for a slot, %d found one, %d were freed, %d came", name, wakes, w.ended.Load(), w.freed, came)
				}
			}
			w.end()
			for _, u := range w.ups {
				if s := u.Status(time.Now()).Residency; s != nil && slices.ContainsFunc(s.Models, func(m residency.Resident) bool { return m.Running+m.Waiting != 0 }) {
					rt.Fatalf("turns are left: %+v", s)
				}
			}
			for i := range worldModels - 1 {
				if n := w.queues.ForModel(fmt.Sprint("m", i)).WaitingCallCount(); n != 0 {
					rt.Fatalf("%d calls wait, want 0", n)
				}
			}
		})
	})
}
