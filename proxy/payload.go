package proxy

import (
	"penstock/translate/chat"
	"penstock/translate/forward"
	"penstock/upstreams/engine"
	"penstock/upstreams/http1"
)

// payload is what the pipeline needs of a request that is not chat underneath. It belongs to its
// call.
type payload interface {
	// wanted is the model's name as the client wrote it.
	wanted() []byte
	// check applies the rules of the model.
	check(l *chat.ModelRules) error
	// estimate is about how many tokens the request and its answer are.
	estimate(bytesPerToken float64) (prompt, output int)
	// fill sets the body of a request to an engine that knows the model as served.
	fill(r *http1.Request, engine *engine.Profile, served string)
	// release gives back what is held for sending; nothing is sent after it.
	release()
}

// jsonPayload is the payload of a JSON request. The edge reads little more of it than the model.
type jsonPayload struct {
	*forward.Request
	output func() int // tokens that the answer may have; nil: it has none
}

func (p jsonPayload) wanted() []byte { return p.Model }

func (p jsonPayload) check(l *chat.ModelRules) error { return p.Check(l) }

func (p jsonPayload) estimate(bytesPerToken float64) (prompt, output int) {
	if bytesPerToken <= 0 {
		bytesPerToken = 4
	}
	if p.output != nil {
		output = p.output()
	}
	return int(float64(p.Size())/bytesPerToken) + 1, output
}

func (p jsonPayload) fill(r *http1.Request, _ *engine.Profile, served string) {
	r.ContentType = "application/json"
	r.Body = p.Segments(nil, served)
}

func (p jsonPayload) release() {}
