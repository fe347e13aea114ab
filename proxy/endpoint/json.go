package endpoint

import (
	"time"

	"penstock/config"
	"penstock/proxy/body"
	"penstock/proxy/snapshot"
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/forward"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// The endpoints here have JSON in, JSON out, and no streams. Of what comes and goes only the model
// is changed.
var (
	embeddings = passing("/v1/embeddings", config.OpEmbeddings, "input", (*forward.Request).DecodeEmbeddings)
	rerank     = passing("/v1/rerank", config.OpRerank, "documents", (*forward.Request).DecodeRerank)
	images     = passing("/v1/images/generations", config.OpImages, "prompt", (*forward.Request).DecodePlain)
)

// tracedContent is the operation of endpoints that make images and sound.
const tracedContent = "generate_content"

// passing is an endpoint whose text is in the member prompt.
func passing(path, operation, prompt string, decode func(r *forward.Request, body []byte) error) *Endpoint {
	ep := &Endpoint{
		Path: path, Operation: operation, Traced: operation, // there is no word for some of them yet
		Dialect: withChatErrors(operation, prompt),
	}
	if operation == config.OpImages {
		ep.Traced = tracedContent
	}
	ep.New = func() Request {
		r := &passingRequest{decode: decode}
		r.begin(&r.own, operation, upstreams.PoolText)
		return r
	}
	return ep
}

type passingRequest struct {
	jsonRequest
	own    forward.Request
	decode func(r *forward.Request, body []byte) error
}

// Decode implements Request.
func (r *passingRequest) Decode(in Input) error { return r.decode(&r.own, in.Body.Bytes()) }

// jsonRequest is what the codecs of JSON requests have in common of which the edge reads little more
// than the model.
type jsonRequest struct {
	request   *forward.Request
	operation string // by which profiles name the engine's path
	pool      upstreams.Pool
	rules     chat.ModelRules // the model's, with the context length of its engines
	forwarded                 // the answer
}

func (r *jsonRequest) begin(request *forward.Request, operation string, pool upstreams.Pool) {
	r.request, r.operation, r.pool = request, operation, pool
}

// Model implements Request.
func (r *jsonRequest) Model() []byte { return r.request.Model }

// Streams implements Request.
func (r *jsonRequest) Streams() bool { return r.request.Stream }

// Check implements Request.
func (r *jsonRequest) Check(m *snapshot.Model, now time.Time) (Checked, error) {
	return Checked{Pool: r.pool, PoolName: r.pool.String()}, r.request.Check(m.ChatRules(now, false, &r.rules))
}

// Estimate implements Request: only completions have an answer that is counted.
func (r *jsonRequest) Estimate(bytesPerToken float64) (prompt, output int) {
	if bytesPerToken <= 0 {
		bytesPerToken = 4
	}
	return int(float64(r.request.Size())/bytesPerToken) + 1, 0
}

// Limit implements Request.
func (r *jsonRequest) Limit() TokenLimit { return r }

// TokenLimit implements TokenLimit.
func (r *jsonRequest) TokenLimit() int { return r.request.TokenLimit() }

// Fit implements TokenLimit.
func (r *jsonRequest) Fit(limit int) { r.request.Fit(limit) }

// Context implements TokenLimit.
func (r *jsonRequest) Context(rules *chat.ModelRules) int { return rules.ContextLength }

// Prompt implements TokenLimit.
func (r *jsonRequest) Prompt(bytesPerToken float64, _ int) int {
	return r.request.LongestPrompt(bytesPerToken)
}

// Prefix implements Request.
func (r *jsonRequest) Prefix() (tools, messages []byte) { return nil, nil }

// AsksStream implements Request.
func (r *jsonRequest) AsksStream(*engine.Profile) bool { return r.request.Stream }

// Fill implements Request.
func (r *jsonRequest) Fill(to Target) (Sending, error) {
	path := to.Upstream.Engine().Path(r.operation)
	if path == "" {
		return Sending{}, ErrNoPath
	}
	return Sending{Path: path, ContentType: jsonType, Accept: anyType, Body: r.request.Segments(nil, to.Served)}, nil
}

// Reads implements Request.
func (r *jsonRequest) Reads(reply Reply, asked bool) ReplyForm { return textReply(reply, asked) }

// AnswersJSON implements Request.
func (r *jsonRequest) AnswersJSON() bool { return true }

// Unary implements Request.
func (r *jsonRequest) Unary(about Answer) Unary {
	r.forwarded.begin(&about)
	return &r.forwarded
}

// Stream implements Request.
func (r *jsonRequest) Stream(Answer) Stream { panic("BUG: the endpoint has no streams") }

// Offered implements Request.
func (r *jsonRequest) Offered() translate.Offered { return translate.Offered{} }

// Form implements Request.
func (r *jsonRequest) Form() *body.Form { return nil }

// Release implements Request.
func (r *jsonRequest) Release() {}

// Recycle implements Request.
func (r *jsonRequest) Recycle() {}
