package bench

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"penstock/translate/jsonx"
)

var jsonOptions = jsonx.Options{Record: 4}

// run is one run of the load tester.
type run struct {
	s       *settings
	clock   *clock
	targets []*target
	work    *workload
	series  *series
	meter   *cpuMeter
	facts   targetInfo
	// happened are the events, once the load is over.
	happened []Event

	live  counters
	heads sync.Map // headKey to []byte

	mu      sync.Mutex
	samples []sample
	cells   map[cellKey]*gapCell
	strings map[string]string
	spans   []span
	ttfts   histogram // for departures in the middle of a prefill
}

// targetInfo is what the preflight learned of the target.
type targetInfo struct {
	engines   [2]string // of the targets
	usage     bool      // streams carry usage
	tokenizer string    // path of a page that counts tokens; empty: none
}

// counters are what the progress display shows.
type counters struct {
	inFlight, peak, sent, completed, failed, left, waiting atomic.Int64
	stage                                                  atomic.Pointer[string]
}

// span is a stage as it was run.
type span struct {
	spec       stageSpec
	name       string
	start, end int64 // measured part: from its start to the last answer of it
	sendEnd    int64 // end of sending in the measured part
	scheduled  int   // arrivals at the first target that an open loop's schedule holds in the measured part
	cpu        cpuSpan
	cooled     int
}

// cellKey is the finest group that gaps are counted for; coarser ones are sums.
type cellKey struct {
	stage    int
	dialect  *dialect
	upstream string
	target   uint8
}

// gapCell counts gaps of one group.
type gapCell struct {
	mu sync.Mutex
	h  histogram
}

func (c *gapCell) record(gap int64) {
	c.mu.Lock()
	c.h.record(gap)
	c.mu.Unlock()
}

func (r *run) cellOf(s *sample) *gapCell {
	key := cellKey{s.stage, s.dialect, s.upstream, s.target}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.cells[key]
	if c == nil {
		c = new(gapCell)
		r.cells[key] = c
	}
	if s.stage >= 0 {
		r.ttfts.record(s.firstToken - s.sent)
	}
	return c
}

// intern returns b as a string that equal ones share.
func (r *run) intern(b []byte) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.strings[string(b)]
	if !ok {
		v = word(b)
		r.strings[string(b)] = v
	}
	return v
}

// leaveAfter is the time after which a client leaves; 0 when it is not time that decides.
func (r *run) leaveAfter(d *departure) time.Duration {
	if d.after > 0 || d.tokens > 0 {
		return d.after
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ttfts.n == 0 {
		return 10 * time.Millisecond
	}
	return max(time.Duration(r.ttfts.mean/2*float64(time.Millisecond)), 100*time.Microsecond)
}

// keepText reports whether the text of the reply will be needed.
func (r *run) keepText(q *request) bool {
	return q.session != nil && q.turn+1 < q.session.turns || r.facts.tokenizer != "" && !r.facts.usage
}

// headKey tells request heads apart that differ.
type headKey struct {
	target int
	d      *dialect
}

// appendHead appends the head of a request with a body of n bytes.
func (r *run) appendHead(dst []byte, q *request, n int) []byte {
	key := headKey{q.target, q.d}
	head, ok := r.heads.Load(key)
	if !ok {
		t := r.targets[q.target]
		path := "/v1" + q.d.path
		mime := orText(q.d.mime, "application/json")
		head = fmt.Appendf(nil, "POST %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: penstock-bench\r\nContent-Type: %s\r\n%sContent-Length: ", t.path, path, t.host, mime, t.headers)
		r.heads.Store(key, head)
	}
	dst = append(dst, head.([]byte)...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, "\r\n\r\n"...)
}

// wires are bodies of requests that wait to be sent.
var wires = sync.Pool{New: func() any { return new([]byte) }}

// pendingRequest is a request with its body and its place in the run.
type pendingRequest struct {
	q     *request
	wire  *[]byte
	stage int
}

func newPendingRequest(q *request, stage int) pendingRequest {
	wire := wires.Get().(*[]byte)
	*wire = q.d.body((*wire)[:0], q)
	return pendingRequest{q, wire, stage}
}

// perform sends the requests of a session, the first of which is due at scheduled. Where slots is not nil, each takes a slot
// and gives it back; waiting for one counts from the schedule on.
func (r *run) perform(ctx context.Context, j pendingRequest, scheduled int64, slots chan struct{}) {
	for {
		if slots != nil {
			r.live.waiting.Add(1)
			select {
			case slots <- struct{}{}:
				r.live.waiting.Add(-1)
			case <-ctx.Done():
				r.live.waiting.Add(-1)
				return
			}
		}
		s := newSample(j.q, j.stage)
		s.scheduled = scheduled
		r.live.sent.Add(1)
		raise(&r.live.peak, r.live.inFlight.Add(1))
		p, done := r.exchange(ctx, j.q, *j.wire, &s)
		r.live.inFlight.Add(-1)
		wires.Put(j.wire)
		var next *request
		if s.completed() && p != nil {
			next = r.work.follow(j.q, p)
		}
		done()
		if slots != nil {
			<-slots
		}
		r.add(s)
		if next == nil || !sleep(ctx, r.s.TurnDelay) {
			return
		}
		scheduled = r.clock.now()
		j = newPendingRequest(next, j.stage)
	}
}

// raise sets a to v if that is higher.
func raise(a *atomic.Int64, v int64) {
	for {
		old := a.Load()
		if v <= old || a.CompareAndSwap(old, v) {
			return
		}
	}
}

// sleep waits and reports false when ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *run) add(s sample) {
	switch {
	case s.left:
		r.live.left.Add(1)
	case s.failed():
		r.live.failed.Add(1)
	case s.completed():
		r.live.completed.Add(1)
	}
	r.mu.Lock()
	r.samples = append(r.samples, s)
	r.mu.Unlock()
}

// warm is the stage of what is not measured.
const warm = -1

// stage runs one stage to its last answer and notes its span.
func (r *run) stage(ctx context.Context, spec stageSpec) {
	index := len(r.spans)
	sp := span{spec: spec, name: spec.name()}
	r.live.stage.Store(&sp.name)
	sp.start = r.clock.now() + int64(r.s.Warmup)
	sp.cpu.begin()
	if spec.rate > 0 {
		r.open(ctx, spec, index, &sp)
	} else {
		r.closed(ctx, spec, index, &sp)
	}
	sp.cpu.finish()
	r.mu.Lock()
	sp.end = sp.start
	for i := range r.samples {
		switch s := &r.samples[i]; {
		case s.stage == index:
			sp.end = max(sp.end, s.end)
		case s.stage == warm && s.scheduled >= sp.start:
			sp.cooled++
		}
	}
	r.spans = append(r.spans, sp)
	r.mu.Unlock()
}

// name is how the stage is called.
func (s stageSpec) name() string {
	text := ""
	switch {
	case s.ramp:
		text = "ramp"
	case s.rate > 0:
		text = "rate " + strconv.FormatFloat(s.rate, 'g', 4, 64)
	}
	if s.concurrency > 0 {
		if text != "" {
			text += ", "
		}
		text += "concurrency " + strconv.Itoa(s.concurrency)
	}
	return text
}

// measured returns the stage that a request belongs to which is due at, counted from the stage's begin.
func (r *run) measured(spec stageSpec, at time.Duration, index int) int {
	if at < r.s.Warmup || spec.duration > 0 && at >= r.s.Warmup+spec.duration {
		return warm
	}
	return index
}

// length is the time for which a stage sends; without an end it is the longest that there is.
func (r *run) length(spec stageSpec) time.Duration {
	if spec.duration == 0 {
		return math.MaxInt64
	}
	return r.s.Warmup + spec.duration + r.s.Cooldown
}

// open runs an open loop: requests are sent when the pacer says so, whatever became of those before.
func (r *run) open(ctx context.Context, spec stageSpec, index int, sp *span) {
	var slots chan struct{}
	if spec.concurrency > 0 {
		slots = make(chan struct{}, spec.concurrency)
	}
	p := r.pacer(spec, index)
	begin := r.clock.now()
	sp.start = begin + int64(r.s.Warmup)
	var all sync.WaitGroup
	for at, ok := p.Next(); ok && at < r.length(spec); at, ok = p.Next() {
		stage := r.measured(spec, at, index)
		j := newPendingRequest(r.work.take(), stage) // before its time, so that making it delays nothing
		if !sleep(ctx, time.Duration(begin+int64(at)-r.clock.now())) {
			break
		}
		if stage == index {
			sp.sendEnd = begin + int64(at)
			if j.q.target == 0 {
				sp.scheduled++
			}
		}
		all.Go(func() { r.perform(ctx, j, begin+int64(at), slots) })
	}
	if spec.duration > 0 && ctx.Err() == nil {
		sp.sendEnd = sp.start + int64(spec.duration)
		if r.work.data == nil || r.work.s.DatasetName != "trace" {
			sleep(ctx, time.Duration(begin+int64(r.length(spec))-r.clock.now()))
		}
	}
	all.Wait()
}

// pacer makes the pacer of a stage.
func (r *run) pacer(spec stageSpec, index int) pacer {
	seed := r.s.Seed<<8 + uint64(index)
	switch {
	case r.s.DatasetName == "trace":
		var times []time.Duration
		for i, e := range r.work.data.entries {
			if spec.count > 0 && i == spec.count {
				break
			}
			times = append(times, time.Duration(float64(e.at)*r.s.TimeScale))
		}
		return &tracePacer{times}
	case spec.ramp:
		over := spec.duration.Seconds()
		left := -1
		if spec.count > 0 {
			left = spec.count
			if over == 0 {
				over = 2 * float64(spec.count) / (r.s.rampFrom + r.s.rampTo)
			}
		}
		return &rampPacer{rng: r.work.rng(-1 - index), shape: r.s.Burstiness, from: r.s.rampFrom, to: r.s.rampTo, over: over, left: left}
	}
	return newGammaPacer(seed, spec.rate, r.s.Burstiness, spec.count)
}

// closed runs a closed loop: each of a number of clients sends its next request when it has the answer to the last.
func (r *run) closed(ctx context.Context, spec stageSpec, index int, sp *span) {
	begin := r.clock.now()
	sp.start = begin + int64(r.s.Warmup)
	end := begin + int64(r.length(spec))
	if spec.duration == 0 {
		end = math.MaxInt64
	}
	var left atomic.Int64
	left.Store(int64(spec.count))
	var all sync.WaitGroup
	for i := range spec.concurrency {
		delay := r.s.Spread * time.Duration(i) / time.Duration(spec.concurrency)
		all.Go(func() {
			if !sleep(ctx, delay) {
				return
			}
			for ctx.Err() == nil && r.clock.now() < end {
				now := r.clock.now()
				stage := r.measured(spec, time.Duration(now-begin), index)
				if spec.count > 0 && stage == index && left.Add(-1) < 0 {
					return
				}
				j := newPendingRequest(r.work.take(), stage)
				r.perform(ctx, j, r.clock.now(), nil)
			}
		})
	}
	all.Wait()
	sp.sendEnd = min(r.clock.now(), sp.start+int64(spec.duration))
	if spec.duration == 0 {
		sp.sendEnd = r.clock.now()
	}
}
