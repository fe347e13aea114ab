package proxy

import (
	"io"
	"math/rand/v2"
	"time"

	"penstock/config"
	"penstock/routing"
	"penstock/translate/dialects"
	"penstock/translate/messages"
	"penstock/upstreams"
	"penstock/upstreams/engine"
	"penstock/upstreams/http1"
)

// endpointCountTokens is POST /v1/messages/count_tokens: an engine's own count where one has a
// counter, else an estimate. It never fails for want of an engine.
var endpointCountTokens = &endpoint{
	path:      "/v1/messages/count_tokens",
	listedAs:  "/v1/messages",
	operation: config.OpMessages,
	dialect:   dialectMessages,
	// The client's own body is kept beside the chat request that it amounts to: engines with a
	// counter speak Messages.
	decode:  (*Call).decodeCount,
	explain: explainMessages,
	local: func(c *Call) *failure {
		n, ok := c.engineCount()
		if cause := c.aborted(); cause != nil {
			return fromAbort(cause)
		}
		if !ok {
			n = c.promptTokens
		}
		out := outPool.Get().(*[]byte)
		c.answerJSON(out, messages.AppendCount((*out)[:0], n))
		return nil
	},
}

func (c *Call) decodeCount(body []byte) error {
	o := dialects.Options{InPlace: c.snap.InPlace, Strict: c.snap.Config.Strict, Count: true}
	counted, err := c.writeTranslation(func(dst []byte) ([]byte, error) { return c.translateMessages(dst, body, o) })
	if err == nil {
		c.messages.counted = counted
	}
	return err
}

// countPatience is how long an engine may take to count. Clients ask often, and an estimate is
// there at once.
const countPatience = 2 * time.Second

// engineCount asks an engine that has a counter. It takes a slot, as everything that reaches an
// engine does, and gives up when none is free. Whatever goes wrong says nothing about the engine's
// health, since its probes tell that.
func (c *Call) engineCount() (tokens int, ok bool) {
	q := routing.Query{Pool: c.pool, Key: c.record.Key, Now: time.Now(), Rand: rand.Uint64()}
	targets := c.model.Route.Targets()
	for i := range targets {
		if u := targets[i].Upstream; u.Engine().Path(engine.OpCountTokens) == "" {
			q.Exclude = append(q.Exclude, u.ID())
		}
	}
	if len(q.Exclude) == len(targets) || c.model.Crowded() {
		return 0, false
	}
	lease, target, err := c.model.Route.Acquire(&q)
	if err != nil {
		return 0, false
	}
	x := lease.Exchange()
	c.publish(x)
	outcome := upstreams.OutcomeClientGone // which says nothing
	defer func() {
		c.sends += x.Sends()
		c.exchange.Store(nil)
		x.Close()
		lease.Release(outcome)
	}()
	u := lease.Upstream()
	c.record.Upstream = u.Name()
	until := time.Now().Add(countPatience)
	clocks := &c.model.Clocks
	err = x.Send(&http1.Request{
		Method: "POST", Path: u.Engine().Path(engine.OpCountTokens),
		ContentType: "application/json", Accept: "application/json",
		RequestID: c.id, Traceparent: c.traceparent(),
		Body:           messages.CountSegments(nil, *c.body, target.Served),
		ConnectTimeout: min(clocks.Connect.D(), countPatience), WriteTimeout: countPatience,
	})
	if err != nil || x.Await(until) != nil || x.Status() != 200 {
		return 0, false
	}
	answer := make([]byte, 0, 256)
	for len(answer) < cap(answer) {
		n, err := x.Read(answer[len(answer):cap(answer)], until)
		answer = answer[:len(answer)+n]
		if err == io.EOF { //nolint:errorlint // only the bare value ends a reply; wrapped, it is a failure's cause
			outcome = upstreams.OutcomeOK
			break
		}
		if err != nil {
			return 0, false
		}
	}
	if tokens, ok = messages.ReadCount(answer); ok && c.promptBytes > 0 {
		u.Averages.LearnTokens(c.promptBytes, tokens)
	}
	return tokens, ok
}
