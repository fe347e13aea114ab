package endpoint

import (
	"bytes"
	"testing"

	"penstock/config"
	"penstock/translate/forward"
	"penstock/upstreams"
)

// shout is an endpoint for tests. It accepts embedding requests and converts the answer to capital
// letters. It shows that a new endpoint needs only one file and one line in All.
var shout = &Endpoint{
	Path:      "/v1/shout",
	Operation: config.OpEmbeddings,
	Dialect:   withChatErrors("shout", "input"),
	listedAs:  embeddings.Path,
	New: func() Request {
		r := &shoutRequest{passingRequest{decode: (*forward.Request).DecodePlain}}
		r.begin(&r.own, config.OpEmbeddings, upstreams.PoolText)
		return r
	},
}

type shoutRequest struct{ passingRequest }

func (r *shoutRequest) Unary(about CallInfo) Unary {
	a := new(shoutAnswer)
	a.begin(&about)
	return a
}

type shoutAnswer struct{ forwarded }

func (a *shoutAnswer) PassesOn(Reply) bool { return false }

func (a *shoutAnswer) Append(dst, body []byte, reply Reply) ([]byte, error) {
	out, err := a.forwarded.Append(dst, body, reply)
	return append(dst, bytes.ToUpper(out[len(dst):])...), err
}

func WithShout(t *testing.T) {
	before := All
	All = append(All[:len(All):len(All)], shout)
	t.Cleanup(func() { All = before })
}
