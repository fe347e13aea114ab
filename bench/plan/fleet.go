package plan

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"penstock/bench/load/workload"
	"penstock/bench/result"
	"penstock/config"
	"penstock/routing"
	"penstock/upstreams"
)

// Number of tokens per block in a trace, and number of bytes per token.
const (
	traceBlock    = workload.TraceBlockTokens
	bytesPerToken = 4
)

// request is a line in a trace.
type request struct {
	at      float64 // in seconds; meaningless for a call that follows another call
	after   int     // index of the call that this call follows; negative if none
	think   float64 // seconds between the end of call number after and this call
	in, out int
	session string
	prefix  []uint64 // blocks of the prompt as seen by the edge
	blocks  []uint64 // blocks of the prompt as seen by an engine's cache
}

// newRequests converts a trace to requests. Blocks with the same id become identical text, so the
// edge and the engines both see them as equal.
func newRequests(trace []workload.TraceCall, scale float64) []request {
	out := make([]request, len(trace))
	var text []byte
	for i, c := range trace {
		r := request{
			at: c.At.Seconds() * scale, after: c.After, think: c.Think.Seconds() * scale,
			in: c.In, out: max(1, c.Out), session: c.Session,
		}
		text = append(text[:0], make([]byte, len(c.Blocks)*traceBlock*bytesPerToken)...)
		chained := uint64(0)
		for j, b := range c.Blocks {
			binary.LittleEndian.PutUint64(text[j*traceBlock*bytesPerToken:], uint64(b)+1)
			chained = (chained ^ uint64(b) + 1) * 0x9e3779b97f4a7c15
			chained ^= chained >> 29
			r.blocks = append(r.blocks, chained)
		}
		r.prefix = routing.HashBlocks(nil, routing.PromptSeed("m", "", nil), text)
		out[i] = r
	}
	return out
}

// runningCall is a request in progress.
type runningCall struct {
	*request
	at           float64          // when the call arrived
	next         []*runningCall   // the calls that follow this call
	lease        *upstreams.Lease // nil if a baseline chooses the engine
	target       *routing.Target  // target of the lease
	e            *engine
	hadSlot      bool // the call has a slot or has had one
	cached       int
	expected     int // number of tokens that the policy expected to be cached
	evicted      bool
	sentAt       float64 // when the edge routed the call to the engine
	firstTokenAt float64 // time of the call's first token; negative before that
	end          float64
	// tokens that the call occupied in the engine's room when it last got or left its slot
	roomTokens float64
	tokensLeft float64 // remaining tokens to decode when the call last got or left its slot
	endMark    float64 // value of e.decodedTokens at the call's last token
}

// engineEvent is a future event: a prompt has been read, or an engine changes.
type engineEvent struct {
	at      float64
	order   int
	e       *engine
	c       *runningCall // the call whose prompt has been read; nil for the engine's next change
	version int
}

type engineEventHeap []engineEvent

func (a engineEventHeap) Len() int { return len(a) }
func (a engineEventHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(a[i].at, a[j].at), cmp.Compare(a[i].order, a[j].order)) < 0
}
func (a engineEventHeap) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *engineEventHeap) Push(x any)   { *a = append(*a, x.(engineEvent)) }
func (a *engineEventHeap) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// fleet is a set of engines behind the edge's routing, in virtual time. If no engine has a free
// slot, calls wait at the edge in the order of arrival.
type fleet struct {
	route            *routing.Route
	choose           func(*fleet, *runningCall) *engine // if nil, the route chooses
	engines          []*engine
	engineByUpstream map[*upstreams.Upstream]*engine
	rng              *rand.Rand
	start            time.Time
	waiting          []*runningCall
	due              engineEventHeap
	order            int
	rotation         int
	draw             uint64
	speed            float64   // factor by which the trace is sped up
	tokens           []float64 // number of decoded tokens, indexed by the number of running requests
}

// plannerSet returns the upstream set that all fleets share. The metrics of the set are discarded.
var plannerSet = sync.OnceValues(func() (*upstreams.Set, error) {
	nowhere := func(*metrics.Set) {}
	return upstreams.NewSet(upstreams.Options{Register: nowhere, Unregister: nowhere})
})

// newFleet creates engines of the given kinds behind a policy of the edge or a baseline. Engine
// names depend on the draw, because the name of an engine affects which conversations are routed to
// it.
func newFleet(kinds []*EngineKind, policy string, draw uint64) (*fleet, error) {
	f := &fleet{
		engineByUpstream: map[*upstreams.Upstream]*engine{}, rng: rand.New(rand.NewPCG(draw, 3)), start: time.Now(), draw: draw,
		choose: baselinePolicies[policy],
	}
	for _, k := range kinds {
		f.engines = append(f.engines, newEngine(k))
		f.tokens = slices.Grow(f.tokens, k.o.Slots+1)[:max(len(f.tokens), k.o.Slots+1)]
	}
	if f.choose != nil {
		return f, nil
	}
	set, err := plannerSet()
	if err != nil {
		return nil, err
	}
	model := config.Model{ID: "m", Policy: policy}
	var specs []config.Upstream
	for i, k := range kinds {
		name := fmt.Sprintf("engine-%d-%d", draw, i)
		specs = append(specs, config.Upstream{
			Name: name, URL: fmt.Sprintf("http://127.0.0.1:%d", i+1), Engine: "openai", Weight: 1,
			Concurrency: config.Concurrency{Shared: k.o.Slots},
		})
		model.Deployments = append(model.Deployments, config.Deployment{Upstream: name, Served: "m"})
	}
	// The plan is never committed, so the edge does not probe these engines, which do not exist. If
	// no target of a route is up, the route uses all its pending targets.
	p, err := set.PlanChanges(specs, nil)
	if err != nil {
		return nil, err
	}
	table, err := routing.BuildTable(&config.File{Models: []config.Model{model}}, p, nil)
	if err != nil {
		return nil, err
	}
	f.route, _ = table.Lookup([]byte("m"))
	for i, spec := range specs {
		f.engineByUpstream[p.Upstream(spec.Name)[0]] = f.engines[i]
		p.Upstream(spec.Name)[0].Cache.SetCapacity(f.engines[i].k.o.KVTokens)
	}
	return f, nil
}

// playRequests plays requests until the last response ends. It divides all request times by speed.
func (f *fleet) playRequests(requests []request, speed float64) []*runningCall {
	calls := make([]*runningCall, len(requests))
	var timed []*runningCall
	for i := range requests {
		r := &requests[i]
		c := &runningCall{request: r, at: r.at / speed, firstTokenAt: -1, roomTokens: float64(r.in)}
		if calls[i] = c; r.after >= 0 {
			calls[r.after].next = append(calls[r.after].next, c)
		} else {
			timed = append(timed, c)
		}
	}
	slices.SortStableFunc(timed, func(a, b *runningCall) int { return cmp.Compare(a.at, b.at) })
	f.speed = speed
	for len(timed) > 0 || len(f.due) > 0 {
		if len(timed) > 0 && (len(f.due) == 0 || timed[0].at <= f.due[0].at) {
			c := timed[0]
			timed = timed[1:]
			f.routeArrival(c)
			continue
		}
		d := heap.Pop(&f.due).(engineEvent)
		switch {
		case d.c != nil && d.e == nil:
			f.routeArrival(d.c)
		case d.c != nil:
			d.e.advance(d.at, f.tokens)
			f.endPrefill(d.c, d.at)
		case d.version == d.e.version:
			d.e.advance(d.at, f.tokens)
			f.handleDueEvents(d.e)
		}
	}
	return calls
}

// routeArrival makes the edge route a call. If other calls are already waiting, the call is queued
// behind them.
func (f *fleet) routeArrival(c *runningCall) {
	if len(f.waiting) > 0 || !f.routeToEngine(c, c.at) {
		f.waiting = append(f.waiting, c)
	}
}

// routeToEngine routes a call to an engine. It returns false if all engines are full.
func (f *fleet) routeToEngine(c *runningCall, now float64) bool {
	c.sentAt = now
	if f.choose != nil {
		for _, e := range f.engines {
			e.advance(now, f.tokens)
		}
		c.e = f.choose(f, c)
	} else {
		q := routing.Query{Tokens: c.in, Prefix: c.prefix, Text: c.in * bytesPerToken, Now: f.timeAt(now), Rand: f.rng.Uint64()}
		lease, target, err := f.route.Acquire(&q)
		if err != nil {
			return false
		}
		c.lease, c.target, c.e = lease, target, f.engineByUpstream[target.Upstream]
		c.expected = c.in - lease.Prompt().Uncached
		c.e.advance(now, f.tokens)
	}
	c.e.calls++
	c.e.waiting = append(c.e.waiting, c)
	f.handleDueEvents(c.e)
	return true
}

func (f *fleet) timeAt(now float64) time.Time { return f.start.Add(secondsDuration(now)) }

func secondsDuration(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// endPrefill starts decoding once an engine has read a prompt. When the first token arrives, the
// edge learns the engine's speed.
func (f *fleet) endPrefill(c *runningCall, now float64) {
	again := c.firstTokenAt >= 0
	done := c.e.startDecoding(c)
	if !again && c.lease != nil {
		c.lease.RecordFirstToken(secondsDuration(now - c.sentAt))
	}
	if done {
		f.endCall(c, now)
	}
	f.handleDueEvents(c.e)
}

// endCall releases the edge's slot for a call, and lets the edge send waiting calls.
func (f *fleet) endCall(c *runningCall, now float64) {
	c.end = now
	for _, n := range c.next {
		n.at = now + n.think/f.speed
		f.scheduleEvent(engineEvent{at: n.at, c: n})
	}
	if c.lease != nil {
		c.target.RecordPromptTokens(c.lease, c.in, c.cached)
		c.lease.RecordResponse(c.out, secondsDuration(now-c.firstTokenAt), f.timeAt(now))
		c.lease.ReleaseAt(upstreams.OutcomeOK, f.timeAt(now))
	}
	for len(f.waiting) > 0 {
		head := f.waiting[0]
		f.waiting = f.waiting[1:]
		if !f.routeToEngine(head, now) {
			f.waiting = slices.Insert(f.waiting, 0, head)
			return
		}
	}
}

// handleDueEvents handles all changes that are due at an engine now, and schedules the engine's
// next change.
func (f *fleet) handleDueEvents(e *engine) {
	for c := e.removeFinished(); c != nil; c = e.removeFinished() {
		f.endCall(c, e.now)
	}
	e.evictNewest()
	e.startQueuedCalls(func(c *runningCall, due float64) { f.scheduleEvent(engineEvent{at: due, e: e, c: c}) })
	e.version++
	if in, ok := e.timeToNextChange(); ok {
		f.scheduleEvent(engineEvent{at: e.now + in, e: e, version: e.version})
	}
}

func (f *fleet) scheduleEvent(d engineEvent) {
	f.order++
	d.order = f.order
	heap.Push(&f.due, d)
}

// clientOutcome contains the values that the clients of a fleet would have measured.
type clientOutcome struct {
	p99       map[string]float64 // by measure, in ms
	cached    float64            // fraction of input tokens that were cached
	imbalance float64            // requests at the busiest engine divided by the mean
}

// summarizeCalls summarises the calls of a run.
func (f *fleet) summarizeCalls(calls []*runningCall) clientOutcome {
	var in, cached float64
	times := map[string][]float64{}
	for _, c := range calls {
		in, cached = in+float64(c.in), cached+float64(c.cached)
		times[result.TTFT] = append(times[result.TTFT], 1000*(c.firstTokenAt-c.at))
		times[result.E2EL] = append(times[result.E2EL], 1000*(c.end-c.at))
		if c.out > 1 {
			times[result.TPOT] = append(times[result.TPOT], 1000*(c.end-c.firstTokenAt)/float64(c.out-1))
		}
	}
	o := clientOutcome{p99: map[string]float64{}, cached: cached / in}
	for m, all := range times {
		slices.Sort(all)
		o.p99[m] = all[int(math.Ceil(0.99*float64(len(all))))-1]
	}
	o.p99[result.ITL] = 1000 * f.gapQuantile(0.99)
	sum, most := 0.0, 0.0
	for _, e := range f.engines {
		sum, most = sum+e.busy, max(most, e.busy)
	}
	o.imbalance = most / (sum / float64(len(f.engines)))
	return o
}

// gapQuantile returns a quantile of the times between tokens, in seconds. Engine jitter distributes
// each of these times uniformly around its mean.
func (f *fleet) gapQuantile(q float64) float64 {
	k := f.engines[0].k
	all := 0.0
	for _, w := range f.tokens {
		all += w
	}
	low, high := 0.0, k.tokenGapSeconds(len(f.tokens))*(1+k.o.Jitter)
	for range 40 {
		mid, below := (low+high)/2, 0.0
		for n, w := range f.tokens {
			if w > 0 {
				gap, wide := k.tokenGapSeconds(n), k.tokenGapSeconds(n)*k.o.Jitter
				switch {
				case mid >= gap+wide:
					below += w
				case mid > gap-wide:
					below += w * (mid - gap + wide) / (2 * wide)
				}
			}
		}
		if below < q*all {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}
