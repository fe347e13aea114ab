package endpoint

import (
	"time"

	"penstock/config"
	"penstock/proxy/running/snapshot"
	"penstock/translate/chat"
	"penstock/translate/forward"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// These endpoints accept JSON and answer with JSON. They do not stream. The edge forwards the JSON,
// and changes only the model name.
var (
	embeddingsEndpoint = newForwardEndpoint("/v1/embeddings", config.OpEmbeddings, "input", (*forward.Request).DecodeEmbeddings)
	rerankEndpoint     = withNormalizedRerankAnswers(newForwardEndpoint("/v1/rerank", config.OpRerank, "documents", (*forward.Request).DecodeRerank))
	imagesEndpoint     = newForwardEndpoint("/v1/images/generations", config.OpImages, "prompt", (*forward.Request).DecodeNoStream)
)

// traceOpGenerateContent is the operation name for endpoints that generate images or audio.
const traceOpGenerateContent = "generate_content"

// newForwardEndpoint returns an endpoint that forwards requests. prompt is the name of the member
// that contains the text.
func newForwardEndpoint(path, operation, prompt string, decode func(r *forward.Request, body []byte) error) *Endpoint {
	ep := &Endpoint{
		// The GenAI conventions have no name for some of these operations.
		Path: path, Operation: operation, Traced: operation,
		Dialect: newChatErrorDialect(operation, prompt),
	}
	if operation == config.OpImages {
		ep.Traced = traceOpGenerateContent
	}
	ep.New = func() Request {
		r := &forwardRequest{decode: decode}
		r.initCodec(&r.parsed, operation, upstreams.PoolText)
		return r
	}
	return ep
}

// withNormalizedRerankAnswers makes ep normalize its answers, so that they are the same for every
// engine.
func withNormalizedRerankAnswers(ep *Endpoint) *Endpoint {
	request := ep.New
	ep.New = func() Request { return &rerankRequest{request().(*forwardRequest)} }
	return ep
}

type rerankRequest struct{ *forwardRequest }

func (r *rerankRequest) EncodeRequest(to Target) (EngineRequest, error) {
	r.parsed.SetRerankTexts(to.Upstream.Engine().HasQuirk(config.QuirkRanksTexts))
	return r.forwardRequest.EncodeRequest(to)
}

func (r *rerankRequest) NewUnaryAnswer(about CallInfo) UnaryAnswer {
	r.forwardRequest.NewUnaryAnswer(about)
	return &rerankAnswer{&r.answer, &r.parsed.Rerank}
}

type rerankAnswer struct {
	*forwardedAnswer
	request *forward.RerankFormat
}

// CanPassThrough implements UnaryAnswer. A rerank answer cannot be relayed while it arrives,
// because its first result depends on all results.
func (a *rerankAnswer) CanPassThrough(ReplyHead) bool { return false }

func (a *rerankAnswer) AppendAnswer(dst, body []byte, reply ReplyHead) ([]byte, error) {
	body, err := a.request.Normalize(body)
	if err != nil {
		return dst, err
	}
	return a.forwardedAnswer.AppendAnswer(dst, body, reply)
}

type forwardRequest struct {
	jsonRequest
	parsed forward.Request
	decode func(r *forward.Request, body []byte) error
}

func (r *forwardRequest) Decode(in DecodeInput) error { return r.decode(&r.parsed, in.Body.Bytes()) }

// jsonRequest is the common part of codecs that read little more than the model name of a JSON
// request.
type jsonRequest struct {
	bufferedBodyBase
	request   *forward.Request
	operation string // name of the operation in engine profiles
	pool      upstreams.SlotPool
	rules     chat.ModelRules // the model's rules, including the context length of its engines
	answer    forwardedAnswer
}

func (r *jsonRequest) initCodec(request *forward.Request, operation string, pool upstreams.SlotPool) {
	r.request, r.operation, r.pool = request, operation, pool
}

func (r *jsonRequest) Model() []byte           { return r.request.Model }
func (r *jsonRequest) ClientWantsStream() bool { return r.request.Stream }

func (r *jsonRequest) CheckModelRules(m *snapshot.Model, now time.Time) (CheckResult, error) {
	return CheckResult{Pool: r.pool, PoolName: r.pool.String()}, r.request.CheckRules(m.ChatRules(now, false, &r.rules))
}

// EstimateTokens implements Request. It expects no output tokens.
func (r *jsonRequest) EstimateTokens(bytesPerToken float64) (prompt, output, answers int) {
	if bytesPerToken <= 0 {
		bytesPerToken = 4
	}
	return int(float64(r.request.Size())/bytesPerToken) + 1, 0, 0
}

func (r *jsonRequest) AnswerTokenLimit() TokenLimit { return jsonTokenLimit{r.request} }

type jsonTokenLimit struct{ *forward.Request }

func (l jsonTokenLimit) ContextLength(rules *chat.ModelRules) int { return rules.ContextLength }
func (l jsonTokenLimit) PromptTokens(bytesPerToken float64, _ int) int {
	return l.LongestPrompt(bytesPerToken)
}
func (r *jsonRequest) PromptPrefix() (tools, messages []byte) { return nil, nil }
func (r *jsonRequest) SessionHashes() chat.SessionHashes      { return chat.SessionHashes{} }
func (r *jsonRequest) WantsStream(*engine.Profile) bool       { return r.request.Stream }

func (r *jsonRequest) EncodeRequest(to Target) (EngineRequest, error) {
	path := to.Upstream.Engine().Path(r.operation)
	if path == "" {
		return EngineRequest{}, ErrEngineLacksEndpoint
	}
	r.request.SetPriority(to.Priority)
	return EngineRequest{Path: path, ContentType: jsonType, Accept: acceptAnyType, Body: r.request.AppendSegments(nil, to.Served)}, nil
}

func (r *jsonRequest) DetectReplyForm(reply ReplyHead, streamed bool) ReplyForm {
	return detectTextReplyForm(reply, streamed)
}
func (r *jsonRequest) AnswersJSON() bool { return true }

func (r *jsonRequest) NewUnaryAnswer(about CallInfo) UnaryAnswer {
	r.answer.initAnswer(&about)
	r.answer.vectors, r.answer.prompts = r.request.Vectors, r.request.Prompts
	return &r.answer
}

func (r *jsonRequest) NewStream(CallInfo) Stream { panic("BUG: the endpoint has no streams") }
func (r *jsonRequest) Chat() *chat.Request       { return nil }
func (r *jsonRequest) Release()                  {}
func (r *jsonRequest) Recycle()                  {}

// completionsEndpoint is POST /v1/completions, the predecessor of chat. A key that may use chat may
// also use this endpoint.
var completionsEndpoint = &Endpoint{
	Path:          "/v1/completions",
	Operation:     config.OpChat,
	Traced:        "text_completion",
	Dialect:       newChatErrorDialect("completions", "prompt"),
	CachesPrompts: true,
	New: func() Request {
		r := new(completionRequest)
		r.answer.needsChoices = true
		r.initCodec(&r.parsed, engine.OpCompletions, upstreams.PoolText)
		return r
	},
}

type completionRequest struct {
	jsonRequest
	parsed forward.Request
}

func (r *completionRequest) Decode(in DecodeInput) error {
	return r.parsed.DecodeCompletion(in.Body.Bytes())
}

func (r *completionRequest) EstimateTokens(bytesPerToken float64) (prompt, output, answers int) {
	prompt, _, _ = r.jsonRequest.EstimateTokens(bytesPerToken)
	return prompt, expectedOutput(r.parsed.ClientLimit()) * r.parsed.Generated, r.parsed.Generated
}

// EncodeRequest implements Request. Among all forwarded requests, only completions get a salt,
// because engines report cached tokens only for completions.
func (r *completionRequest) EncodeRequest(to Target) (EngineRequest, error) {
	r.parsed.SetSalt(to.Salt)
	return r.jsonRequest.EncodeRequest(to)
}

func (r *completionRequest) NewStream(about CallInfo) Stream {
	events := new(forwardedEvents)
	events.Reset(about.Model.ID, r.parsed.Choices)
	events.SetPrompts(r.parsed.Prompts)
	return events
}
