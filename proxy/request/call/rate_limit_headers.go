package call

import (
	"strconv"
	"time"

	"penstock/proxy/access/limit"
)

// Every answer reports the remaining requests and tokens per minute of the key or its group, so
// that clients can slow down before a request is rejected. The headers have OpenAI's names. Answers
// in the Messages dialect also contain these values under the header names that Anthropic's clients
// read. A limit that is not set has no header. The names are in fasthttp's canonical form.

// rateLimitHeaderNames contains the three header lines for one limit, each without its value. Every
// string begins with the line break that ends the previous line.
type rateLimitHeaderNames struct{ limit, remaining, reset string }

var (
	openAIRequestLimitHeaders    = newRateLimitHeaderNames("X-Ratelimit-", "Limit-Requests", "Remaining-Requests", "Reset-Requests")
	openAITokenLimitHeaders      = newRateLimitHeaderNames("X-Ratelimit-", "Limit-Tokens", "Remaining-Tokens", "Reset-Tokens")
	anthropicRequestLimitHeaders = newRateLimitHeaderNames("Anthropic-Ratelimit-", "Requests-Limit", "Requests-Remaining", "Requests-Reset")
	anthropicTokenLimitHeaders   = newRateLimitHeaderNames("Anthropic-Ratelimit-", "Tokens-Limit", "Tokens-Remaining", "Tokens-Reset")
)

func newRateLimitHeaderNames(prefix, limit, remaining, reset string) rateLimitHeaderNames {
	prefix = "\r\n" + prefix
	return rateLimitHeaderNames{prefix + limit + ": ", prefix + remaining + ": ", prefix + reset + ": "}
}

// appendRateLimits appends header lines with the levels of a key's limits after the call that
// reserved r. used is the number of tokens that the call used. If r is nil, used is not known yet.
// If inAnthropic is true, appendRateLimits also appends the lines with Anthropic's header names.
func appendRateLimits(
	dst []byte, key *limit.KeyLimiter, r *limit.Reservation, used int64, inAnthropic bool, now time.Time,
) []byte {
	if l, ok := key.RequestsLeft(now); ok {
		dst = appendLimitLevel(dst, &openAIRequestLimitHeaders, &anthropicRequestLimitHeaders, &l, inAnthropic, now)
	}
	if l, ok := key.TokensLeft(r, used, now); ok {
		dst = appendLimitLevel(dst, &openAITokenLimitHeaders, &anthropicTokenLimitHeaders, &l, inAnthropic, now)
	}
	return dst
}

func appendLimitLevel(
	dst []byte, openAI, anthropic *rateLimitHeaderNames, l *limit.LimitLevel, inAnthropic bool, now time.Time,
) []byte {
	dst = appendLimitValue(append(dst, openAI.limit...), l)
	dst = strconv.AppendInt(append(dst, openAI.remaining...), l.Remaining, 10)
	dst = appendSeconds(append(dst, openAI.reset...), l.Reset)
	if !inAnthropic {
		return dst
	}
	dst = appendLimitValue(append(dst, anthropic.limit...), l)
	dst = strconv.AppendInt(append(dst, anthropic.remaining...), l.Remaining, 10)
	return now.Add(l.Reset).UTC().AppendFormat(append(dst, anthropic.reset...), time.RFC3339)
}

func appendLimitValue(dst []byte, l *limit.LimitLevel) []byte {
	if l.Text != "" {
		return append(dst, l.Text...)
	}
	return strconv.AppendInt(dst, l.Limit, 10)
}

// appendSeconds appends a duration in seconds with up to three decimals, rounded up: "0s", "0.25s",
// "61.5s". strconv.AppendFloat is four times slower.
func appendSeconds(dst []byte, d time.Duration) []byte {
	ms := (d + time.Millisecond - 1).Milliseconds()
	dst = strconv.AppendInt(dst, ms/1000, 10)
	if ms %= 1000; ms > 0 {
		dst = append(dst, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10))
		for dst[len(dst)-1] == '0' {
			dst = dst[:len(dst)-1]
		}
	}
	return append(dst, 's')
}
