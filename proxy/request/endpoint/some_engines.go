package endpoint

import (
	"time"

	"penstock/config"
	"penstock/proxy/running/snapshot"
	"penstock/translate/apierr"
	"penstock/translate/forward"
	"penstock/upstreams"
)

// atSomeEngines returns the endpoints in config.SomeEngines. Requests and answers have the engine's
// format, and the edge changes only the model name.
func atSomeEngines() (all []*Endpoint) {
	for i := range config.SomeEngines {
		if e := &config.SomeEngines[i]; e.Operation != config.OpRealtime { // see Realtime
			all = append(all, atSome(e))
		}
	}
	return all
}

// promptAt maps a path to the member that contains the text. For paths that are not listed, it is
// input.
var promptAt = map[string]string{"/v1/score": "documents", "/tokenize": "prompt", "/detokenize": "tokens"}

func atSome(e *config.EngineEndpoint) *Endpoint {
	prompt := promptAt[e.Path]
	if prompt == "" {
		prompt = "input"
	}
	decode := (*forward.Request).DecodePlain
	if e.Operation == config.OpPooling {
		decode = (*forward.Request).DecodePooling
	}
	return &Endpoint{
		Path: e.Path, Operation: e.Operation, atEngine: e.AtEngine,
		Traced:  e.AtEngine, // the GenAI conventions have no names for these operations yet
		Dialect: withChatErrors(e.AtEngine, prompt),
		New: func() Request {
			r := &someEnginesRequest{countsTokens: e.Operation == config.OpTokenize}
			r.decode = decode
			r.begin(&r.own, e.AtEngine, upstreams.PoolText)
			return r
		},
	}
}

// someEnginesRequest is the codec for the endpoints of atSomeEngines.
type someEnginesRequest struct {
	passingRequest
	countsTokens bool // whether the engine only counts tokens, so that no tokens are charged
}

// Check implements Request. It excludes engines that do not serve the endpoint.
func (r *someEnginesRequest) Check(m *snapshot.Model, now time.Time) (Checked, error) {
	out, err := r.passingRequest.Check(m, now)
	if err != nil {
		return out, err
	}
	if m.Rules.Strict {
		return out, notWhereStrict()
	}
	targets := m.Route.Targets()
	for i := range targets {
		if up := targets[i].Upstream; up.Engine().Path(r.operation) == "" {
			out.Unfit = append(out.Unfit, up.ID())
		}
	}
	if len(out.Unfit) == len(targets) {
		return out, AtNoEngine()
	}
	return out, nil
}

// AtSomeEngines reports whether only some of the engines serve the endpoint.
func (ep *Endpoint) AtSomeEngines() bool { return ep.atEngine != "" }

// AtNoEngine returns the error for an endpoint that no engine of the model serves.
func AtNoEngine() *apierr.Error {
	return apierr.NotFound(apierr.CodeNotFound,
		"No engine of the model has this endpoint. GET /v1/models lists each model's endpoints.")
}

func notWhereStrict() *apierr.Error {
	return apierr.NotFound(apierr.CodeNotFound, "This path is not served here: the operator has set strict.")
}

func (r *someEnginesRequest) Unary(about CallInfo) Unary {
	if r.countsTokens {
		about.PromptTokens = noEstimate
	}
	return r.passingRequest.Unary(about)
}
