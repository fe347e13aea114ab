package proxy

import (
	"strconv"
	"strings"

	"penstock/proxy/limit"
	"penstock/proxy/observe"
	"penstock/translate/apierr"
)

// admitRate takes one request of the key's requests per minute, before the body is read.
func (c *Call) admitRate() error {
	if c.key == nil {
		return nil
	}
	c.allowance = c.snap.KeyLimits[c.key.ID]
	if d := c.allowance.Take(c.record.Start); !d.OK {
		return c.closeIfUnread(c.rateLimited(d))
	}
	return nil
}

// admit takes one of the key's concurrent calls and holds an estimate of its tokens. settle returns
// both.
func (c *Call) admit() error {
	perToken := c.model.Route.BytesPerToken()
	if c.chat != nil {
		c.promptTokens, c.outputTokens = c.chat.Prompt.EstimateTokens(perToken), expectedOutput(c.chat.Tokens.Max)
	} else {
		c.promptTokens, c.outputTokens = c.payload.estimate(perToken)
	}
	if c.ep.local != nil { // nothing is generated
		c.outputTokens = 0
	}
	if c.key == nil {
		return nil
	}
	d := c.allowance.Reserve(&c.held, int64(c.promptTokens+c.outputTokens), c.asked)
	if !d.OK {
		return c.rateLimited(d)
	}
	return nil
}

// The expected tokens of a reply. A client's max_tokens is a bound that is seldom reached, so it
// counts up to mostOutput only.
const (
	usualOutput = 256
	mostOutput  = 2048
)

func expectedOutput(maxTokens int) int {
	if maxTokens < 0 {
		return usualOutput
	}
	return min(maxTokens, mostOutput)
}

// settle charges the key for what the call used, exactly once, however it ended.
func (c *Call) settle() {
	c.estimate()
	c.held.Settle(int64(c.usage.Prompt+c.usage.Completion), c.ended())
}

// estimate fills in tokens that no engine has counted. A client that leaves is charged, too: for
// the prompt, which the engine has read, and for the expected tokens of a whole answer, because the
// edge does not see them one by one.
func (c *Call) estimate() {
	u := &c.usage
	switch {
	case u.Known:
		return
	case u.Estimated:
	case c.ep.local != nil: // a count of a prompt is none of its tokens
		return
	case c.record.Outcome == observe.ClientGone && c.attempts() > 0:
		u.Estimated = true
		if !c.record.Stream {
			u.Completion = c.outputTokens
		}
	default:
		return
	}
	u.Prompt = max(u.Prompt, c.promptTokens)
	u.Total = u.Prompt + u.Completion
}

func (c *Call) rateLimited(d limit.Decision) *apierr.Error {
	c.record.Limit = limitWords[d.LimitName]
	return apierr.RateLimited(limitText(d), d.RetryAfter)
}

// limitText returns a limit in words: "60 requests per minute", "1 concurrent request".
func limitText(d limit.Decision) string {
	what := d.LimitName
	if d.Limit == 1 {
		what = strings.Replace(strings.Replace(what, "requests", "request", 1), "tokens", "token", 1)
	}
	return strconv.FormatInt(d.Limit, 10) + " " + what
}

// limitWords are the limits of a key as metric labels.
var limitWords = map[string]string{
	limit.RequestsPerMinute: "requests_per_minute", limit.TokensPerMinute: "tokens_per_minute", limit.Concurrency: "concurrency",
}
