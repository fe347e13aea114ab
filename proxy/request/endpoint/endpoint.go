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

// Endpoint is one generation endpoint: what is the same for all of its calls.
type Endpoint struct {
	Path      string // public path
	Operation string // what a key's scope calls it (config.Op…)
	Traced    string // the operation in the words of the GenAI conventions, where they have one
	Dialect   *Dialect
	// Form says that its requests are forms. They have the larger limit, and are sent on while they
	// come.
	Form bool
	// CachesPrompts says that engines keep the prompts of its requests, so that those of different
	// owners may have to be kept apart.
	CachesPrompts bool
	// New makes the codec of one call.
	New func() Request
	// Wrapping is how many bytes the edge may add to what the client sent before it is a body.
	Wrapping int64
	// Local answers without an engine's generation; nil: the call goes to an engine.
	Local *Local

	atEngine string // what profiles call it; empty: see operationAtEngine
	listedAs string // the path that a model's supported_endpoints has for it; empty: its own
}

// Local is how an endpoint answers a call by itself once it is admitted: with a count of its
// prompt. The prompt is held against the key's tokens and not charged.
type Local struct {
	// Operation is that of an engine's own counter, which may be asked; empty: the estimate is good
	// enough.
	Operation string
	// Segments appends the request to the counter; Read reads its answer.
	Segments func(segs [][]byte, body []byte, n *chat.CountRequest) [][]byte
	Read     func(answer []byte) (tokens int, ok bool)
	// Append appends the client's answer to r. about has the count.
	Append func(dst []byte, r Request, about Answer) []byte
}

// All are the generation endpoints, each a POST.
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

// Near returns the endpoint that a path without one is likely meant for: it doubles the version, as
// clients do whose base URL already has it, lacks it, or ends in a slash. It is nil without such.
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

// BodyLimit is the limit on the request body, in bytes: the file's, or that of a key if it is
// smaller.
func (ep *Endpoint) BodyLimit(f *config.File, key config.BodyLimits) int64 {
	all := config.BodyLimits{RequestBody: f.Limits.RequestBody, UploadBody: f.Limits.UploadBody}
	return min(ep.OwnLimit(all), ep.OwnLimit(key))
}

// OwnLimit is the one of l that the endpoint's bodies are held to; the greatest number if there is
// none.
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

// TooLarge is the refusal of a body that is larger than a limit of OwnLimit or BodyLimit. Its
// number is that of the file.
func (ep *Endpoint) TooLarge(most int64) *apierr.Error {
	if !ep.Form {
		most -= ep.Wrapping
	}
	return apierr.TooLarge(most)
}

// DialectAt returns the dialect that a path is meant for: that of the endpoint there, or above it.
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

// textReply is Reads of the endpoints whose answers are one document or a stream of events, as they
// were asked for.
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

// The expected tokens of an answer. A client's max_tokens is a bound that is seldom reached, so it
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

// noLimit is the TokenLimit of requests that have none.
type noLimit struct{}

func (noLimit) TokenLimit() int                    { return -1 }
func (noLimit) Fit(int)                            {}
func (noLimit) Context(rules *chat.ModelRules) int { return rules.ContextLength }
func (noLimit) Prompt(_ float64, estimate int) int { return estimate }
