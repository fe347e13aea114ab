package endpoint

import (
	"errors"
	"io"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/access/limit"
	"penstock/proxy/request/body"
	"penstock/proxy/running/snapshot"
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/seal"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// Request is the codec for one client request. It decodes the request, writes it for engines, and
// creates the codecs for the answer. A Request belongs to the goroutine of one call.
type Request interface {
	Decoder
	PromptInfo
	EngineEncoder
	ReplyDecoder
	// Recycle releases the codec. The codec must not be used afterwards.
	Recycle()
}

// Decoder decodes and checks a client's request.
type Decoder interface {
	// Decode decodes the request and checks everything that does not depend on the model.
	Decode(in DecodeInput) error
	// Model returns the client's model name.
	Model() []byte
	// ClientWantsStream reports whether the client requested a stream. For a form, the result may
	// change until the form has been read completely.
	ClientWantsStream() bool
	// CheckModelRules applies the model's rules. A context length reported by an engine is used only if
	// it is still recent at the time now.
	CheckModelRules(m *snapshot.Model, now time.Time) (CheckResult, error)
	// IsFullyRead reports whether the client's body was read completely. During an attempt, it may
	// return false, because a form is sent to the engine while it is read.
	IsFullyRead() bool
	// BytesRead returns how many bytes of the client's body Decode and EncodeRequest have read. It
	// returns 0 if the body was read before Decode.
	BytesRead() int64
}

// PromptInfo describes a request for limits, routing and engines.
type PromptInfo interface {
	// EstimateTokens returns the estimated number of tokens in the prompts and in all answers, and
	// the number of answers that engines generate.
	EstimateTokens(bytesPerToken float64) (prompt, output, answers int)
	// AnswerTokenLimit returns the token limit for the answer.
	AnswerTokenLimit() TokenLimit
	// PromptPrefix returns the beginning of the prompt. A route uses it to find an engine that has
	// the prompt cached. If the request has no such prompt, both results are nil.
	PromptPrefix() (tools, messages []byte)
	// SessionHashes returns the client's session if the body contains one.
	SessionHashes() chat.SessionHashes
	// Chat returns the chat request. It returns nil if the request is not a chat request or was
	// released.
	Chat() *chat.Request
}

// EngineEncoder writes a request for engines.
type EngineEncoder interface {
	// WantsStream reports whether the request asks an engine with the profile p for a stream.
	WantsStream(p *engine.Profile) bool
	// EncodeRequest writes the request for an engine.
	EncodeRequest(to Target) (EngineRequest, error)
	// IsConsumed reports whether the request cannot be sent again, because bytes that are not
	// stored have already been sent.
	IsConsumed() bool
	// Release releases the request. The request cannot be sent afterwards.
	Release()
}

// ReplyDecoder handles engine responses.
type ReplyDecoder interface {
	// DetectReplyForm decides, based on the headers, how to read a response with status 200. streamed
	// is true if the request asked the engine for a stream.
	DetectReplyForm(reply ReplyHead, streamed bool) ReplyForm
	// AnswersJSON reports whether an answer that is not streamed is always JSON. White space may
	// precede such an answer.
	AnswersJSON() bool
	// NewUnaryAnswer and Stream return a codec for the answer of one attempt.
	NewUnaryAnswer(about CallInfo) UnaryAnswer
	NewStream(about CallInfo) Stream
}

// bufferedBodyBase implements methods of Request for requests whose body is read before Decode.
type bufferedBodyBase struct{}

func (bufferedBodyBase) IsFullyRead() bool { return true }
func (bufferedBodyBase) IsConsumed() bool  { return false }
func (bufferedBodyBase) BytesRead() int64  { return 0 }

// DecodeInput contains the arguments of Decode.
type DecodeInput struct {
	Body     *body.Body
	From     body.RequestSource
	Memory   *limit.MemoryBudget
	Snapshot *snapshot.Snapshot
	Header   *fasthttp.RequestHeader
	Seal     seal.Box
}

// CheckResult contains the results of CheckModelRules.
type CheckResult struct {
	Pool     upstreams.SlotPool
	PoolName string // empty if the request was rejected before its pool was known
	// PromptBytes is the length of the prompt if it contains only text, and 0 otherwise. The edge
	// uses it to learn how many bytes a token of the model has on average.
	PromptBytes int
	// Dropped names the parts of the request that were dropped.
	Dropped []string
	// Unfit lists the model's engines that cannot answer the request.
	Unfit []upstreams.ID
}

// TokenLimit is the token limit for an answer.
type TokenLimit interface {
	// TokenLimit returns the limit for the engine, or -1 if there is no limit.
	TokenLimit() int
	// LowerTo lowers the limit. If limit is negative, the original limit applies again.
	LowerTo(limit int)
	// ContextLength returns the context length configured for this request, or 0 if it is unknown.
	ContextLength(rules *chat.ModelRules) int
	// PromptTokens returns the estimated length of the longest prompt in tokens. estimate is the
	// total for all prompts.
	PromptTokens(bytesPerToken float64, estimate int) int
}

// Target is the engine for which a request is written.
type Target struct {
	Upstream *upstreams.Upstream
	Model    *snapshot.Model
	Served   string
	Stream   bool
	Salt     chat.CacheSalt
	Priority chat.Priority
	Formats  *RequestFormatCache
	Refused  RejectedParts
}

// RejectedParts describes which parts of requests an engine has rejected for a model. The edge
// changes these parts in later requests before it sends them.
type RejectedParts struct {
	Efforts       chat.EffortSet
	AdjacentTurns bool
}

// Union returns the union of r and other.
func (r RejectedParts) Union(other RejectedParts) RejectedParts {
	return RejectedParts{Efforts: r.Efforts | other.Efforts, AdjacentTurns: r.AdjacentTurns || other.AdjacentTurns}
}

// SentParts describes the parts of a sent request that the edge can change if an engine rejects
// them.
type SentParts struct {
	Limit         int    // token limit; -1 means no limit
	Effort        string // reasoning effort; empty if the request does not set it
	AdjacentTurns bool
}

// DescribeSentParts describes a request for a target. The request must not have been released.
func DescribeSentParts(p PromptInfo, to *Target) SentParts {
	sent, c := SentParts{Limit: p.AnswerTokenLimit().TokenLimit()}, p.Chat()
	if c == nil {
		return sent
	}
	var format chat.EngineFormat
	setRequestFormat(&format, to)
	sent.Effort = chat.EffortWord(c, &format)
	sent.AdjacentTurns = chat.HasAdjacentTurns(c) && !chat.MustJoinTurns(c, &format)
	return sent
}

// EnginePriority returns the priority of a call for an engine. If the upstream is configured to
// receive priorities, it is the rank of the call's class. If the model lets clients set a priority,
// the client's priority takes precedence.
func EnginePriority(u *upstreams.Upstream, m *snapshot.Model, rank int) chat.Priority {
	number, told := upstreams.EnginePriority(u, rank)
	if !told {
		return chat.Priority{}
	}
	return chat.Priority{Number: number, SendToEngine: true, KeepClientNumber: slices.Contains(m.Config.AllowMembers, "priority")}
}

// EngineRequest is a request for an engine.
type EngineRequest struct {
	Path, ContentType, Accept string
	Body                      [][]byte
	Reader                    io.Reader // used if Body is nil
}

// ErrEngineLacksEndpoint is returned by EncodeRequest for an engine that does not serve the
// endpoint.
var ErrEngineLacksEndpoint = errors.New("the engine does not have the endpoint")

// CallInfo describes the call to the codec for the answer.
type CallInfo struct {
	Model        *config.Model
	RequestID    []byte
	Created      time.Time
	PromptTokens int
	Streamed     bool
	Seal         seal.Box // box bound to the key and the model, for dialects that seal data
}

// ReplyHead provides the headers of an engine's response.
type ReplyHead interface {
	Header(name string) []byte
	// IsFramed reports whether the response marks the end of its body. If it does not, the body
	// ends when the connection is closed.
	IsFramed() bool
}

// ReplyForm is the form of a response.
type ReplyForm uint8

// The forms of responses.
const (
	ReplyPending       ReplyForm = iota // the headers have not arrived yet
	ReplyWhole                          // a document, which is read completely
	ReplyEvents                         // a stream of events
	ReplyBytes                          // bytes that are relayed as they arrive
	ReplyWholeAsStream                  // a document instead of the requested stream
	ReplyBytesAsEvents                  // bytes, which are wrapped in events as they arrive
	ReplyMismatch                       // an answer, error or stream whose Content-Type does not match
	ReplyUnexpected                     // an unexpected document, for example an error
	ReplyWrongType
)

// UnaryAnswer writes the client's answer from an engine's complete response.
type UnaryAnswer interface {
	// AppendAnswer appends the answer for a response body. If the request asked the engine for a
	// stream, body is the chat completion assembled from the stream.
	AppendAnswer(dst, body []byte, reply ReplyHead) ([]byte, error)
	// CanPassThrough reports whether a large response may be relayed while it arrives, because the
	// edge changes hardly any of its bytes. NewPassthrough then starts relaying the response.
	CanPassThrough(reply ReplyHead) bool
	NewPassthrough(reply ReplyHead) *ReplyPassthrough
	// AssemblyOptions returns the options for assembling a completion from a stream.
	AssemblyOptions() *answer.WriteOptions
	MediaType() string
	Usage() translate.Usage
	// UnparsedMarkup returns the markup that the engine sent as text instead of parsing it, or 0.
	UnparsedMarkup() translate.Markup
}

// Stream writes the client's events from the engine's events.
type Stream interface {
	translate.Stream
	// Translator returns the translate.Stream that does the work, or the Stream itself. A caller
	// that handles each event calls the Translator, which saves a call per method.
	Translator() translate.Stream
	// MarkEnded records that the response ended as its framing requires.
	MarkEnded()
	// AppendBody appends the events for a ReplyWholeAsStream response or for one piece of a
	// ReplyBytesAsEvents response.
	AppendBody(dst, body []byte, reply ReplyHead) ([]byte, error)
	MediaType() string
	// HasInBandErrors reports whether the stream can contain errors and keep-alives. A binary
	// stream cannot.
	HasInBandErrors() bool
}
