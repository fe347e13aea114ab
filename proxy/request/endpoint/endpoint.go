package endpoint

import (
	"bytes"
	"math"
	"strings"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/running/snapshot"
	"penstock/translate/apierr"
	"penstock/translate/chat"
)

// Endpoint is one generation endpoint. It holds what all its calls share.
type Endpoint struct {
	Path      string // public path
	Operation string // the name in a key's scope (config.Op…)
	Traced    string // the operation's name in the GenAI conventions, if there is one
	Dialect   *Dialect
	// Form means that requests are forms, which have a larger limit and are sent on while they
	// arrive.
	Form bool
	// CachesPrompts means that engines cache the prompts of these requests, so that the prompts of
	// different owners may have to be kept apart.
	CachesPrompts bool
	// New makes the codec for one call.
	New func() Request
	// Wrapping is the number of bytes that the edge may add to the client's bytes when it makes the
	// body.
	Wrapping int64
	// Local answers the call without an engine's generation; nil: the call goes to an engine.
	Local *Local

	atEngine string // the endpoint's name in profiles; empty: see operationAtEngine
	listedAs string // the path by which a model's supported_endpoints lists the endpoint; empty: Path
}

// Local says how an endpoint itself answers an admitted call with a count of the prompt's tokens.
// The tokens are reserved from the key's limits but not charged.
type Local struct {
	// Operation names the operation of an engine's own counter, if engines have one. If it is
	// empty, the estimate suffices.
	Operation string
	// Segments appends the request for the counter. Read reads the counter's answer.
	Segments func(segs [][]byte, body []byte, n *chat.CountRequest) [][]byte
	Read     func(answer []byte) (tokens int, ok bool)
	// Append appends the client's answer to r. about holds the count.
	Append func(dst []byte, r Request, about Answer) []byte
}

// All lists the generation endpoints, each for POST.
var All = append([]*Endpoint{
	chatCompletions,
	Responses,
	compact,
	inputTokens,
	messagesEndpoint,
	countTokens,
	transcriptions,
	speech,
	embeddings,
	rerank,
	images,
	imageEdits,
	completions,
}, atSomeEngines()...)

// At returns the endpoint at a path, or nil.
func At(path []byte) *Endpoint {
	for _, ep := range All {
		if string(path) == ep.Path {
			return ep
		}
	}
	return nil
}

// Near returns the endpoint that an unknown path probably means, or nil. Such a path lacks the
// version, ends in a slash, or repeats the version because the client's base URL already has it.
func Near(path []byte) *Endpoint {
	path = bytes.TrimRight(path, "/")
	for len(path) > 0 {
		rest, versioned := bytes.CutPrefix(path, []byte("/v1"))
		for _, ep := range All {
			if string(path) == ep.Path || !versioned && string(path) == strings.TrimPrefix(ep.Path, "/v1") {
				return ep
			}
		}
		if !versioned {
			return nil
		}
		path = rest
	}
	return nil
}

// ServedBy reports whether the model answers on the endpoint.
func (ep *Endpoint) ServedBy(m *snapshot.Model) bool {
	return m.Serves(ep.Path) || ep.listedAs != "" && m.Serves(ep.listedAs)
}

// BodyLimit returns the limit on the request body in bytes: the configuration's, or the key's if
// that is smaller.
func (ep *Endpoint) BodyLimit(f *config.File, key config.BodyLimits) int64 {
	all := config.BodyLimits{RequestBody: f.Limits.RequestBody, UploadBody: f.Limits.UploadBody}
	return min(ep.OwnLimit(all), ep.OwnLimit(key))
}

// OwnLimit returns the member of l that applies to the endpoint's bodies, or the maximum if it is
// not set.
func (ep *Endpoint) OwnLimit(l config.BodyLimits) int64 {
	n, more := l.RequestBody, ep.Wrapping
	if ep.Form {
		n, more = l.UploadBody, 0
	}
	if n == 0 {
		return math.MaxInt64
	}
	return int64(n) + more
}

// TooLarge returns the refusal of a body that is larger than the limit from OwnLimit or BodyLimit.
// The refusal states the configured limit.
func (ep *Endpoint) TooLarge(most int64) *apierr.Error {
	if !ep.Form {
		most -= ep.Wrapping
	}
	return apierr.TooLarge(most)
}

// DialectAt returns a path's dialect: the dialect of the endpoint at the path or above it.
func DialectAt(path []byte) *Dialect {
	for _, ep := range All {
		if rest, ok := bytes.CutPrefix(path, []byte(ep.Path)); ok && (len(rest) == 0 || rest[0] == '/') {
			return ep.Dialect
		}
	}
	return ChatDialect
}

// DialectOf is DialectAt for the path of a request.
func DialectOf(ctx *fasthttp.RequestCtx) *Dialect {
	path, _, _ := bytes.Cut(ctx.Request.Header.RequestURI(), []byte{'?'})
	return DialectAt(path)
}

// textReply implements Reads for the endpoints whose answers are one document or a stream of
// events, whichever was requested.
func textReply(reply Reply, asked bool) ReplyForm {
	isStream := isEventStream(reply)
	switch {
	case isStream && asked:
		return Events
	case !isStream && !asked:
		return Whole
	case asked:
		return Document
	}
	return WrongType
}

// The expected number of tokens in an answer. Answers seldom reach a client's max_tokens, so
// max_tokens counts only up to mostOutput.
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

// noLimit is the TokenLimit of requests without a limit.
type noLimit struct{}

func (noLimit) TokenLimit() int                    { return -1 }
func (noLimit) Fit(int)                            {}
func (noLimit) Context(rules *chat.ModelRules) int { return rules.ContextLength }
func (noLimit) Prompt(_ float64, estimate int) int { return estimate }
