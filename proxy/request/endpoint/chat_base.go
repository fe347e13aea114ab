package endpoint

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"penstock/config"
	"penstock/proxy/running/snapshot"
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// chatBase is the common base of the codecs for chat and for the dialects translated to chat. It
// checks the chat request and writes it for an engine.
type chatBase struct {
	bufferedBodyBase
	chat        *pendingChat // nil after Release
	wantsStream bool
	// Whether an unsupported reasoning effort is lowered rather than rejected.
	mayLowerEffort bool
	usageAtStart   bool // whether the client expects token counts at the start of a stream
	answer         chatAnswer
	events         dialectEvents
}

// pendingChat is a chat request that may still be sent to an engine.
type pendingChat struct {
	chat.Request
	rules      chat.ModelRules // the model's rules, including the context length of its engines
	segments   [][]byte
	segmentBuf []byte
}

var (
	chatRequestPool = sync.Pool{New: func() any { return new(pendingChat) }}
	completionPool  = sync.Pool{New: func() any { return new(answer.ChatCompletion) }}
)

func newChatRequest() *pendingChat { return chatRequestPool.Get().(*pendingChat) }

func (b *chatBase) Model() []byte           { return b.chat.Model }
func (b *chatBase) ClientWantsStream() bool { return b.wantsStream }
func (b *chatBase) AnswersJSON() bool       { return true }
func (b *chatBase) DetectReplyForm(reply ReplyHead, streamed bool) ReplyForm {
	return detectTextReplyForm(reply, streamed)
}

// Chat implements Request.
func (b *chatBase) Chat() *chat.Request {
	if b.chat == nil {
		return nil
	}
	return &b.chat.Request
}

var textOnlyModalities = []string{"text"}

func (b *chatBase) CheckModelRules(m *snapshot.Model, now time.Time) (CheckResult, error) {
	rules, prompt := m.ChatRules(now, b.mayLowerEffort, &b.chat.rules), &b.chat.Prompt
	// The catalog also lists such a model as text-only.
	if len(prompt.Images) > 0 && rules.InputModalities == nil && m.Route.IsTextOnly() {
		b.chat.rules = *rules
		b.chat.rules.InputModalities = textOnlyModalities
		rules = &b.chat.rules
	}
	if err := b.chat.CheckRules(rules); err != nil {
		return CheckResult{}, err
	}
	pool := upstreams.PoolText
	if len(prompt.Images) > 0 || prompt.HasVideo() {
		pool = upstreams.PoolVision
	}
	out := CheckResult{Pool: pool, PoolName: pool.String(), PromptBytes: prompt.Bytes, Dropped: b.chat.MembersWithUnknownHints()}
	if len(prompt.Images)+len(prompt.Media) > 0 {
		out.PromptBytes = 0
	}
	return out, nil
}

func (b *chatBase) EstimateTokens(bytesPerToken float64) (prompt, output, answers int) {
	tokens := &b.chat.Tokens
	answers = tokens.GeneratedChoices(b.chat.N)
	return b.chat.Prompt.EstimateTokens(bytesPerToken), expectedOutput(tokens.ClientLimit()) * answers, answers
}

func (b *chatBase) AnswerTokenLimit() TokenLimit { return chatTokenLimit{&b.chat.Request} }

type chatTokenLimit struct{ chat *chat.Request }

func (l chatTokenLimit) TokenLimit() int   { return l.chat.Tokens.TokenLimit() }
func (l chatTokenLimit) LowerTo(limit int) { l.chat.Tokens.LowerTo(limit) }

func (l chatTokenLimit) ContextLength(rules *chat.ModelRules) int {
	return rules.ContextTokens(len(l.chat.Prompt.Images) > 0)
}

func (l chatTokenLimit) PromptTokens(_ float64, estimate int) int {
	return estimate + l.chat.Tokens.GeneratedTokens()
}

// PromptPrefix implements Request. The raw messages of one turn are a byte prefix of the messages
// of the next turn, so routing can hash the raw bytes.
func (b *chatBase) PromptPrefix() (tools, messages []byte) {
	return b.chat.Tools().Raw(), b.chat.Messages().Raw()
}

// SessionHashes implements Request. After Release it returns the zero value.
func (b *chatBase) SessionHashes() chat.SessionHashes {
	if b.chat == nil {
		return chat.SessionHashes{}
	}
	return chat.RequestSession(&b.chat.Request)
}

// WantsStream implements Request. It also returns true for an engine that can cancel only streams.
func (b *chatBase) WantsStream(p *engine.Profile) bool {
	return b.wantsStream || p.HasQuirk(config.QuirkCancelOnlyStreams)
}

func (b *chatBase) EncodeRequest(to Target) (EngineRequest, error) {
	p := to.Upstream.Engine()
	var format chat.EngineFormat
	setRequestFormat(&format, &to)
	// If every chunk contained usage, the edge would have to parse every chunk completely. A stream
	// that may be resumed needs usage in every chunk, because the edge must know how many tokens
	// the client has received.
	resumes := b.wantsStream && to.Model.Config.Retry.Resume > 0
	format.ContinuousUsage = format.ContinuousUsage && (b.usageAtStart || resumes)
	format.TokenTimings = format.TokenTimings && resumes
	r := b.chat
	r.segments, r.segmentBuf = r.AppendSegments(r.segments[:0], r.segmentBuf[:0], &format)
	return newEngineRequest(p.Path(config.OpChat), to.Stream, r.segments), nil
}

// setRequestFormat sets format to the format for a target.
func setRequestFormat(format *chat.EngineFormat, to *Target) {
	*format = *to.Formats.requestFormatFor(to.Upstream.Engine())
	format.Served, format.Stream, format.Salt, format.Priority = to.Served, to.Stream, to.Salt, to.Priority
	if to.Refused != (RejectedParts{}) {
		reasoning := *format.Reasoning
		reasoning.Refused = to.Refused.Efforts
		format.Reasoning = &reasoning
		format.JoinTurns = format.JoinTurns || to.Refused.AdjacentTurns
	}
}

func newEngineRequest(path string, stream bool, segments [][]byte) EngineRequest {
	accept := jsonType
	if stream {
		accept = eventStreamType
	}
	return EngineRequest{Path: path, ContentType: jsonType, Accept: accept, Body: segments}
}

func (b *chatBase) wrapStream(of translate.Stream) Stream {
	b.events = dialectEvents{of, &b.answer.offeredTools}
	return &b.events
}

func (b *chatBase) Release() {
	if r := b.chat; r != nil {
		r.Reset()
		r.rules = chat.ModelRules{}
		clear(r.segments[:cap(r.segments)]) // the segments refer to the request
		chatRequestPool.Put(r)
		b.chat = nil
	}
}

// recycle releases everything except a buffer, which a later request can reuse.
func (b *chatBase) recycle() {
	b.Release()
	b.answer.release()
	tools := b.answer.options.Tools[:0]
	*b = chatBase{}
	b.answer.options.Tools = tools
}

// chatAnswer is the UnaryAnswer for chat and for the dialects translated to chat.
type chatAnswer struct {
	completion   *answer.ChatCompletion
	options      answer.WriteOptions
	offeredTools translate.OfferedFeatures
	facts        answer.Facts
	writer       completionWriter
	isChat       bool // whether the dialect is chat, in which a plain completion needs no full parse
}

type completionWriter interface {
	AppendCompletion(dst []byte, c *answer.ChatCompletion) ([]byte, error)
}

func (a *chatAnswer) setOptions(about *CallInfo, r *chat.Request) {
	m := about.Model
	tools := a.options.Tools
	if r.ToolUse.Offered && len(tools) == 0 { // the names are the same for every attempt
		tools = chat.AppendToolNames(tools, r)
	}
	a.options = answer.WriteOptions{
		Model: m.ID, Created: about.Created.Unix(), N: r.N, PromptTokens: about.PromptTokens,
		Tools: tools, SingleToolCall: r.ToolUse.Single,
	}
	a.offeredTools = translate.OfferedFeatures{Tools: r.ToolUse.Offered}
}

// AppendAnswer implements UnaryAnswer. The codec refers to completion until Recycle is called.
func (a *chatAnswer) AppendAnswer(dst, completion []byte, _ ReplyHead) ([]byte, error) {
	if a.isChat {
		var done bool
		if dst, a.facts, done = answer.AppendSimpleAnswer(dst, completion, &a.options); done {
			return dst, nil
		}
	}
	if a.completion == nil {
		a.completion = completionPool.Get().(*answer.ChatCompletion)
	}
	a.completion.SetSingleToolCall(a.options.SingleToolCall)
	if err := a.completion.Parse(completion); err != nil {
		return dst, err
	}
	a.facts = answer.Facts{Usage: a.completion.Usage(), Markup: a.completion.Markup()}
	return a.writer.AppendCompletion(dst, a.completion)
}

// CanPassThrough implements UnaryAnswer. A chat completion cannot be relayed while it arrives,
// because the edge changes too much of it.
func (a *chatAnswer) CanPassThrough(ReplyHead) bool { return false }

func (a *chatAnswer) NewPassthrough(ReplyHead) *ReplyPassthrough {
	panic("BUG: a chat completion is not passed on")
}
func (a *chatAnswer) AssemblyOptions() *answer.WriteOptions { return &a.options }
func (a *chatAnswer) MediaType() string                     { return jsonType }
func (a *chatAnswer) Usage() translate.Usage                { return a.facts.Usage }
func (a *chatAnswer) UnparsedMarkup() translate.Markup {
	return unparsedMarkupOnly(a.facts.Markup, &a.offeredTools)
}

func (a *chatAnswer) release() {
	if a.completion != nil {
		a.completion.Reset()
		completionPool.Put(a.completion)
	}
}

func answerID(prefix string, requestID []byte) string {
	return prefix + string(requestID[len(requestIDPrefix):])
}

// unparsedMarkupOnly returns m if m is markup that the engine should have parsed. Otherwise, it
// returns 0.
func unparsedMarkupOnly(m translate.Markup, offered *translate.OfferedFeatures) translate.Markup {
	if m.IsSuspect(*offered) {
		return m
	}
	return 0
}

// dialectEvents is the Stream for a dialect implemented in package translate.
type dialectEvents struct {
	translate.Stream
	offeredFeatures *translate.OfferedFeatures
}

func (e *dialectEvents) UnparsedMarkup() translate.Markup {
	return unparsedMarkupOnly(e.Stream.UnparsedMarkup(), e.offeredFeatures)
}

// Translator implements Stream.
func (e *dialectEvents) Translator() translate.Stream { return e.Stream }

func (*dialectEvents) MarkEnded() {}

// AppendBody implements Stream. It is never called, because in these dialects the response to a
// stream request is always a stream.
func (*dialectEvents) AppendBody([]byte, []byte, ReplyHead) ([]byte, error) {
	panic("BUG: a document in place of a stream")
}

func (*dialectEvents) MediaType() string     { return eventStreamType }
func (*dialectEvents) HasInBandErrors() bool { return true }

// These maps translate the format names in an engine profile into the format of a chat member. If a
// profile names no format for a member, the member is not changed.
var (
	toolChoiceFormByName = map[string]chat.ToolChoiceForm{
		config.ToolChoiceWords: chat.ToolChoiceWords, config.ToolChoiceIgnored: chat.ToolChoiceIgnored,
	}
	responseFormatFormByName = map[string]chat.ResponseForm{
		config.ResponseFormatSchemas: chat.ResponseSchemas, config.ResponseFormatValue: chat.ResponseValue,
	}
	nullContentFormByName = map[string]chat.NullContentForm{
		config.NullContentEmpty: chat.NullEmpty, config.NullContentEmptyWithoutCalls: chat.NullEmptyWithoutCalls,
	}
)

// RequestFormatCache caches the format of chat requests for each engine profile. A
// RequestFormatCache may be used by multiple goroutines.
type RequestFormatCache struct {
	// There are few profiles, so searching a list is faster than a map. The list is replaced when a
	// profile is added.
	list atomic.Pointer[[]cachedRequestFormat]
}

type cachedRequestFormat struct {
	of     *engine.Profile
	format *chat.EngineFormat
}

// requestFormatFor returns the format for an engine profile, without the fields that differ between
// calls. The caller must not change it.
func (f *RequestFormatCache) requestFormatFor(p *engine.Profile) *chat.EngineFormat {
	for {
		list := f.list.Load()
		var known []cachedRequestFormat
		if list != nil {
			known = *list
		}
		for i := range known {
			if known[i].of == p {
				return known[i].format
			}
		}
		more := append(slices.Clip(known), cachedRequestFormat{p, newRequestFormat(p)})
		f.list.CompareAndSwap(list, &more)
	}
}

func newRequestFormat(p *engine.Profile) *chat.EngineFormat {
	r, forms := p.Reasoning(), p.RequestForms()
	return &chat.EngineFormat{
		TokenMember:     p.TokenLimitMember(),
		ContinuousUsage: p.HasQuirk(config.QuirkContinuousUsage),
		TokenTimings:    p.HasQuirk(config.QuirkTokenTimings),
		Reasoning: &chat.ReasoningFormat{
			Words: r.Words, Off: convertMembers(r.Off), On: convertMembers(r.On), History: r.History,
		},
		Prefill: convertMembers(p.PrefillMembers()),

		DeveloperAsSystem: p.HasQuirk(config.QuirkDeveloperAsSystem),

		ToolChoice:     toolChoiceFormByName[forms.ToolChoice],
		ResponseFormat: responseFormatFormByName[forms.ResponseFormat],
		NullContent:    nullContentFormByName[forms.NullContent],
		JoinTurns:      forms.AdjacentTurns == config.AdjacentTurnsJoined,
	}
}

// Clear clears the cache, because a reload may change the profiles.
func (f *RequestFormatCache) Clear() { f.list.Store(nil) }

func convertMembers(in []engine.RequestMember) []chat.Member {
	out := make([]chat.Member, len(in))
	for i, m := range in {
		out[i] = chat.Member(m)
	}
	return out
}
