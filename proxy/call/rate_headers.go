package call

import (
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/limit"
)

// Every answer to a key's calls says what the key has left of its limits per minute, so that
// clients can slow down before they are refused: in OpenAI's names, and on Messages in Anthropic's
// too, where clients read those. A limit that does not exist has no header.

// rateNames are the headers of one limit, in the form that fasthttp would otherwise bring them to.
type rateNames struct{ limit, remaining, reset []byte }

var (
	openAIRequests    = namesOf("X-Ratelimit-", "Limit-Requests", "Remaining-Requests", "Reset-Requests")
	openAITokens      = namesOf("X-Ratelimit-", "Limit-Tokens", "Remaining-Tokens", "Reset-Tokens")
	anthropicRequests = namesOf("Anthropic-Ratelimit-", "Requests-Limit", "Requests-Remaining", "Requests-Reset")
	anthropicTokens   = namesOf("Anthropic-Ratelimit-", "Tokens-Limit", "Tokens-Remaining", "Tokens-Reset")
)

func namesOf(prefix, limit, remaining, reset string) rateNames {
	return rateNames{[]byte(prefix + limit), []byte(prefix + remaining), []byte(prefix + reset)}
}

// setRateHeaders sets the levels of a key's limits, under Anthropic's names, too, if asked to.
func setRateHeaders(h *fasthttp.ResponseHeader, key *limit.Key, inAnthropic bool, now time.Time) {
	if l, ok := key.Requests(now); ok {
		setLevel(h, &openAIRequests, &anthropicRequests, &l, inAnthropic, now)
	}
	if l, ok := key.Tokens(now); ok {
		setLevel(h, &openAITokens, &anthropicTokens, &l, inAnthropic, now)
	}
}

func setLevel(
	h *fasthttp.ResponseHeader, openAI, anthropic *rateNames, l *limit.Level, inAnthropic bool, now time.Time,
) {
	var room [40]byte
	h.SetCanonical(openAI.limit, strconv.AppendInt(room[:0], l.Limit, 10))
	h.SetCanonical(openAI.remaining, strconv.AppendInt(room[:0], l.Remaining, 10))
	h.SetCanonical(openAI.reset, appendSeconds(room[:0], l.Reset))
	if !inAnthropic {
		return
	}
	h.SetCanonical(anthropic.limit, strconv.AppendInt(room[:0], l.Limit, 10))
	h.SetCanonical(anthropic.remaining, strconv.AppendInt(room[:0], l.Remaining, 10))
	h.SetCanonical(anthropic.reset, now.Add(l.Reset).UTC().AppendFormat(room[:0], time.RFC3339))
}

// appendSeconds appends a duration in seconds and their thousandths, rounded up: "0s", "0.25s",
// "61.5s".
func appendSeconds(dst []byte, d time.Duration) []byte {
	ms := (d + time.Millisecond - 1).Milliseconds()
	return append(strconv.AppendFloat(dst, float64(ms)/1000, 'f', -1, 64), 's')
}
