package endpoint

import (
	"sync"
	"time"

	"penstock/config"
	"penstock/proxy/running/snapshot"
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// chatBase is the common part of requests in the dialects that are chat underneath. It holds the
// chat request, checks it and writes it for an engine. Memory that only the request or only the
// answer needs is pooled separately, because a stream may be long.
type chatBase struct {
	held
	chat          *chat.Request   // nil once it is no longer needed for sending
	wantsStream   bool            // what the chat request asks for
	rules         chat.ModelRules // the model's rules, with the context length of its engines
	lowerEffort   bool            // lowers an effort to the nearest one that the model offers, instead of refusing it
	countsAtStart bool            // the client reads token counts at the start of a stream
	segments      [][]byte        // memory for the pieces of the engine's request
	room          []byte          // memory for the pieces that the edge itself writes
	answer        chatAnswer
	events        dialectEvents
}

var (
	chatRequests     = sync.Pool{New: func() any { return new(chat.Request) }}
	wholeCompletions = sync.Pool{New: func() any { return new(answer.Completion) }}
)

func newChatRequest() *chat.Request { return chatRequests.Get().(*chat.Request) }

func (b *chatBase) Model() []byte                           { return b.chat.Model }
func (b *chatBase) Streams() bool                           { return b.wantsStream }
func (b *chatBase) Chat() *chat.Request                     { return b.chat }
func (b *chatBase) AnswersJSON() bool                       { return true }
func (b *chatBase) Reads(reply Reply, asked bool) ReplyForm { return textReply(reply, asked) }

// textOnly is the input modality of a model whose engines are known to accept no images.
var textOnly = []string{"text"}

func (b *chatBase) Check(m *snapshot.Model, now time.Time) (Checked, error) {
	rules, prompt := m.ChatRules(now, b.lowerEffort, &b.rules), &b.chat.Prompt
	if len(prompt.Images) > 0 && rules.InputModalities == nil && m.Route.TextOnly() { // as in the catalog
		b.rules = *rules
		b.rules.InputModalities = textOnly
		rules = &b.rules
	}
	if err := b.chat.Check(rules); err != nil {
		return Checked{}, err
	}
	pool := upstreams.PoolText
	if len(prompt.Images) > 0 || prompt.HasVideo() {
		pool = upstreams.PoolVision
	}
	out := Checked{Pool: pool, PoolName: pool.String(), PromptBytes: prompt.Bytes, Dropped: b.chat.Hints()}
	if len(prompt.Images)+len(prompt.Media) > 0 {
		out.PromptBytes = 0
	}
	return out, nil
}

func (b *chatBase) Estimate(bytesPerToken float64) (prompt, output int) {
	tokens := &b.chat.Tokens
	return b.chat.Prompt.EstimateTokens(bytesPerToken), expectedOutput(tokens.Asked()) * tokens.Generated(b.chat.N)
}

func (b *chatBase) Limit() TokenLimit { return chatLimit{b.chat} }

// chatLimit is the TokenLimit of a chat request.
type chatLimit struct{ chat *chat.Request }

func (l chatLimit) TokenLimit() int { return l.chat.Tokens.TokenLimit() }
func (l chatLimit) Fit(limit int)   { l.chat.Tokens.Fit(limit) }

func (l chatLimit) Context(rules *chat.ModelRules) int {
	return rules.Context(len(l.chat.Prompt.Images) > 0)
}

func (l chatLimit) Prompt(_ float64, estimate int) int { return estimate + l.chat.Tokens.Said() }

// Prefix implements Request. The raw `messages` of one turn are a byte prefix of the next turn's,
// so they can be hashed unchanged.
func (b *chatBase) Prefix() (tools, messages []byte) {
	return b.chat.Tools().Raw(), b.chat.Messages().Raw()
}

// Session implements Request. It returns the zero value once the request has been released.
func (b *chatBase) Session() chat.Session {
	if b.chat == nil {
		return chat.Session{}
	}
	return chat.SessionOf(b.chat)
}

// AsksStream implements Request. It also asks for a stream if the engine can cancel only streams.
func (b *chatBase) AsksStream(p *engine.Profile) bool {
	return b.wantsStream || p.Has(config.QuirkCancelOnlyStreams)
}

func (b *chatBase) Fill(to Target) (Sending, error) {
	p, format := to.Upstream.Engine(), formatOf(&to)
	// Usage in every chunk costs a full parse of each chunk. A stream that may be resumed needs
	// usage in every chunk, because the edge must know how many tokens the client has.
	resumes := b.wantsStream && to.Model.Config.Retry.Resume > 0
	format.ContinuousUsage = format.ContinuousUsage && (b.countsAtStart || resumes)
	format.TokenTimings = format.TokenTimings && resumes
	b.segments, b.room = b.chat.Segments(b.segments[:0], b.room[:0], &format)
	return jsonSending(p.Path(config.OpChat), to.Stream, b.segments), nil
}

// formatOf returns the format in which a target's engine accepts a chat request for its model.
func formatOf(to *Target) chat.EngineFormat {
	format := to.Formats.of(to.Upstream.Engine())
	format.Served, format.Stream, format.Salt, format.Priority = to.Served, to.Stream, to.Salt, to.Priority
	if to.Refused != (Refused{}) {
		reasoning := *format.Reasoning
		reasoning.Refused = to.Refused.Efforts
		format.Reasoning = &reasoning
		format.JoinTurns = format.JoinTurns || to.Refused.AdjacentTurns
	}
	return format
}

func jsonSending(path string, stream bool, segments [][]byte) Sending {
	accept := jsonType
	if stream {
		accept = eventStreamType
	}
	return Sending{Path: path, ContentType: jsonType, Accept: accept, Body: segments}
}

// stream returns the Stream of a dialect's writer.
func (b *chatBase) stream(of translate.Stream) Stream {
	b.events = dialectEvents{of, &b.answer.offered}
	return &b.events
}

func (b *chatBase) Release() {
	if b.chat != nil {
		b.chat.Reset()
		chatRequests.Put(b.chat)
		b.chat = nil
	}
}

// recycle releases everything but the memory, which it keeps for the next request.
func (b *chatBase) recycle() {
	b.Release()
	b.answer.release()
	clear(b.segments[:cap(b.segments)]) // they refer to requests
	segments, room, tools := b.segments[:0], b.room[:0], b.answer.tools[:0]
	*b = chatBase{}
	b.segments, b.room, b.answer.tools = segments, room, tools
}

// chatAnswer is the Unary of the dialects that are chat underneath.
type chatAnswer struct {
	completion *answer.Completion
	options    answer.Options
	offered    translate.Offered
	tools      []byte       // the names of the request's tools
	facts      answer.Facts // facts about a completion that was read
	writer     completionWriter
	plain      bool // the dialect is chat, so a plain completion is spliced without an index
}

// completionWriter writes an answer in a dialect.
type completionWriter interface {
	AppendWhole(dst []byte, c *answer.Completion) ([]byte, error)
}

// begin sets what one attempt's answer must contain in every dialect.
func (a *chatAnswer) begin(about *Answer, r *chat.Request) {
	m := about.Model
	a.options = answer.Options{Model: m.ID, Created: about.Created.Unix(), N: r.N, PromptTokens: about.PromptTokens}
	if r.ToolUse.Offered && len(a.tools) == 0 { // the names are the same for every attempt
		a.tools = chat.AppendToolNames(a.tools, r)
	}
	a.options.Tools, a.options.SingleToolCall = a.tools, r.ToolUse.Single
	a.offered = translate.Offered{Tools: r.ToolUse.Offered}
}

// Append implements Unary. The codec refers to the completion until it is recycled.
func (a *chatAnswer) Append(dst, completion []byte, _ Reply) ([]byte, error) {
	if a.plain {
		var done bool
		if dst, a.facts, done = answer.AppendPlain(dst, completion, &a.options); done {
			return dst, nil
		}
	}
	if a.completion == nil {
		a.completion = wholeCompletions.Get().(*answer.Completion)
	}
	a.completion.SingleToolCall(a.options.SingleToolCall)
	if err := a.completion.Parse(completion); err != nil {
		return dst, err
	}
	a.facts = answer.Facts{Usage: a.completion.Usage(), Markup: a.completion.Markup()}
	return a.writer.AppendWhole(dst, a.completion)
}

// PassesOn implements Unary. A completion is changed too much to be passed on.
func (a *chatAnswer) PassesOn(Reply) bool { return false }

func (a *chatAnswer) PassOn(Reply) *PassOn       { panic("BUG: a chat completion is not passed on") }
func (a *chatAnswer) Assembled() *answer.Options { return &a.options }
func (a *chatAnswer) MediaType() string          { return jsonType }
func (a *chatAnswer) Usage() translate.Usage     { return a.facts.Usage }
func (a *chatAnswer) Markup() translate.Markup   { return suspect(a.facts.Markup, &a.offered) }

func (a *chatAnswer) release() {
	if a.completion != nil {
		a.completion.Reset()
		wholeCompletions.Put(a.completion)
	}
}

// answerID returns the id for an answer that needs one from the edge: prefix and the call's id.
func answerID(prefix string, requestID []byte) string {
	return prefix + string(requestID[len(requestIDPrefix):])
}

// suspect returns m, or 0 if the engine was not expected to parse that kind of markup.
func suspect(m translate.Markup, offered *translate.Offered) translate.Markup {
	if m.Suspect(*offered) {
		return m
	}
	return 0
}

// dialectEvents is the Stream for a dialect whose stream is in package translate.
type dialectEvents struct {
	translate.Stream
	offered *translate.Offered
}

func (e *dialectEvents) Markup() translate.Markup { return suspect(e.Stream.Markup(), e.offered) }
func (*dialectEvents) Ended()                     {}

// AppendBody implements Stream. In these dialects, every reply to a request for a stream is a
// stream.
func (*dialectEvents) AppendBody([]byte, []byte, Reply) ([]byte, error) {
	panic("BUG: a document in place of a stream")
}

func (*dialectEvents) MediaType() string { return eventStreamType }
func (*dialectEvents) InBand() bool      { return true }

// The forms of chat members by their names in a profile. If a profile names none, the member is
// passed on unchanged.
var (
	toolChoiceForms = map[string]chat.ToolChoiceForm{
		config.ToolChoiceWords: chat.ToolChoiceWords, config.ToolChoiceIgnored: chat.ToolChoiceIgnored,
	}
	responseForms = map[string]chat.ResponseForm{
		config.ResponseFormatSchemas: chat.ResponseSchemas, config.ResponseFormatValue: chat.ResponseValue,
	}
	nullForms = map[string]chat.NullForm{
		config.NullContentEmpty: chat.NullEmpty, config.NullContentEmptyWithoutCalls: chat.NullEmptyWithoutCalls,
	}
)

// Formats remembers the format in which each engine accepts a chat request. Any goroutine may use
// it.
type Formats struct {
	byProfile sync.Map // *engine.Profile → *chat.EngineFormat
}

// of returns an engine's format, without the members that differ from call to call.
func (f *Formats) of(p *engine.Profile) chat.EngineFormat {
	if t, ok := f.byProfile.Load(p); ok {
		return *t.(*chat.EngineFormat)
	}
	r, forms := p.Reasoning(), p.Forms()
	t := &chat.EngineFormat{
		TokenMember:     p.TokenLimitMember(),
		ContinuousUsage: p.Has(config.QuirkContinuousUsage),
		TokenTimings:    p.Has(config.QuirkTokenTimings),
		Reasoning: &chat.ReasoningFormat{
			Words: r.Words, Off: members(r.Off), On: members(r.On), History: r.History,
		},
		Prefill: members(p.Prefill()),

		DeveloperAsSystem: p.Has(config.QuirkDeveloperAsSystem),

		ToolChoice:     toolChoiceForms[forms.ToolChoice],
		ResponseFormat: responseForms[forms.ResponseFormat],
		NullContent:    nullForms[forms.NullContent],
		JoinTurns:      forms.AdjacentTurns == config.TurnsJoined,
	}
	f.byProfile.Store(p, t)
	return *t
}

// Forget drops all formats, because a reload may change profiles.
func (f *Formats) Forget() { f.byProfile.Clear() }

func members(in []engine.Member) []chat.Member {
	out := make([]chat.Member, len(in))
	for i, m := range in {
		out[i] = chat.Member(m)
	}
	return out
}
