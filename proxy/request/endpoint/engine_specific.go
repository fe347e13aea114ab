package endpoint

import (
	"time"

	"penstock/config"
	"penstock/proxy/running/snapshot"
	"penstock/translate/apierr"
	"penstock/translate/forward"
	"penstock/upstreams"
)

// engineSpecificEndpoints returns the endpoints in config.EngineSpecificEndpoints. Their requests
// and answers have the engine's format, in which the edge changes only the model name.
func engineSpecificEndpoints() (all []*Endpoint) {
	for i := range config.EngineSpecificEndpoints {
		// RealtimeEndpoint is defined separately.
		if e := &config.EngineSpecificEndpoints[i]; e.Operation != config.OpRealtime {
			all = append(all, newEngineSpecificEndpoint(e))
		}
	}
	return all
}

// textMemberByPath maps a path to the member that contains the text. For all other paths, the
// member is input.
var textMemberByPath = map[string]string{"/v1/score": "documents", "/tokenize": "prompt", "/detokenize": "tokens"}

func newEngineSpecificEndpoint(e *config.EngineEndpoint) *Endpoint {
	prompt := textMemberByPath[e.Path]
	if prompt == "" {
		prompt = "input"
	}
	decode := (*forward.Request).DecodeNoStream
	if e.Operation == config.OpPooling {
		decode = (*forward.Request).DecodePooling
	}
	return &Endpoint{
		Path: e.Path, Operation: e.Operation, profileOperation: e.AtEngine,
		Traced:  e.AtEngine, // the GenAI conventions have no names for these operations yet
		Dialect: newChatErrorDialect(e.AtEngine, prompt),
		New: func() Request {
			r := &engineSpecificRequest{countsTokens: e.Operation == config.OpTokenize}
			r.decode = decode
			r.initCodec(&r.parsed, e.AtEngine, upstreams.PoolText)
			return r
		},
	}
}

// engineSpecificRequest is the codec for the endpoints of engineSpecificEndpoints.
type engineSpecificRequest struct {
	forwardRequest
	countsTokens bool // whether the engine only tokenizes text, so that no tokens are charged
}

// CheckModelRules implements Request. It excludes engines that do not serve the endpoint.
func (r *engineSpecificRequest) CheckModelRules(m *snapshot.Model, now time.Time) (CheckResult, error) {
	out, err := r.forwardRequest.CheckModelRules(m, now)
	if err != nil {
		return out, err
	}
	if m.Rules.Strict {
		return out, strictModeError()
	}
	targets := m.Route.Targets()
	for i := range targets {
		if up := targets[i].Upstream; up.Engine().Path(r.operation) == "" {
			out.Unfit = append(out.Unfit, up.ID())
		}
	}
	if len(out.Unfit) == len(targets) {
		return out, NoEngineError()
	}
	return out, nil
}

// IsEngineSpecific reports whether only some engines serve the endpoint.
func (ep *Endpoint) IsEngineSpecific() bool { return ep.profileOperation != "" }

// NoEngineError returns the error for an endpoint that no engine of the model serves.
func NoEngineError() *apierr.Error {
	return apierr.NotFound(apierr.CodeNotFound,
		"No engine of the model has this endpoint. GET /v1/models lists each model's endpoints.")
}

func strictModeError() *apierr.Error {
	return apierr.NotFound(apierr.CodeNotFound, "This path is not served here: the operator has set strict.")
}

func (r *engineSpecificRequest) NewUnaryAnswer(about CallInfo) UnaryAnswer {
	if r.countsTokens {
		about.PromptTokens = noEstimate
	}
	return r.forwardRequest.NewUnaryAnswer(about)
}
