package endpoint

import (
	"net/url"
	"sync/atomic"
	"time"

	"penstock/config"
	"penstock/proxy/running/snapshot"
	"penstock/translate/forward"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// Realtime is GET /v1/realtime: speech transcription sessions over WebSocket. Package realtime
// transfers the messages of a session. Realtime is not in All, because it does not accept POST.
var Realtime = &Endpoint{
	Path: "/v1/realtime", Operation: config.OpRealtime, atEngine: config.OpRealtime,
	Traced:  config.OpRealtime, // the GenAI conventions have no name for this operation yet
	Dialect: withChatErrors("realtime", ""),
	New: func() Request {
		r := new(Session)
		r.decode = (*forward.Request).DecodePlain
		r.begin(&r.own, config.OpRealtime, upstreams.PoolAudio)
		return r
	},
}

// Session is the codec for a realtime session. Any goroutine may call Spend and Received, but no
// other method.
type Session struct {
	someEnginesRequest
	upgrade  *http1.Upgrade
	spent    atomic.Bool
	received atomic.Int64
}

// Estimate implements Request. The edge does not estimate the tokens of audio.
func (*Session) Estimate(float64) (prompt, output int) { return 0, 0 }

// Check implements Request.
func (r *Session) Check(m *snapshot.Model, now time.Time) (Checked, error) {
	out, err := r.someEnginesRequest.Check(m, now)
	out.PromptBytes = 0
	return out, err
}

// Fill implements Request. Each engine gets a new handshake.
func (r *Session) Fill(to Target) (Sending, error) {
	profile := to.Upstream.Engine()
	path := profile.Path(config.OpRealtime)
	if path == "" {
		return Sending{}, ErrNoPath
	}
	if !profile.Has(config.QuirkTranscriptionEvents) {
		path += "?intent=transcription&model=" + url.QueryEscape(to.Served)
	}
	r.upgrade = http1.NewUpgrade()
	return Sending{Path: path, Reader: r.upgrade}, nil
}

// Upgrade returns the most recent handshake.
func (r *Session) Upgrade() *http1.Upgrade { return r.upgrade }

// Spend records that audio was sent to an engine. The edge does not store audio, so no other engine
// can take over.
func (r *Session) Spend() { r.spent.Store(true) }

// Spent implements Request.
func (r *Session) Spent() bool { return r.spent.Load() }

// Received adds n to the number of bytes in the client's messages.
func (r *Session) Received(n int64) { r.received.Add(n) }

// BytesRead implements Request.
func (r *Session) BytesRead() int64 { return r.received.Load() }
