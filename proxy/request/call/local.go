package call

import (
	"io"
	"math/rand/v2"
	"time"

	"penstock/proxy/request/attempt"
	"penstock/proxy/request/failure"
	"penstock/routing"
	"penstock/translate/chat"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// countPatience is how long the edge waits for an engine to count tokens. It is short because
// clients count often and the edge can use its estimate instead.
const countPatience = 2 * time.Second

// answerCount answers a call with the token count of its prompt. It does not use the loop.
func (c *Call) answerCount() *failure.Failure {
	n, ok := c.engineCount()
	if cause := c.abort.Cause(); cause != nil {
		return failure.FromAbort(cause)
	}
	if !ok {
		n = c.tokens.prompt
	}
	out, about := attempt.NewBuffer(), c.callInfo()
	about.PromptTokens = n
	c.answerWhole(out, c.ep.Local.Append((*out)[:0], c.request, about), jsonType)
	return nil
}

// engineCount asks an engine for the token count. The request occupies a slot. If no slot is free,
// no request is sent. A failed count does not affect the engine's health.
func (c *Call) engineCount() (tokens int, ok bool) {
	local, m := c.ep.Local, c.config.model
	q := routing.Query{
		Pool: c.tries.pool, Key: c.record.Key, Tiers: c.tiers(), Now: time.Now(), Rand: rand.Uint64(),
	}
	route := routing.First(m.Route) // only the first tier is asked
	targets, own := route.Targets(), routing.Query{Arms: c.arms()}
	for i := range targets {
		if u := targets[i].Upstream; u.Engine().Path(local.Operation) == "" || !own.Reaches(&targets[i]) {
			q.Exclude = append(q.Exclude, u.ID())
		}
	}
	if len(q.Exclude) == len(targets) || m.Crowded() {
		return 0, false
	}
	lease, target, err := route.Acquire(&q)
	if err != nil {
		return 0, false
	}
	x := lease.Exchange()
	c.abort.Publish(x)
	outcome := upstreams.OutcomeClientGone // an outcome that does not blame the engine
	defer func() {
		c.tries.counts += x.Sends()
		c.abort.Withdraw()
		x.Close()
		lease.Release(outcome)
	}()
	u := lease.Upstream()
	c.record.Upstream = u.Name()
	until := time.Now().Add(countPatience)
	request := chat.CountRequest{
		Served: target.Served, Model: c.request.Model(), ReasoningHistory: m.Rules.ReasoningHistory,
	}
	request.Opener, _ = c.request.(chat.Opener)
	err = x.Send(&http1.Request{
		Method: "POST", Path: u.Engine().Path(local.Operation),
		ContentType: jsonType, Accept: jsonType,
		RequestID: c.client.requestID, Traceparent: c.trace.context(&c.client),
		Tracestate:     c.trace.state(&c.client),
		Body:           local.Segments(nil, c.body.Client(), &request),
		ConnectTimeout: min(m.Clocks.Connect.D(), countPatience), WriteTimeout: countPatience,
	})
	if err != nil || x.Await(until) != nil || x.Status() != 200 {
		return 0, false
	}
	answer, ended, err := readCount(x, until)
	if err != nil {
		return 0, false
	}
	if ended {
		outcome = upstreams.OutcomeOK
	}
	if tokens, ok = local.Read(answer); ok && c.tokens.promptBytes > 0 {
		u.Averages.LearnTokens(c.tokens.promptBytes, tokens)
	}
	return tokens, ok
}

// readCount reads the response of a token counter. If the response is too long for a count,
// readCount reads only the start.
func readCount(x *http1.Exchange, until time.Time) (answer []byte, ended bool, err error) {
	answer = make([]byte, 0, 256)
	for len(answer) < cap(answer) {
		n, err := x.Read(answer[len(answer):cap(answer)], until)
		answer = answer[:len(answer)+n]
		if err == io.EOF { //nolint:errorlint // only the bare value ends a reply; wrapped, it is a failure's cause
			return answer, true, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
	return answer, false, nil
}
