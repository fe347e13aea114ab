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

// Request is the codec of one client's request. It reads the request, writes it for engines, and
// prepares for their replies. It belongs to one call and to the call's goroutine. Functions take
// only the smaller interfaces that they use.
type Request interface {
	Decoder
	Prompt
	Outgoing
	Replies
	// Recycle releases everything. The codec must not be used afterwards.
	Recycle()
}

// Decoder reads and checks a client's request.
type Decoder interface {
	// Decode reads the request and validates what does not depend on the model.
	Decode(in Input) error
	// Model returns the model's name as the client wrote it.
	Model() []byte
	// Streams reports whether the client gets the answer as it is generated. For a form the result
	// is final only once the whole form has been read.
	Streams() bool
	// Check applies the model's rules. now determines which context lengths reported by the model's
	// engines count as recent.
	Check(m *snapshot.Model, now time.Time) (Checked, error)
	// Ended reports whether the client's body was read to its end. A form is read while it is sent
	// on.
	Ended() bool
	// Came returns how many bytes of the client's body Decode and Fill have read. It returns 0 for
	// a body that was read earlier.
	Came() int64
}

// Prompt says what limits, routing and engines need to know about a request.
type Prompt interface {
	// Estimate returns the estimated numbers of tokens in the prompt and in the answer.
	Estimate(bytesPerToken float64) (prompt, output int)
	// Limit returns the answer's token limit.
	Limit() TokenLimit
	// Prefix returns the prefix of the prompt, by which a route may find an engine that has cached
	// it. It returns nil if the request has no such prefix.
	Prefix() (tools, messages []byte)
	// Session returns what the request's body says about the client's session.
	Session() chat.Session
	// Chat returns the chat request while it is held. It returns nil if the request is not chat.
	Chat() *chat.Request
}

// Outgoing writes a request for engines.
type Outgoing interface {
	// AsksStream reports whether a request to an engine with the profile p asks for a stream.
	AsksStream(p *engine.Profile) bool
	// Fill writes the request for an engine.
	Fill(to Target) (Sending, error)
	// Spent reports whether the request cannot be sent again because some of what was sent was not
	// kept.
	Spent() bool
	// Release releases what is held for sending. The request cannot be sent after that.
	Release()
}

// Replies reads what engines reply to a request.
type Replies interface {
	// Reads says what a reply with status 200 is, judging by its head. asked is true if the request
	// was for a stream.
	Reads(reply Reply, asked bool) ReplyForm
	// AnswersJSON reports whether a whole answer is certain to be JSON, which white space may
	// precede.
	AnswersJSON() bool
	// Unary and Stream prepare for one attempt's reply.
	Unary(about Answer) Unary
	Stream(about Answer) Stream
}

// held implements the methods of Request that are the same for all requests whose body is read
// before it is decoded.
type held struct{}

func (held) Ended() bool { return true }
func (held) Spent() bool { return false }
func (held) Came() int64 { return 0 }

// Input is what a request is decoded from.
type Input struct {
	Body     *body.Body
	From     body.Source // the source of a form, which is read while it is decoded
	Memory   *limit.Memory
	Snapshot *snapshot.Snapshot
	Header   *fasthttp.RequestHeader
	Seal     seal.Box // the key's box
}

// Checked is the result of applying the model's rules.
type Checked struct {
	Pool     upstreams.Pool
	PoolName string // empty: the rules refused the request before its pool was known
	// PromptBytes is the length of a prompt that is only text, otherwise 0. The edge learns the
	// model's bytes per token from it.
	PromptBytes int
	// Dropped names what was omitted from the request, from a fixed list.
	Dropped []string
	// Unfit lists the model's engines that cannot answer the request.
	Unfit []upstreams.ID
}

// TokenLimit is the token limit of an answer.
type TokenLimit interface {
	// TokenLimit returns the limit that the engine gets, or -1 if there is none.
	TokenLimit() int
	// Fit lowers the limit. A negative limit undoes an earlier Fit.
	Fit(limit int)
	// Context returns the model's configured context for this request, or 0 if it is unknown.
	Context(rules *chat.ModelRules) int
	// Prompt returns the estimated number of tokens in the longest prompt. estimate is the estimate
	// for the whole request.
	Prompt(bytesPerToken float64, estimate int) int
}

// Target is the engine for which a request is written.
type Target struct {
	Upstream *upstreams.Upstream
	Model    *snapshot.Model
	Served   string
	Stream   bool // the request asks for a stream
	Salt     chat.Salt
	Priority chat.Priority
	Formats  *Formats
	Refused  Refused
}

// Refused says what an engine was found to refuse in requests for a model, in addition to what its
// profile lists. Such a request is changed before it is sent. The zero value means that the engine
// refuses nothing.
type Refused struct {
	Efforts       chat.EffortSet // values of the reasoning effort
	AdjacentTurns bool           // consecutive turns with the same role
}

// And returns the union of r and other.
func (r Refused) And(other Refused) Refused {
	return Refused{Efforts: r.Efforts | other.Efforts, AdjacentTurns: r.AdjacentTurns || other.AdjacentTurns}
}

// Sent holds the values in a sent request that an engine may refuse, but may accept if they are
// changed.
type Sent struct {
	Limit         int    // the answer's token limit; -1: none
	Effort        string // the value of the reasoning effort; empty: none
	AdjacentTurns bool   // consecutive turns with the same role
}

// SentOf returns the Sent of a request that was written for a target. The request must still be
// held.
func SentOf(p Prompt, to *Target) Sent {
	sent, c := Sent{Limit: p.Limit().TokenLimit()}, p.Chat()
	if c == nil {
		return sent
	}
	format := formatOf(to)
	sent.Effort = chat.EffortWord(c, &format)
	sent.AdjacentTurns = chat.HasAdjacentTurns(c) && !chat.JoinsTurns(c, &format)
	return sent
}

// PriorityOf returns the priority of a call at an upstream's engine. It is the rank of the call's
// class if the upstream is configured to use the rank. A client's own number stays if the model
// allows clients to send one.
func PriorityOf(u *upstreams.Upstream, m *snapshot.Model, rank int) chat.Priority {
	number, told := upstreams.Priority(u, rank)
	if !told {
		return chat.Priority{}
	}
	return chat.Priority{Number: number, Told: true, Own: slices.Contains(m.Config.AllowMembers, "priority")}
}

// Sending is a request in the form in which it is sent to an engine.
type Sending struct {
	Path, ContentType, Accept string
	Body                      [][]byte
	Reader                    io.Reader // instead of Body
}

// ErrNoPath is Fill's error for an engine that is known to lack the endpoint.
var ErrNoPath = errors.New("the engine does not have the endpoint")

// Answer is what a codec needs to know about its call for the answer.
type Answer struct {
	Model        *config.Model
	RequestID    []byte
	Created      time.Time
	PromptTokens int
	Streamed     bool     // the request was for a stream
	Seal         seal.Box // the box of the key and the model, if the dialect uses it
}

// Reply is the head of an engine's reply.
type Reply interface {
	Header(name string) []byte
	// Framed reports whether the reply itself says where the body ends. Otherwise the body ends
	// with the connection.
	Framed() bool
}

// ReplyForm says what a reply is.
type ReplyForm uint8

// The forms of a reply.
const (
	NotHead       ReplyForm = iota // the head has not arrived
	Whole                          // one document, read to its end
	Events                         // a stream
	Bytes                          // bytes, passed on as they arrive
	WholeOfStream                  // one document instead of the requested stream
	BytesOfStream                  // bytes instead of the stream, put into events as they arrive
	Document                       // another type: an answer, an error, or the stream
	Complaint                      // a document where none is expected: an error or an unknown reply
	WrongType
)

// Unary is the unary codec. It writes the client's answer from an engine's whole reply.
type Unary interface {
	// Append appends the answer for body. If the request was for a stream, body is a chat
	// completion.
	Append(dst, body []byte, reply Reply) ([]byte, error)
	// PassesOn reports whether a large reply may be passed on as it arrives because hardly any of
	// it changes. PassOn starts to pass the reply on.
	PassesOn(reply Reply) bool
	PassOn(reply Reply) *PassOn
	// Assembled says how a completion is assembled from a stream.
	Assembled() *answer.Options
	MediaType() string
	Usage() translate.Usage
	// Markup returns the markup that the engine should have parsed, or 0 if there is none.
	Markup() translate.Markup
}

// Stream is the stream codec. It writes the client's events from the engine's events.
type Stream interface {
	translate.Stream
	// Ended records that the framed end of the reply has arrived.
	Ended()
	// AppendBody appends the events for a WholeOfStream reply, or for a piece of a BytesOfStream
	// reply.
	AppendBody(dst, body []byte, reply Reply) ([]byte, error)
	MediaType() string
	// InBand reports whether the stream can carry errors and keep-alives. Binary streams cannot.
	InBand() bool
}
