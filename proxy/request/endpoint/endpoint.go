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

// Endpoint is a generation endpoint. All calls to the endpoint share it.
type Endpoint struct {
	Path      string
	Operation string
	Traced    string // name of the operation in the GenAI conventions
	Dialect   *Dialect
	// Form is true if requests are forms. Forms have a larger size limit, and are sent to the
	// engine while they arrive.
	Form bool
	// CachesPrompts is true if engines cache the prompts of these requests. Such requests may need
	// a salt to separate the prompts of different owners.
	CachesPrompts bool
	// New creates the codec of a call.
	New func() Request
	// Wrapping is how many bytes the edge may add around the client's bytes.
	Wrapping int64
	// Local answers a call in the edge, without generation by an engine. If nil, the call needs an
	// engine.
	Local *Local

	atEngine string // name in engine profiles; if empty, see operationAtEngine
	// Path that represents the endpoint in a model's supported_endpoints. If empty, Path is used.
	listedAs string
}

// Local makes the edge answer a call with the token count of its prompt. The tokens are reserved
// from the key's limits but not charged.
type Local struct {
	// Operation is the engine operation that counts tokens. If empty, the edge only estimates.
	Operation string
	// Segments appends the request for the engine's token counter. Read parses the engine's
	// response.
	Segments func(segs [][]byte, body []byte, n *chat.CountRequest) [][]byte
	Read     func(answer []byte) (tokens int, ok bool)
	// Append appends the client's answer. about contains the count.
	Append func(dst []byte, r Request, about CallInfo) []byte
}

// All lists the generation endpoints that accept POST.
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

// At returns the endpoint with the given path, or nil.
func At(path []byte) *Endpoint {
	for _, ep := range All {
		if string(path) == ep.Path {
			return ep
		}
	}
	return nil
}

// Near returns the endpoint that the client probably meant by an unknown path, or nil. The path may
// lack the version, end with a slash, or repeat the version because the client's base URL contains
// it.
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

// ServedBy reports whether the endpoint serves the model.
func (ep *Endpoint) ServedBy(m *snapshot.Model) bool {
	return m.Serves(ep.Path) || ep.listedAs != "" && m.Serves(ep.listedAs)
}

// BodyLimit returns the maximum size of a request body in bytes. It is the smaller of the
// configured limit and the key's limit.
func (ep *Endpoint) BodyLimit(f *config.File, key config.BodyLimits) int64 {
	all := config.BodyLimits{RequestBody: f.Limits.RequestBody, UploadBody: f.Limits.UploadBody}
	return min(ep.OwnLimit(all), ep.OwnLimit(key))
}

// OwnLimit returns the limit from l that applies to the endpoint. If that limit is not set, it
// returns math.MaxInt64.
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

// TooLarge returns the error for a body larger than most, which is a result of OwnLimit or
// BodyLimit. The error contains the limit as it is configured.
func (ep *Endpoint) TooLarge(most int64) *apierr.Error {
	if !ep.Form {
		most -= ep.Wrapping
	}
	return apierr.TooLarge(most)
}

// DialectAt returns the dialect of the endpoint whose path equals the given path or is a parent of
// it.
func DialectAt(path []byte) *Dialect {
	for _, ep := range All {
		if rest, ok := bytes.CutPrefix(path, []byte(ep.Path)); ok && (len(rest) == 0 || rest[0] == '/') {
			return ep.Dialect
		}
	}
	return ChatDialect
}

// DialectOf returns the dialect for the path of a request.
func DialectOf(ctx *fasthttp.RequestCtx) *Dialect {
	path, _, _ := bytes.Cut(ctx.Request.Header.RequestURI(), []byte{'?'})
	return DialectAt(path)
}

// textReply implements Reads for endpoints that answer with a document, or with events if the
// client requested a stream.
func textReply(reply Reply, streamed bool) ReplyForm {
	isStream := isEventStream(reply)
	switch {
	case isStream && streamed:
		return Events
	case !isStream && !streamed:
		return Whole
	case streamed:
		return Document
	}
	return WrongType
}

// A request without max_tokens is expected to generate usualOutput tokens. Answers are rarely as
// long as max_tokens allows, so at most mostOutput tokens are expected.
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

type noLimit struct{}

func (noLimit) TokenLimit() int                    { return -1 }
func (noLimit) Fit(int)                            {}
func (noLimit) Context(rules *chat.ModelRules) int { return rules.ContextLength }
func (noLimit) Prompt(_ float64, estimate int) int { return estimate }
