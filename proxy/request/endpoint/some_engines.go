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
// own format. The edge changes only the model in them.
func atSomeEngines() (all []*Endpoint) {
	for i := range config.SomeEngines {
		if e := &config.SomeEngines[i]; e.Operation != config.OpRealtime { // see Realtime
			all = append(all, atSome(e))
		}
	}
	return all
}

// promptAt names the member with the text for the paths on which this member is not input.
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
		Traced:  e.AtEngine, // the conventions have no names for these operations yet
		Dialect: withChatErrors(e.AtEngine, prompt),
		New: func() Request {
			r := &someEnginesRequest{countsTokens: e.Operation == config.OpTokenize}
			r.decode = decode
			r.begin(&r.own, e.AtEngine, upstreams.PoolText)
			return r
		},
	}
}

// someEnginesRequest is the codec for requests to the endpoints in atSomeEngines.
type someEnginesRequest struct {
	passingRequest
	countsTokens bool // no tokens are generated or charged
}

// Check implements Request. It excludes engines that are known to lack the endpoint.
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

// AtSomeEngines reports whether only some engines have the endpoint.
func (ep *Endpoint) AtSomeEngines() bool { return ep.atEngine != "" }

// AtNoEngine returns the refusal for a call to an endpoint that none of the model's engines has.
func AtNoEngine() *apierr.Error {
	return apierr.NotFound(apierr.CodeNotFound,
		"No engine of the model has this endpoint. GET /v1/models lists each model's endpoints.")
}

// notWhereStrict returns the error for an extension of the API if the edge is strict.
func notWhereStrict() *apierr.Error {
	return apierr.NotFound(apierr.CodeNotFound, "This path is not served here: the operator has set strict.")
}

func (r *someEnginesRequest) Unary(about Answer) Unary {
	if r.countsTokens {
		about.PromptTokens = noEstimate
	}
	return r.passingRequest.Unary(about)
}
