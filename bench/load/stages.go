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

type stageDriver struct {
	s      *settings
	send   *client.Sender
	work   *workload.Workload
	rec    *recorder
	live   *progressCounters
	stages []completedStage
}

// completedStage records a stage that has run.
type completedStage struct {
	spec       stageSpec
	name       string
	start, end int64 // bounds of the measured part, which ends with its last response
	sendEnd    int64 // end of sending in the measured part
	// number of arrivals that an open loop scheduled for the first target in the measured part
	scheduled int
	cpu       cpuSpan
}

func (sp *completedStage) seconds() float64 { return float64(sp.end-sp.start) / 1e9 }

var bodyBuffers = sync.Pool{New: func() any { return new([]byte) }}

// pendingRequest is a request together with its encoded body and its stage.
type pendingRequest struct {
	q     *client.Request
	body  *[]byte
	stage int
}

func newPendingRequest(q *client.Request, stage int) pendingRequest {
	wire := bodyBuffers.Get().(*[]byte)
	*wire = q.D.Body((*wire)[:0], q)
	return pendingRequest{q, wire, stage}
}

// runSession sends the requests of a session. The first one is due at scheduled. If slots is not
// nil, each request must first acquire a slot, and latencies from the schedule include that wait.
// runSession returns the Retry-After of the last response.
func (d *stageDriver) runSession(ctx context.Context, j pendingRequest, scheduled int64, slots chan struct{}) time.Duration {
	for {
		if slots != nil {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return 0
			}
		}
		if l := j.q.Leave; l != nil && l.After == 0 && l.Tokens == 0 {
			l.After = d.rec.halfPrefillTime()
		}
		s := client.NewSample(j.q, j.stage, scheduled)
		d.live.begin()
		p, done := d.send.Exchange(ctx, j.q, *j.body, &s)
		var next *client.Request
		if s.Completed() && p != nil {
			estimateTokens(j.q, p, &s)
			next = d.work.NextTurn(j.q, p)
		}
		d.live.end(&s)
		bodyBuffers.Put(j.body)
		done()
		if slots != nil {
			<-slots
		}
		d.rec.addSample(s)
		if next == nil || !sleepUnlessDone(ctx, d.s.TurnDelay) {
			return s.Retry
		}
		scheduled = d.send.Clock.Now()
		j = newPendingRequest(next, j.stage)
	}
}

// sleepUnlessDone waits for d, and returns false if ctx ends first.
func sleepUnlessDone(ctx context.Context, d time.Duration) bool {
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

// warmupStage is the stage number of requests that are not measured.
const warmupStage = -1

// runStage runs one stage until the last response has arrived, and records when it started and
// ended.
func (d *stageDriver) runStage(ctx context.Context, spec stageSpec) {
	index := len(d.stages)
	sp := completedStage{spec: spec, name: spec.name()}
	d.live.stage.Store(&sp.name)
	begin := d.send.Clock.Now()
	sp.start = begin + int64(d.s.Warmup)
	sp.cpu.begin()
	if spec.rate > 0 {
		d.runOpenLoop(ctx, begin, index, &sp)
	} else {
		d.runClosedLoop(ctx, begin, index, &sp)
	}
	sp.cpu.finish()
	sp.end = sp.start
	for i := range d.rec.samples {
		if s := &d.rec.samples[i]; s.Stage == index {
			sp.end = max(sp.end, s.At.End)
		}
	}
	d.stages = append(d.stages, sp)
}

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

// measuredStage returns the stage to which a request belongs. at is when the request is due,
// counted from the start of the stage.
func (d *stageDriver) measuredStage(spec stageSpec, at time.Duration, index int) int {
	if at < d.s.Warmup || spec.duration > 0 && at >= d.s.Warmup+spec.duration {
		return warmupStage
	}
	return index
}

// sendDuration returns how long a stage sends requests, or the maximum duration if the stage has no
// time limit.
func (d *stageDriver) sendDuration(spec stageSpec) time.Duration {
	if spec.duration == 0 {
		return math.MaxInt64
	}
	return d.s.Warmup + spec.duration
}

// openLoop is the state shared by the requests of an open loop.
type openLoop struct {
	spec  stageSpec
	index int
	begin int64
	slots chan struct{} // nil means no limit
	all   sync.WaitGroup

	mu sync.Mutex
	sp *completedStage
}

// countScheduled counts a scheduled request.
func (o *openLoop) countScheduled(j *pendingRequest, at int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if j.stage == o.index {
		o.sp.sendEnd = max(o.sp.sendEnd, at)
		if j.q.Target == 0 {
			o.sp.scheduled++
		}
	}
}

// playedTraceLines returns how many lines of the trace are played.
func (o *openLoop) playedTraceLines() int {
	if o.spec.count > 0 {
		return o.spec.count
	}
	return math.MaxInt
}

// runOpenLoop runs an open loop. It sends each request when the pacer says, even if earlier
// requests have not completed.
func (d *stageDriver) runOpenLoop(ctx context.Context, begin int64, index int, sp *completedStage) {
	spec, now := sp.spec, d.send.Clock.Now
	o := &openLoop{spec: spec, index: index, begin: begin, sp: sp}
	if spec.concurrency > 0 {
		o.slots = make(chan struct{}, spec.concurrency)
	}
	p := d.newPacer(spec, index)
	for at, ok := p.Next(); ok && at < d.sendDuration(spec); at, ok = p.Next() {
		stage := d.measuredStage(spec, at, index)
		// created before it is due, so that creating it causes no delay
		j := newPendingRequest(d.work.NextSession(), stage)
		due := begin + int64(at)
		if !sleepUnlessDone(ctx, time.Duration(due-now())) {
			break
		}
		o.countScheduled(&j, due)
		o.all.Go(func() { d.runTraceSession(ctx, j, due, o) })
	}
	if d.s.DatasetName == "trace" {
		o.all.Wait() // also waits for calls that follow other calls
	}
	if spec.duration > 0 && ctx.Err() == nil {
		sp.sendEnd = sp.start + int64(spec.duration)
		if d.s.DatasetName != "trace" {
			sleepUnlessDone(ctx, time.Duration(begin+int64(d.sendDuration(spec))-now()))
		}
	}
	o.all.Wait()
}

// runTraceSession sends a request. In a trace, it also sends the calls that follow the request,
// each after its think time.
func (d *stageDriver) runTraceSession(ctx context.Context, j pendingRequest, due int64, o *openLoop) {
	d.runSession(ctx, j, due, o.slots)
	for _, next := range d.work.FollowingCalls(j.q) {
		at := d.send.Clock.Now() + int64(next.Think)
		if at-o.begin >= int64(d.sendDuration(o.spec)) || next.Request.ID >= o.playedTraceLines() {
			continue
		}
		o.all.Go(func() {
			follow := newPendingRequest(next.Request, d.measuredStage(o.spec, time.Duration(at-o.begin), o.index))
			if sleepUnlessDone(ctx, time.Duration(at-d.send.Clock.Now())) {
				o.countScheduled(&follow, at)
				d.runTraceSession(ctx, follow, at, o)
			}
		})
	}
}

// arrivalGammaShape returns the shape of the gamma distribution for arrivals. Shape 1 is Poisson.
func (s *settings) arrivalGammaShape() float64 {
	if s.Constant {
		return math.Inf(1)
	}
	return 1
}

func (d *stageDriver) newPacer(spec stageSpec, index int) workload.Pacer {
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
		return &workload.RampPacer{
			Rng: d.work.SessionRand(-1 - index), Shape: d.s.arrivalGammaShape(), From: d.s.rampFrom, To: d.s.rampTo,
			Over: over, Left: left,
		}
	}
	return workload.NewGammaPacer(d.s.Seed<<8+uint64(index), spec.rate, d.s.arrivalGammaShape(), spec.count)
}

// runClosedLoop runs a closed loop, in which each client sends its next request after the response
// to the previous one.
func (d *stageDriver) runClosedLoop(ctx context.Context, begin int64, index int, sp *completedStage) {
	spec, now := sp.spec, d.send.Clock.Now
	end := int64(math.MaxInt64)
	if spec.duration > 0 {
		end = begin + int64(d.sendDuration(spec))
	}
	var left atomic.Int64
	left.Store(int64(spec.count))
	var all sync.WaitGroup
	for i := range spec.concurrency {
		delay := d.s.Spread * time.Duration(i) / time.Duration(spec.concurrency)
		all.Go(func() {
			if !sleepUnlessDone(ctx, delay) {
				return
			}
			for ctx.Err() == nil && now() < end {
				stage := d.measuredStage(spec, time.Duration(now()-begin), index)
				if spec.count > 0 && stage == index && left.Add(-1) < 0 {
					return
				}
				j := newPendingRequest(d.work.NextSession(), stage)
				if wait := d.runSession(ctx, j, now(), nil); wait > 0 {
					wait = min(wait, time.Duration(end-now()))
					d.rec.retryWaitNanos.Add(int64(max(0, wait)))
					sleepUnlessDone(ctx, wait)
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
