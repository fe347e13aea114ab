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

// RealtimeEndpoint is GET /v1/realtime: speech transcription sessions over WebSocket. Package
// realtime transfers the messages of a session. RealtimeEndpoint is not in AllEndpoints, because it
// does not accept POST.
var RealtimeEndpoint = &Endpoint{
	Path: "/v1/realtime", Operation: config.OpRealtime, profileOperation: config.OpRealtime,
	Traced:  config.OpRealtime, // the GenAI conventions have no name for this operation yet
	Dialect: newChatErrorDialect("realtime", ""),
	New: func() Request {
		r := new(RealtimeSession)
		r.decode = (*forward.Request).DecodeNoStream
		r.initCodec(&r.parsed, config.OpRealtime, upstreams.PoolAudio)
		return r
	},
}

// RealtimeSession is the codec for a realtime session. Any goroutine may call MarkAudioSent and
// AddBytesIn, but no other method.
type RealtimeSession struct {
	engineSpecificRequest
	upgrade   *http1.WebSocketHandshake
	audioSent atomic.Bool
	bytesIn   atomic.Int64
}

// EstimateTokens implements Request. The edge does not estimate the tokens of audio.
func (*RealtimeSession) EstimateTokens(float64) (prompt, output, answers int) { return 0, 0, 0 }

// CheckModelRules implements Request.
func (r *RealtimeSession) CheckModelRules(m *snapshot.Model, now time.Time) (CheckResult, error) {
	out, err := r.engineSpecificRequest.CheckModelRules(m, now)
	out.PromptBytes = 0
	return out, err
}

// EncodeRequest implements Request. It creates a new handshake for each engine.
func (r *RealtimeSession) EncodeRequest(to Target) (EngineRequest, error) {
	profile := to.Upstream.Engine()
	path := profile.Path(config.OpRealtime)
	if path == "" {
		return EngineRequest{}, ErrEngineLacksEndpoint
	}
	if !profile.HasQuirk(config.QuirkTranscriptionEvents) {
		path += "?intent=transcription&model=" + url.QueryEscape(to.Served)
	}
	r.upgrade = http1.NewWebSocketHandshake()
	return EngineRequest{Path: path, Reader: r.upgrade}, nil
}

// EngineHandshake returns the handshake for the most recent engine.
func (r *RealtimeSession) EngineHandshake() *http1.WebSocketHandshake { return r.upgrade }

// MarkAudioSent records that audio was sent to an engine. The edge does not store audio, so no
// other engine can take over.
func (r *RealtimeSession) MarkAudioSent() { r.audioSent.Store(true) }

// IsConsumed implements Request.
func (r *RealtimeSession) IsConsumed() bool { return r.audioSent.Load() }

// AddBytesIn adds n to the number of bytes in the client's messages.
func (r *RealtimeSession) AddBytesIn(n int64) { r.bytesIn.Add(n) }

// BytesRead implements Request.
func (r *RealtimeSession) BytesRead() int64 { return r.bytesIn.Load() }
