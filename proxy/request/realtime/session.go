package realtime

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/access/auth"
	"penstock/proxy/request/call"
	"penstock/proxy/request/endpoint"
	socket "penstock/proxy/request/websocket"
	"penstock/proxy/telemetry/guard"
	"penstock/translate/apierr"
	"penstock/translate/jsonx"
	"penstock/translate/realtime"
)

const (
	// modelTimeout is how long a session may wait until the client names the model.
	modelTimeout = 10 * time.Second
	// maxEarlyMessage is the maximum size of a message before the model is known. It is large
	// enough for settings but not for audio.
	maxEarlyMessage = 64 << 10
	// maxAudioMessage is the maximum size of a message with audio: OpenAI's 15 MiB, in base64.
	maxAudioMessage = 21 << 20
)

// session is a client's session. The goroutine of serve reads from the client, and the goroutine of
// relayEngine reads from the engine.
type session struct {
	sessions     *Sessions
	clientSocket *socket.Socket
	key          *auth.Key // nil if no key is required
	query        []byte
	protocol     *realtime.SessionState
	startedAt    time.Time

	lastMessage atomic.Int64 // time of the last message from either side, in Unix nanoseconds
	// Time in Unix nanoseconds of the engine's last message, or of the last end of audio sent to
	// the engine, whichever is later.
	lastEngineAt atomic.Int64
	lastAudioAt  atomic.Int64 // time of the last audio sent to the engine, in Unix nanoseconds

	mu         sync.Mutex
	changed    sync.Cond       // signals changes of engine, clientGone, ended and MustHoldAudio
	call       *call.Dialogue  // nil until the model is known
	engine     *websocket.Conn // nil while no engine is connected
	engineInfo *call.DialogueEngine
	clientGone bool // whether the listener has reported that the client disconnected
	ended      bool
	outcome    *sessionEnding
	timer      *time.Timer
}

type sessionEnding struct {
	code      int // close code; 0 if the connection is already closed or has failed
	reason    string
	apiErr    *apierr.Error // sent as an error event; nil if no error event is sent
	engineErr error         // the engine's failure if the engine is to blame
	clean     bool
}

// startCall starts the call. If the call is rejected, startCall returns the response. Otherwise, it
// returns nil.
func (s *session) startCall(model string) *fasthttp.Response {
	body := append(jsonx.AppendStringS([]byte(`{"model":`), model), '}')
	ctx := s.clientSocket.NewRequest(endpoint.RealtimeEndpoint.Path, s.query, body)
	d := s.sessions.services.OpenDialogue(ctx, s.connectEngine)
	if d == nil {
		return &ctx.Response
	}
	s.mu.Lock()
	s.call = d
	s.mu.Unlock()
	return nil
}

func (s *session) serve() {
	s.sessions.add(s)
	defer s.sessions.remove(s)
	message := s.clientSocket.NewIncomingMessage(call.IncompleteBodyCounter(s.sessions.services.Current(), s.key))
	defer message.Free()
	err := s.clientSocket.Send(s.protocol.CreatedEvent())
	if s.call == nil {
		s.startTimer(false)
		if s.sessions.draining() {
			s.closeIfNoCall()
		}
		if err != nil || !s.awaitModel(message) {
			s.endSession(&sessionEnding{})
			s.sendClosing()
			return
		}
	}
	done := make(chan struct{})
	go s.sessions.services.Guard.RunWithRecover(guard.PlaceWebSocket, func() { s.relayEngine(done) })
	defer func() {
		s.endSession(&sessionEnding{}) // has an effect only if a write failed or the session panicked
		<-done
	}()
	if err != nil {
		return
	}
	s.startTimer(true)
	r := clientReader{session: s, message: message}
	for r.handleNext(maxMessageSize(s.sessions.services.Current().Config, s.key)) {
	}
}

func maxMessageSize(c *config.File, key *auth.Key) int64 {
	return min(maxAudioMessage, endpoint.RealtimeEndpoint.BodyLimit(c, key.BodyLimits()))
}

// awaitModel reads messages until one names the model, and then starts the call. It returns false
// if the session has ended.
func (s *session) awaitModel(message *socket.Message) bool {
	r := clientReader{session: s, message: message, modelUnknown: true}
	for s.protocol.Settings().Model == "" {
		if !r.handleNext(maxEarlyMessage) {
			return false
		}
	}
	answer := s.startCall(s.protocol.Settings().Model)
	if answer == nil {
		return true
	}
	s.rejectSession(answer)
	return false
}

func (s *session) rejectSession(answer *fasthttp.Response) {
	code := closePolicy
	if status := answer.StatusCode(); status == 429 || status >= 500 {
		code = closeTryAgain
	}
	s.endSession(&sessionEnding{})
	if body := answer.Body(); len(body) > 0 {
		_ = s.clientSocket.Send(s.protocol.RejectionEvent(body)) // if this fails, Close fails too
	}
	s.clientSocket.Close(code, "the session was refused")
}

type clientReader struct {
	*session
	message      *socket.Message
	audio        *realtime.AudioConverter
	doc          jsonx.Doc
	modelUnknown bool // whether the client has not named the model yet
}

// handleNext reads and handles one message of at most "most" bytes. It returns false if the session
// has ended.
func (r *clientReader) handleNext(most int64) bool {
	clean, err := r.clientSocket.Receive(r.message, most, maxMessageSize(r.sessions.services.Current().Config, r.key))
	if err != nil {
		r.handleReadError(clean, err)
		return false
	}
	defer r.message.ReleaseIfLarge()
	defer r.doc.Reset() // deferred because doc refers to the memory of the message
	r.lastMessage.Store(time.Now().UnixNano())
	r.mu.Lock()
	if r.call != nil {
		r.call.AddBytesIn(int64(len(r.message.Bytes())))
	}
	r.mu.Unlock()
	m, refused := realtime.ParseClient(&r.doc, r.message.Bytes())
	if refused == nil {
		refused, err = r.handleMessage(&m)
	}
	if refused != nil && err == nil {
		err = r.reportInvalid(refused, &m)
	}
	return err == nil && !r.isEnded()
}

func (r *clientReader) handleReadError(clean bool, err error) {
	var refused *apierr.Error
	switch {
	case errors.As(err, &refused):
		code := closeTooBig
		if refused.Code != apierr.CodeRequestTooLarge {
			code = closeTryAgain
		}
		r.endSession(&sessionEnding{code: code, reason: "the message was refused", apiErr: refused})
	default:
		r.endSession(&sessionEnding{clean: clean})
	}
}

var errSessionOver = errors.New("the session is over")

// reportInvalid reports an invalid message to the client. Each invalid message counts as a request
// of the key, which limits the number of such messages.
func (r *clientReader) reportInvalid(refused *apierr.Error, m *realtime.ClientMessage) error {
	limited := call.ChargeRejectedRequest(r.sessions.services.Current(), r.key, time.Now())
	if limited != nil {
		r.endSession(&sessionEnding{code: closePolicy, reason: "too many invalid messages", apiErr: limited})
		return errSessionOver
	}
	return r.clientSocket.Send(r.protocol.ErrorEvent(refused, m))
}

func (r *clientReader) handleMessage(m *realtime.ClientMessage) (refused *apierr.Error, err error) {
	var client, engine []byte
	switch {
	case m.Kind == realtime.KindUpdate:
		client, engine, refused = r.protocol.UpdateSettings(m)
	case r.modelUnknown:
		return apierr.Invalid("session.audio.input.transcription.model", apierr.CodeMissingParameter,
			"The session has no model yet: send session.update with the model, or name it in the query."), nil
	case m.Kind == realtime.KindAppend:
		if refused = realtime.CheckBase64(m.Audio); refused == nil {
			err = r.appendAudio(m.Audio)
		}
		return refused, err
	default:
		if err := r.awaitEngine(); err != nil {
			return nil, err
		}
		r.lastEngineAt.Store(time.Now().UnixNano())
		if m.Kind == realtime.KindCommit {
			engine, client, refused = r.protocol.CommitAudio()
		} else {
			engine, client = r.protocol.ClearAudio()
		}
	}
	if refused != nil {
		return refused, nil
	}
	if client != nil {
		err = r.clientSocket.Send(client)
	}
	if engine != nil && err == nil {
		err = r.sendToEngine(engine, false)
	}
	return nil, err
}

func (r *clientReader) appendAudio(audio []byte) error {
	if err := r.awaitEngine(); err != nil {
		return err
	}
	start, begins := r.protocol.PrepareAppend()
	if begins {
		r.audio = r.protocol.AudioConverter()
	}
	if start != nil {
		if err := r.sendToEngine(start, true); err != nil {
			return err
		}
	}
	return r.audio.SendPieces(audio, func(message []byte) error { return r.sendToEngine(message, true) })
}

// awaitEngine blocks until the engine accepts audio. While it blocks, the client's messages stay in
// the client's socket.
func (r *clientReader) awaitEngine() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.ended && !r.clientGone && r.protocol.MustHoldAudio() {
		r.changed.Wait()
	}
	if r.ended || r.clientGone {
		return errSessionOver
	}
	return nil
}

// sendToEngine writes a message to the engine. After sendToEngine has sent audio, no other engine
// can take over the session.
func (r *clientReader) sendToEngine(message []byte, audio bool) error {
	r.mu.Lock()
	for !r.ended && !r.clientGone && r.engine == nil {
		r.changed.Wait()
	}
	if r.ended || r.clientGone {
		r.mu.Unlock()
		return errSessionOver
	}
	ws, about := r.engine, r.engineInfo
	if audio {
		r.call.MarkAudioSent()
	}
	r.mu.Unlock()
	if audio {
		r.lastAudioAt.Store(time.Now().UnixNano())
	}
	if err := writeTextMessage(ws, about, message); err != nil && audio {
		_ = ws.CloseNow() // makes relayEngine end the session
		return r.awaitEnd()
	}
	return nil
}

func (r *clientReader) awaitEnd() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.ended && !r.clientGone {
		r.changed.Wait()
	}
	return errSessionOver
}

// endSession ends the session if it has not ended yet, and wakes both goroutines.
func (s *session) endSession(why *sessionEnding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended, s.outcome = true, why
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.engine != nil {
		_ = s.engine.CloseNow()
	}
	s.changed.Broadcast()
}

func (s *session) isEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

func (s *session) closeIfNoCall() {
	s.mu.Lock()
	idle := s.call == nil && !s.ended
	s.mu.Unlock()
	if idle {
		s.endSession(&sessionEnding{})
		s.clientSocket.Close(closeGoingAway, reasonShutdown)
	}
}

func truncateReason(text string) string {
	const most = 100
	if len(text) > most {
		text = text[:strings.LastIndexByte(text[:most], ' ')+1]
	}
	return strings.TrimSpace(text)
}
