package endpoint

import (
	"slices"
	"sync"
	"time"

	"penstock/config"
	"penstock/proxy/body"
	"penstock/proxy/snapshot"
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// chatBase is what the requests of the dialects that are chat underneath have in common: the chat
// request, and how it is checked, written for an engine and answered whole. The parts that only the
// request or only the answer needs are pooled by themselves, since a stream may be long.
type chatBase struct {
	chat          *chat.Request // nil once nothing of it is needed for sending
	wantsStream   bool
	rules         chat.ModelRules    // the model's, with the context length of its engines
	lowerEffort   bool               // to the nearest effort that the model offers, instead of an error
	countsAtStart bool               // clients read counts at the start of a stream
	completion    *answer.Completion // of a whole answer
	options       answer.Options
	offered       translate.Offered
	usage         translate.Usage // of a whole answer that was read
	events        dialectEvents
	segments      [][]byte // memory for the pieces of what is sent
	room          []byte   // and for those that the edge writes itself
}

var (
	chatRequests     = sync.Pool{New: func() any { return new(chat.Request) }}
	wholeCompletions = sync.Pool{New: func() any { return new(answer.Completion) }}
)

// begin makes the base ready for a request.
func (b *chatBase) begin() { b.chat = chatRequests.Get().(*chat.Request) }

// Model implements Request.
func (b *chatBase) Model() []byte { return b.chat.Model }

// Form implements Request.
func (b *chatBase) Form() *body.Form { return nil }

// AnswersJSON implements Request.
func (b *chatBase) AnswersJSON() bool { return true }

// Offered implements Request.
func (b *chatBase) Offered() translate.Offered { return b.offered }

// Reads implements Request.
func (b *chatBase) Reads(reply Reply, asked bool) ReplyForm { return textReply(reply, asked) }

// textOnly are the input modalities of a model whose engines are known to take no images.
var textOnly = []string{"text"}

// Check implements Request.
func (b *chatBase) Check(m *snapshot.Model, now time.Time) (Checked, error) {
	rules := m.ChatRules(now, b.lowerEffort, &b.rules)
	if len(b.chat.Prompt.Images) > 0 && rules.InputModalities == nil && m.Route.TextOnly() { // as the catalog says
		b.rules = *rules
		b.rules.InputModalities = textOnly
		rules = &b.rules
	}
	if err := b.chat.Check(rules); err != nil {
		return Checked{}, err
	}
	pool := upstreams.PoolText
	if len(b.chat.Prompt.Images) > 0 || b.chat.Prompt.HasVideo() {
		pool = upstreams.PoolVision
	}
	out := Checked{Pool: pool, PoolName: pool.String(), PromptBytes: b.chat.Prompt.Bytes}
	if len(b.chat.Prompt.Images)+len(b.chat.Prompt.Media) > 0 {
		out.PromptBytes = 0
	}
	return out, nil
}

// Estimate implements Request.
func (b *chatBase) Estimate(bytesPerToken float64) (prompt, output int) {
	return b.chat.Prompt.EstimateTokens(bytesPerToken), expectedOutput(b.chat.Tokens.Max)
}

// Limit implements Request.
func (b *chatBase) Limit() TokenLimit { return b }

// TokenLimit implements TokenLimit.
func (b *chatBase) TokenLimit() int { return b.chat.Tokens.TokenLimit() }

// Fit implements TokenLimit.
func (b *chatBase) Fit(limit int) { b.chat.Tokens.Fit(limit) }

// Context implements TokenLimit.
func (b *chatBase) Context(rules *chat.ModelRules) int {
	return rules.Context(len(b.chat.Prompt.Images) > 0)
}

// Prompt implements TokenLimit.
func (b *chatBase) Prompt(_ float64, estimate int) int { return estimate }

// Prefix implements Request. The raw elements of `messages` of one turn are a byte prefix of the
// next turn's, so they can be hashed as they stand.
func (b *chatBase) Prefix() (tools, messages []byte) {
	return b.chat.Tools().Raw(), b.chat.Messages().Raw()
}

// Streams implements Request.
func (b *chatBase) Streams() bool { return b.wantsStream }

// AsksStream implements Request: also where the engine's work can be cancelled in no other way.
func (b *chatBase) AsksStream(p *engine.Profile) bool {
	return b.wantsStream || p.Has(config.QuirkCancelOnlyStreams)
}

// Fill implements Request.
func (b *chatBase) Fill(to Target) (Sending, error) {
	p := to.Upstream.Engine()
	format := to.Formats.of(p)
	format.Served, format.Stream, format.Salt = to.Served, to.Stream, to.Salt
	// Usage in every chunk costs a full parse of each.
	format.ContinuousUsage = format.ContinuousUsage && b.countsAtStart
	b.segments, b.room = b.chat.Segments(b.segments[:0], b.room[:0], &format)
	return jsonSending(p.Path(config.OpChat), to.Stream, b.segments), nil
}

func jsonSending(path string, stream bool, segments [][]byte) Sending {
	accept := jsonType
	if stream {
		accept = eventStreamType
	}
	return Sending{Path: path, ContentType: jsonType, Accept: accept, Body: segments}
}

// describe notes of the answer what is the same in every dialect.
func (b *chatBase) describe(about *Answer) {
	b.options = answer.Options{
		Model: about.Model.ID, Created: about.Created.Unix(), N: b.chat.N, PromptTokens: about.PromptTokens,
	}
	b.noteOffered(about.Model)
}

func (b *chatBase) noteOffered(m *config.Model) {
	b.offered = translate.Offered{
		Tools: b.chat.ToolUse.Offered,
		Reasoning: b.chat.Reasoning.Effort != "" && b.chat.Reasoning.Effort != "none" || len(m.SupportedReasoningEfforts) > 0 ||
			slices.Contains(m.SupportedFeatures, chat.FeatureReasoning),
	}
}

// answerID is what an answer is called that gets its id here: prefix and that of the call.
func answerID(prefix string, requestID []byte) string {
	return prefix + string(requestID[len(requestIDPrefix):])
}

// parse reads a whole chat completion, which is borrowed until the codec ends.
func (b *chatBase) parse(completion []byte) (*answer.Completion, error) {
	if b.completion == nil {
		b.completion = wholeCompletions.Get().(*answer.Completion)
	}
	if err := b.completion.Parse(completion); err != nil {
		return nil, err
	}
	b.usage = b.completion.Usage()
	return b.completion, nil
}

// PassesOn implements Unary: too much of a completion is changed.
func (b *chatBase) PassesOn(Reply) bool { return false }

// PassOn implements Unary.
func (b *chatBase) PassOn(Reply) *PassOn { panic("BUG: a chat completion is not passed on") }

// Assembled implements Unary.
func (b *chatBase) Assembled() *answer.Options { return &b.options }

// MediaType implements Unary.
func (b *chatBase) MediaType() string { return jsonType }

// Usage implements Unary.
func (b *chatBase) Usage() translate.Usage { return b.usage }

// Markup implements Unary.
func (b *chatBase) Markup() translate.Markup {
	if b.completion == nil {
		return 0
	}
	return b.completion.Markup()
}

// Release implements Request.
func (b *chatBase) Release() {
	if b.chat != nil {
		b.chat.Reset()
		chatRequests.Put(b.chat)
		b.chat = nil
	}
}

// recycle gives everything back and leaves the memory for the next request.
func (b *chatBase) recycle() {
	b.Release()
	if b.completion != nil {
		b.completion.Reset()
		wholeCompletions.Put(b.completion)
	}
	clear(b.segments[:cap(b.segments)]) // they point into requests
	*b = chatBase{segments: b.segments[:0], room: b.room[:0]}
}

// dialectEvents is the Stream of a dialect that has one in package translate.
type dialectEvents struct{ translate.Stream }

// Ended implements Stream.
func (dialectEvents) Ended() {}

// AppendWhole implements Stream. No reply of these dialects has the form WholeOfStream.
func (dialectEvents) AppendWhole([]byte, []byte, Reply) ([]byte, error) {
	panic("BUG: a document in place of a stream")
}

// MediaType implements Stream.
func (dialectEvents) MediaType() string { return eventStreamType }

// InBand implements Stream.
func (dialectEvents) InBand() bool { return true }
