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

// countTimeout is how long the edge waits for an engine to count tokens. The timeout is short,
// because clients count tokens often and the edge can use its estimate instead.
const countTimeout = 2 * time.Second

// answerWithTokenCount answers a call with the token count of its prompt. It asks an engine without
// using the send loop.
func (c *Call) answerWithTokenCount() *failure.Failure {
	n, ok := c.fetchEngineTokenCount()
	if cause := c.abort.Cause(); cause != nil {
		return failure.FromAbort(cause)
	}
	if !ok {
		n = c.tokens.estimatedPrompt
	}
	out, about := attempt.NewBuffer(), c.callInfo()
	about.PromptTokens = n
	c.answerBuffered(out, c.ep.Local.Append((*out)[:0], c.request, about), jsonType)
	return nil
}

// fetchEngineTokenCount asks an engine for the token count. The request occupies a slot. If no slot
// is free, no request is sent. A failed count does not affect the engine's health.
func (c *Call) fetchEngineTokenCount() (tokens int, ok bool) {
	local, m := c.ep.Local, c.config.model
	q := routing.Query{
		Pool: c.search.pool, Key: c.record.Key, Tiers: c.keyTiers(), Now: time.Now(), Rand: rand.Uint64(),
	}
	route := routing.FirstTier(m.Route) // only engines in the first tier are asked
	targets, own := route.Targets(), routing.Query{Arms: c.callArms()}
	for i := range targets {
		if u := targets[i].Upstream; u.Engine().Path(local.Operation) == "" || !own.MayUseArmOf(&targets[i]) {
			q.Exclude = append(q.Exclude, u.ID())
		}
	}
	if len(q.Exclude) == len(targets) || m.HasWaitingCalls() {
		return 0, false
	}
	lease, target, err := route.Acquire(&q)
	if err != nil {
		return 0, false
	}
	x := lease.Exchange()
	c.abort.SetExchange(x)
	outcome := upstreams.OutcomeClientGone // an outcome that does not blame the engine
	defer func() {
		c.attemptState.countRequests += x.SendCount()
		c.abort.ClearExchange()
		x.Close()
		lease.Release(outcome)
	}()
	u := lease.Upstream()
	c.record.Upstream = u.Name()
	until := time.Now().Add(countTimeout)
	request := chat.CountRequest{
		Served: target.Served, Model: c.request.Model(), ReasoningHistory: m.Rules.ReasoningHistory,
	}
	request.Opener, _ = c.request.(chat.ReasoningOpener)
	err = x.Send(&http1.Request{
		Method: "POST", Path: u.Engine().Path(local.Operation),
		ContentType: jsonType, Accept: jsonType,
		RequestID: c.requestID(), Traceparent: c.trace.engineTraceparent(&c.client),
		Tracestate:     c.trace.engineTracestate(&c.client),
		Body:           local.Segments(nil, c.body.ClientBytes(), &request),
		ConnectTimeout: min(m.Clocks.Connect.D(), countTimeout), WriteTimeout: countTimeout,
	})
	if err != nil || x.Await(until) != nil || x.Status() != 200 {
		return 0, false
	}
	answer, ended, err := readTokenCountReply(x, until)
	if err != nil {
		return 0, false
	}
	if ended {
		outcome = upstreams.OutcomeOK
	}
	if tokens, ok = local.Read(answer); ok && c.tokens.promptBytes > 0 {
		u.Averages.UpdateBytesPerToken(c.tokens.promptBytes, tokens)
	}
	return tokens, ok
}

// readTokenCountReply reads the response of a token counter. If the response is too long for a
// count, readTokenCountReply reads only the start of the response.
func readTokenCountReply(x *http1.Exchange, until time.Time) (answer []byte, ended bool, err error) {
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
