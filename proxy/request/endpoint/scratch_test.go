package endpoint

import (
	"bytes"
	"testing"

	"penstock/config"
	"penstock/translate/forward"
	"penstock/upstreams"
)

// shout is an endpoint for tests. It accepts embedding requests and converts the answer to capital
// letters. It shows that a new endpoint needs only one file and one line in AllEndpoints.
var shout = &Endpoint{
	Path:       "/v1/shout",
	Operation:  config.OpEmbeddings,
	Dialect:    newChatErrorDialect("shout", "input"),
	listedPath: embeddingsEndpoint.Path,
	New: func() Request {
		r := &shoutRequest{forwardRequest{decode: (*forward.Request).DecodeNoStream}}
		r.initCodec(&r.parsed, config.OpEmbeddings, upstreams.PoolText)
		return r
	},
}

type shoutRequest struct{ forwardRequest }

func (r *shoutRequest) NewUnaryAnswer(about CallInfo) UnaryAnswer {
	a := new(shoutAnswer)
	a.initAnswer(&about)
	return a
}

type shoutAnswer struct{ forwardedAnswer }

func (a *shoutAnswer) CanPassThrough(ReplyHead) bool { return false }

func (a *shoutAnswer) AppendAnswer(dst, body []byte, reply ReplyHead) ([]byte, error) {
	out, err := a.forwardedAnswer.AppendAnswer(dst, body, reply)
	return append(dst, bytes.ToUpper(out[len(dst):])...), err
}

func WithShout(t *testing.T) {
	before := AllEndpoints
	AllEndpoints = append(AllEndpoints[:len(AllEndpoints):len(AllEndpoints)], shout)
	t.Cleanup(func() { AllEndpoints = before })
}
