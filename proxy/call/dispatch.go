package call

import (
	"errors"
	"time"

	"penstock/proxy/attempt"
	"penstock/proxy/endpoint"
	"penstock/proxy/failure"
	"penstock/routing"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// dispatcher sends a call to engines until there is something to commit.
type dispatcher struct{ *Call }

// run sends the call to an engine, and to another one when the first fails in a way that allows it.
// It returns nil when the answer has been handed to fasthttp: whole, or as a relay that goes on from
// here. Otherwise the call ends with the failure.
func (d dispatcher) run() *failure.Failure {
	if d.poison.blocked(d.record.Start) {
		return failure.Poisoned()
	}
	var first *failure.Failure
	failingOver := false
	for now := d.times.asked; ; now = time.Now() {
		queued := d.record.Queue
		lease, target, err := picker{d.Call}.acquire(now)
		if err != nil {
			return d.noTarget(err, first, now)
		}
		if failingOver {
			d.shared.Counters.Moved.Inc()
		}
		d.beginTry(lease, now.Add(d.record.Queue-queued))
		f := d.try(lease, target)
		if f == nil {
			d.clearPoison()
			return nil
		}
		d.giveUp(f, now)
		if first == nil {
			first = f
		}
		if cause := d.abort.Cause(); cause != nil {
			return failure.FromAbort(cause)
		}
		failingOver = d.mayFailOver(f)
		if !failingOver && !d.mayRetry(f) && !(fitter{d.Call}).roomElsewhere(f) {
			return f
		}
		d.times.addAwaited(time.Now())
		d.tries.exclude(lease.Upstream())
	}
}

// noTarget is the end of a call for which no target was found. first is its first failure, or nil.
func (d dispatcher) noTarget(err error, first *failure.Failure, now time.Time) *failure.Failure {
	if cause := d.abort.Cause(); cause != nil {
		return failure.FromAbort(cause)
	}
	var full *routing.FullError
	if first != nil && !(d.tries.moves > 0 && errors.As(err, &full)) {
		return first // a retry that finds no room is not news to the client
	}
	m := d.config.model
	return failure.FromAcquire(err, failure.FullRetryAfter(m, d.tries.pool), m.Route.NextChance(now))
}

// beginTry notes the upstream of the attempt that begins.
func (d dispatcher) beginTry(lease *upstreams.Lease, now time.Time) {
	u := lease.Upstream()
	d.tries.begin(u)
	d.record.Upstream = u.Name()
	d.public.target.Store(u)
	d.times.ask(now)
}

// giveUp ends an attempt that has failed.
func (d dispatcher) giveUp(f *failure.Failure, now time.Time) {
	d.poison.recordLoss(f, d.attempt.Begun(), d.tries.upstream, now)
	d.attempt.Blame(f)
	d.endAttempt(f.Outcome)
}

// mayRetry reports whether another engine is asked: the failure allows it, and the budget of all
// calls.
func (d dispatcher) mayRetry(f *failure.Failure) bool {
	retry := &d.config.snapshot.Config.Retry
	return !d.request.Form().Spent() && d.tries.allowsRetry(f, d.attempt.Sends(), retry.Attempts) && d.shared.takeRetry(retry.Budget)
}

// mayFailOver reports whether the call leaves an engine whose host has vanished.
func (d dispatcher) mayFailOver(f *failure.Failure) bool {
	return !d.request.Form().Spent() && d.tries.failOver(f, d.config.snapshot.Config.Retry.Attempts)
}

// try makes one attempt, and another one under the same lease where the engine says how much less
// to ask it for, or may answer otherwise in a moment. It returns nil when the answer was handed
// over.
func (d dispatcher) try(lease *upstreams.Lease, target *routing.Target) *failure.Failure {
	fit := fitter{d.Call}
	fit.lower(target)
	f := d.tryOnce(lease, target, lease.Exchange())
	repeats := f != nil && d.mayRepeat(f)
	if f == nil || !repeats && !fit.again(f) {
		return f
	}
	if repeats && !d.pause(notNowPause) {
		return f // aborted
	}
	now := time.Now()
	d.attempt.Close(f.Outcome, now)
	d.times.askAgain(now)
	if f = d.tryOnce(lease, target, lease.Again()); f != nil {
		fit.again(f) // it is not asked a third time: this only says what there would have been room for
	}
	return f
}

// notNowPause is how long an engine is given that cannot answer just now.
const notNowPause = 300 * time.Millisecond

// mayRepeat reports whether the same engine is to be asked once more, as it may answer otherwise in
// a moment. Where the failure allows another engine, and there is one, that is asked instead.
func (d dispatcher) mayRepeat(f *failure.Failure) bool {
	retry := &d.config.snapshot.Config.Retry
	if !f.NotNow || d.ep.Form || d.tries.sentOften(d.attempt.Sends(), retry.Attempts) {
		return false
	}
	if f.Retry && (picker{d.Call}).otherTarget() {
		return false
	}
	return d.shared.takeRetry(retry.Budget)
}

// pause waits, and reports whether the call is still wanted after it.
func (d dispatcher) pause(t time.Duration) bool {
	left, ok := d.abort.Wait()
	if !ok {
		return false
	}
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-left:
		return false
	}
}

// tryOnce makes one exchange under a lease. It returns nil when the answer was handed over.
func (d dispatcher) tryOnce(lease *upstreams.Lease, target *routing.Target, x *http1.Exchange) *failure.Failure {
	if err := d.open(lease, target, x); err != nil {
		return d.attempt.FailureOf(err)
	}
	if !d.record.Stream {
		return newUnary(d.Call).try()
	}
	return d.tryStream()
}

// open begins an attempt and sends the request.
func (d dispatcher) open(lease *upstreams.Lease, target *routing.Target, x *http1.Exchange) error {
	a, m, up := &d.attempt, d.config.model, lease.Upstream()
	terms := attempt.Terms{
		Request: d.request, Model: m, PromptTokens: d.tokens.prompt,
		Start: d.record.Start, Asked: d.times.asked, RequestID: d.client.requestID,
		Key: d.record.Key, Body: &d.poison, Span: d.trace.span, Number: d.tries.targets,
		Memory: &d.memory, Abort: &d.abort, Guard: d.shared.Guard,
	}
	if d.trace.span == nil {
		terms.Traceparent = d.trace.context(&d.client)
	}
	a.Begin(&terms, lease, target, x)
	asks := d.request.AsksStream(up.Engine())
	to := endpoint.Target{Upstream: up, Model: m, Served: target.Served, Stream: asks, Formats: &d.shared.formats}
	if d.ep.CachesPrompts {
		to.Salt = d.shared.salt(cacheOwner(d.rates.key, m), m, up)
	}
	sending, err := d.request.Fill(to)
	if errors.Is(err, endpoint.ErrNoPath) {
		f := failure.NoEndpoint(0)
		f.Outcome = upstreams.OutcomeClientGone // it was not asked
		return f
	}
	if err == nil {
		err = a.Send(sending, asks, a.Sends() > d.tries.refits)
	}
	if err == nil {
		d.record.Stream = d.request.Streams() // the last field of a form may have asked for events
	}
	return err
}

// answerOf is what the codec of an answer needs to know.
func (c *Call) answerOf() endpoint.Answer {
	return endpoint.Answer{
		Model: c.config.model.Config, RequestID: c.client.requestID, Created: c.record.Start,
		PromptTokens: c.tokens.prompt, Streamed: c.attempt.AsksStream(),
	}
}

// tryStream waits for the first event, or for as long as the client may be kept without a status
// line.
func (d dispatcher) tryStream() *failure.Failure {
	a := &d.attempt
	stream := d.request.Stream(d.answerOf())
	var commit time.Time
	if after := d.config.snapshot.Config.Stream.CommitAfter.D(); after > 0 && stream.InBand() {
		commit = a.Progress().SentAt.Add(after)
	}
	if err := a.AwaitHead(commit); err == nil {
		a.Rest(commit)
	} else if !errors.Is(err, http1.ErrNotYet) {
		return a.FailureOf(err)
	}
	out := attempt.NewBuffer()
	first, done, err := a.Pull((*out)[:chunkRoom], commit, stream)
	*out = first
	switch {
	case err == nil:
	case errors.Is(err, http1.ErrNotYet):
		*out = stream.Keepalive(first)
	default:
		attempt.Recycle(out)
		d.memory.Free(attempt.PartOut)
		return a.FailureOf(err)
	}
	d.commitStream(stream, out, done)
	return nil
}
