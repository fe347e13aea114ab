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

// Endpoint is a generation endpoint. All calls to the endpoint share the Endpoint.
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
	Local *LocalTokenCount

	profileOperation string // name in engine profiles; if empty, engineOperation decides
	// Path that represents the endpoint in a model's supported_endpoints. If listedPath is empty,
	// Path represents it.
	listedPath string
}

// LocalTokenCount makes the edge answer a call with the token count of its prompt. The tokens are
// reserved from the key's limits but not charged.
type LocalTokenCount struct {
	// Operation is the engine operation that counts tokens. If Operation is empty, the edge only
	// estimates the count.
	Operation string
	// Segments appends the request for the engine's token counter. Read parses the engine's
	// response.
	Segments func(segs [][]byte, body []byte, n *chat.CountRequest) [][]byte
	Read     func(answer []byte) (tokens int, ok bool)
	// Append appends the client's answer. about contains the count.
	Append func(dst []byte, r Request, about CallInfo) []byte
}

// AllEndpoints lists the generation endpoints that accept POST.
var AllEndpoints = append([]*Endpoint{
	chatCompletionsEndpoint,
	ResponsesEndpoint,
	responsesCompactEndpoint,
	inputTokensEndpoint,
	messagesEndpoint,
	countTokensEndpoint,
	transcriptionsEndpoint,
	speechEndpoint,
	embeddingsEndpoint,
	rerankEndpoint,
	imagesEndpoint,
	imageEditsEndpoint,
	completionsEndpoint,
}, engineSpecificEndpoints()...)

// EndpointByPath returns the endpoint with the given path, or nil.
func EndpointByPath(path []byte) *Endpoint {
	for _, ep := range AllEndpoints {
		if string(path) == ep.Path {
			return ep
		}
	}
	return nil
}

// NearestEndpointByPath returns the endpoint that the client probably meant by an unknown path, or
// nil. The path may lack the version or end with a slash. If the client's base URL contains the
// version, the path may contain the version twice.
func NearestEndpointByPath(path []byte) *Endpoint {
	path = bytes.TrimRight(path, "/")
	for len(path) > 0 {
		rest, versioned := bytes.CutPrefix(path, []byte("/v1"))
		for _, ep := range AllEndpoints {
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

// ServesModel reports whether the endpoint serves the model.
func (ep *Endpoint) ServesModel(m *snapshot.Model) bool {
	return m.ServesEndpoint(ep.Path) || ep.listedPath != "" && m.ServesEndpoint(ep.listedPath)
}

// BodyLimit returns the maximum size of a request body in bytes. It is the smaller of the
// configured limit and the key's limit.
func (ep *Endpoint) BodyLimit(f *config.File, key config.BodyLimits) int64 {
	all := config.BodyLimits{RequestBody: f.Limits.RequestBody, UploadBody: f.Limits.UploadBody}
	return min(ep.ApplicableLimit(all), ep.ApplicableLimit(key))
}

// ApplicableLimit returns the limit from l that applies to the endpoint. If that limit is not set,
// it returns math.MaxInt64.
func (ep *Endpoint) ApplicableLimit(l config.BodyLimits) int64 {
	n, more := l.RequestBody, ep.Wrapping
	if ep.Form {
		n, more = l.UploadBody, 0
	}
	if n == 0 {
		return math.MaxInt64
	}
	return int64(n) + more
}

// TooLargeError returns the error for a body larger than most. most must be a result of
// ApplicableLimit or BodyLimit. The error contains the limit as it is configured.
func (ep *Endpoint) TooLargeError(most int64) *apierr.Error {
	if !ep.Form {
		most -= ep.Wrapping
	}
	return apierr.TooLarge(most)
}

// DialectByPath returns the dialect of the endpoint with the given path or with a parent of that
// path.
func DialectByPath(path []byte) *Dialect {
	for _, ep := range AllEndpoints {
		if rest, ok := bytes.CutPrefix(path, []byte(ep.Path)); ok && (len(rest) == 0 || rest[0] == '/') {
			return ep.Dialect
		}
	}
	return ChatDialect
}

// RequestDialect returns the dialect for the path of a request.
func RequestDialect(ctx *fasthttp.RequestCtx) *Dialect {
	path, _, _ := bytes.Cut(ctx.Request.Header.RequestURI(), []byte{'?'})
	return DialectByPath(path)
}

// detectTextReplyForm implements DetectReplyForm for endpoints that answer with a document, or with
// events if the client requested a stream.
func detectTextReplyForm(reply ReplyHead, streamed bool) ReplyForm {
	isStream := isEventStream(reply)
	switch {
	case isStream && streamed:
		return ReplyEvents
	case !isStream && !streamed:
		return ReplyWhole
	case streamed:
		return ReplyMismatch
	}
	return ReplyWrongType
}

// A request without max_tokens is expected to generate defaultOutputTokens tokens. Answers are
// rarely as long as max_tokens allows, so at most maxExpectedTokens tokens are expected.
const (
	defaultOutputTokens = 256
	maxExpectedTokens   = 2048
)

func expectedOutput(maxTokens int) int {
	if maxTokens < 0 {
		return defaultOutputTokens
	}
	return min(maxTokens, maxExpectedTokens)
}

type noTokenLimit struct{}

func (noTokenLimit) TokenLimit() int                          { return -1 }
func (noTokenLimit) LowerTo(int)                              {}
func (noTokenLimit) ContextLength(rules *chat.ModelRules) int { return rules.ContextLength }
func (noTokenLimit) PromptTokens(_ float64, estimate int) int { return estimate }
