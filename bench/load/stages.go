package load

import (
	"context"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"penstock/bench/load/client"
	"penstock/bench/load/workload"
)

// driver sends the load, one stage after another.
type driver struct {
	s     *settings
	send  *client.Sender
	work  *workload.Workload
	rec   *recorder
	live  *counters
	spans []span
}

// span describes a stage that was run.
type span struct {
	spec       stageSpec
	name       string
	start, end int64 // measured part: from its start to its last answer
	sendEnd    int64 // end of sending within the measured part
	scheduled  int   // arrivals of an open loop's schedule at the first target, in the measured part
	cpu        cpuSpan
}

// seconds returns the wall time of the measured part.
func (sp *span) seconds() float64 { return float64(sp.end-sp.start) / 1e9 }

// wires are the bodies of requests that wait to be sent.
var wires = sync.Pool{New: func() any { return new([]byte) }}

// pendingRequest is a request with its body and its stage.
type pendingRequest struct {
	q     *client.Request
	wire  *[]byte
	stage int
}

func newPendingRequest(q *client.Request, stage int) pendingRequest {
	wire := wires.Get().(*[]byte)
	*wire = q.D.Body((*wire)[:0], q)
	return pendingRequest{q, wire, stage}
}

// perform sends the requests of a session. The first request is due at scheduled. If slots is not
// nil, each request takes a slot and returns it. Latencies from the schedule include the wait for a
// slot. perform returns the last answer's Retry-After.
func (d *driver) perform(ctx context.Context, j pendingRequest, scheduled int64, slots chan struct{}) time.Duration {
	for {
		if slots != nil {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return 0
			}
		}
		if l := j.q.Leave; l != nil && l.After == 0 && l.Tokens == 0 {
			l.After = d.rec.halfPrefill()
		}
		s := client.NewSample(j.q, j.stage, scheduled)
		d.live.begin()
		p, done := d.send.Exchange(ctx, j.q, *j.wire, &s)
		var next *client.Request
		if s.Completed() && p != nil {
			estimateTokens(j.q, p, &s)
			next = d.work.Follow(j.q, p)
		}
		d.live.end(&s)
		wires.Put(j.wire)
		done()
		if slots != nil {
			<-slots
		}
		d.rec.add(s)
		if next == nil || !sleep(ctx, d.s.TurnDelay) {
			return s.Retry
		}
		scheduled = d.send.Clock.Now()
		j = newPendingRequest(next, j.stage)
	}
}

// sleep waits, and reports false if ctx ended first.
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

// warm is the warm-up stage, whose requests are not measured.
const warm = -1

// stage runs one stage to its last answer and records its span.
func (d *driver) stage(ctx context.Context, spec stageSpec) {
	index := len(d.spans)
	sp := span{spec: spec, name: spec.name()}
	d.live.stage.Store(&sp.name)
	begin := d.send.Clock.Now()
	sp.start = begin + int64(d.s.Warmup)
	sp.cpu.begin()
	if spec.rate > 0 {
		d.open(ctx, begin, index, &sp)
	} else {
		d.closed(ctx, begin, index, &sp)
	}
	sp.cpu.finish()
	sp.end = sp.start
	for i := range d.rec.samples {
		if s := &d.rec.samples[i]; s.Stage == index {
			sp.end = max(sp.end, s.At.End)
		}
	}
	d.spans = append(d.spans, sp)
}

// name returns the name of the stage.
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

// measured returns the stage in which a request counts. at is the request's due time, counted from
// the start of the stage.
func (d *driver) measured(spec stageSpec, at time.Duration, index int) int {
	if at < d.s.Warmup || spec.duration > 0 && at >= d.s.Warmup+spec.duration {
		return warm
	}
	return index
}

// length returns the time for which a stage sends, or the longest duration if the stage has no end.
func (d *driver) length(spec stageSpec) time.Duration {
	if spec.duration == 0 {
		return math.MaxInt64
	}
	return d.s.Warmup + spec.duration
}

// openLoop is the state that the requests of an open loop share.
type openLoop struct {
	spec  stageSpec
	index int
	begin int64
	slots chan struct{} // nil: no limit
	all   sync.WaitGroup

	mu sync.Mutex
	sp *span
}

// due counts a request of the schedule.
func (o *openLoop) due(j *pendingRequest, at int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if j.stage == o.index {
		o.sp.sendEnd = max(o.sp.sendEnd, at)
		if j.q.Target == 0 {
			o.sp.scheduled++
		}
	}
}

// count returns the number of lines of a trace to play.
func (o *openLoop) count() int {
	if o.spec.count > 0 {
		return o.spec.count
	}
	return math.MaxInt
}

// open runs an open loop: requests are sent at the pacer's times, whatever happens to earlier
// requests.
func (d *driver) open(ctx context.Context, begin int64, index int, sp *span) {
	spec, now := sp.spec, d.send.Clock.Now
	o := &openLoop{spec: spec, index: index, begin: begin, sp: sp}
	if spec.concurrency > 0 {
		o.slots = make(chan struct{}, spec.concurrency)
	}
	p := d.pacer(spec, index)
	for at, ok := p.Next(); ok && at < d.length(spec); at, ok = p.Next() {
		stage := d.measured(spec, at, index)
		j := newPendingRequest(d.work.Take(), stage) // created before it is due, so that its creation delays nothing
		due := begin + int64(at)
		if !sleep(ctx, time.Duration(due-now())) {
			break
		}
		o.due(&j, due)
		o.all.Go(func() { d.session(ctx, j, due, o) })
	}
	if d.s.DatasetName == "trace" {
		o.all.Wait() // calls that follow other calls come later
	}
	if spec.duration > 0 && ctx.Err() == nil {
		sp.sendEnd = sp.start + int64(spec.duration)
		if d.s.DatasetName != "trace" {
			sleep(ctx, time.Duration(begin+int64(d.length(spec))-now()))
		}
	}
	o.all.Wait()
}

// session sends a request and, in a trace, the calls that follow it, each after its client's think
// time.
func (d *driver) session(ctx context.Context, j pendingRequest, due int64, o *openLoop) {
	d.perform(ctx, j, due, o.slots)
	for _, next := range d.work.Followers(j.q) {
		at := d.send.Clock.Now() + int64(next.Think)
		if at-o.begin >= int64(d.length(o.spec)) || next.Request.ID >= o.count() {
			continue
		}
		o.all.Go(func() {
			follow := newPendingRequest(next.Request, d.measured(o.spec, time.Duration(at-o.begin), o.index))
			if sleep(ctx, time.Duration(at-d.send.Clock.Now())) {
				o.due(&follow, at)
				d.session(ctx, follow, at, o)
			}
		})
	}
}

// shape returns the shape of the gamma distribution of arrivals: 1 is Poisson.
func (s *settings) shape() float64 {
	if s.Constant {
		return math.Inf(1)
	}
	return 1
}

// pacer returns the pacer of a stage.
func (d *driver) pacer(spec stageSpec, index int) workload.Pacer {
	switch {
	case d.s.DatasetName == "trace":
		return d.work.TracePacer(spec.count)
	case spec.ramp:
		over, left := spec.duration.Seconds(), -1
		if spec.count > 0 {
			left = spec.count
			if over == 0 {
				over = 2 * float64(spec.count) / (d.s.rampFrom + d.s.rampTo)
			}
		}
		return &workload.Ramp{
			Rng: d.work.Rng(-1 - index), Shape: d.s.shape(), From: d.s.rampFrom, To: d.s.rampTo,
			Over: over, Left: left,
		}
	}
	return workload.NewGamma(d.s.Seed<<8+uint64(index), spec.rate, d.s.shape(), spec.count)
}

// closed runs a closed loop: each client sends its next request when the answer to the last one is
// complete.
func (d *driver) closed(ctx context.Context, begin int64, index int, sp *span) {
	spec, now := sp.spec, d.send.Clock.Now
	end := int64(math.MaxInt64)
	if spec.duration > 0 {
		end = begin + int64(d.length(spec))
	}
	var left atomic.Int64
	left.Store(int64(spec.count))
	var all sync.WaitGroup
	for i := range spec.concurrency {
		delay := d.s.Spread * time.Duration(i) / time.Duration(spec.concurrency)
		all.Go(func() {
			if !sleep(ctx, delay) {
				return
			}
			for ctx.Err() == nil && now() < end {
				stage := d.measured(spec, time.Duration(now()-begin), index)
				if spec.count > 0 && stage == index && left.Add(-1) < 0 {
					return
				}
				j := newPendingRequest(d.work.Take(), stage)
				if wait := d.perform(ctx, j, now(), nil); wait > 0 {
					wait = min(wait, time.Duration(end-now()))
					d.rec.waited.Add(int64(max(0, wait)))
					sleep(ctx, wait)
				}
			}
		})
	}
	all.Wait()
	sp.sendEnd = now()
	if spec.duration > 0 {
		sp.sendEnd = min(sp.sendEnd, sp.start+int64(spec.duration))
	}
}
