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
	// modelTime is how long a session may wait for the model to be named.
	modelTime = 10 * time.Second
	// earlyMessage is the maximum size of a message before the model is known. It is large enough
	// for settings but not for audio.
	earlyMessage = 64 << 10
	// mostMessage is the maximum size of a message with audio: OpenAI's 15 MiB, in base64.
	mostMessage = 21 << 20
)

// session is a client's session. The goroutine of serve reads from the client, and the goroutine of
// run reads from the engine.
type session struct {
	all   *Sessions
	side  *socket.Socket
	key   *auth.Key // nil if no key is required
	query []byte
	talk  *realtime.Talk
	begun time.Time

	lastMessage atomic.Int64 // time of the last message from either side, in Unix nanoseconds
	// Time in Unix nanoseconds of the engine's last message, or of the last end of audio sent to
	// the engine, whichever is later.
	spoken atomic.Int64
	sent   atomic.Int64 // time of the last audio sent to the engine, in Unix nanoseconds

	mu      sync.Mutex
	changed sync.Cond       // signals changes of engine, gone, over and Talk.Waits
	call    *call.Dialogue  // nil while no model is known
	engine  *websocket.Conn // nil if there is none now
	about   *call.Engine
	gone    bool // whether the listener has reported that the client disconnected
	over    bool
	end     *ending
	timer   *time.Timer
}

type ending struct {
	code   int // close code; 0 if the connection is already closed or has failed
	reason string
	error  *apierr.Error // error event; nil if none is sent
	failed error         // the engine's failure if the engine is to blame
	clean  bool
}

// begin starts the call. If the call is rejected, begin returns the response; otherwise, nil.
func (s *session) begin(model string) *fasthttp.Response {
	body := append(jsonx.AppendStringS([]byte(`{"model":`), model), '}')
	ctx := s.side.Request(endpoint.Realtime.Path, s.query, body)
	d := s.all.services.OpenDialogue(ctx, s.meet)
	if d == nil {
		return &ctx.Response
	}
	s.mu.Lock()
	s.call = d
	s.mu.Unlock()
	return nil
}

func (s *session) serve() {
	s.all.add(s)
	defer s.all.remove(s)
	message := s.side.NewMessage(call.ReadingOf(s.all.services.Current(), s.key))
	defer message.Free()
	err := s.side.Send(s.talk.Created())
	if s.call == nil {
		s.startClock(false)
		if s.all.draining() {
			s.drainIdle()
		}
		if err != nil || !s.awaitModel(message) {
			s.stop(&ending{})
			s.part()
			return
		}
	}
	done := make(chan struct{})
	go s.all.services.Guard.Once(guard.WebSocket, func() { s.run(done) })
	defer func() {
		s.stop(&ending{}) // has no effect unless a write failed or the session panicked
		<-done
	}()
	if err != nil {
		return
	}
	s.startClock(true)
	r := reader{session: s, message: message}
	for r.next(mostOf(s.all.services.Current().Config, s.key)) {
	}
}

func mostOf(c *config.File, key *auth.Key) int64 {
	return min(mostMessage, endpoint.Realtime.BodyLimit(c, key.Bodies()))
}

// awaitModel reads messages until one names the model, and then starts the call. It returns false
// if the session has ended.
func (s *session) awaitModel(message *socket.Message) bool {
	r := reader{session: s, message: message, early: true}
	for s.talk.Settings().Model == "" {
		if !r.next(earlyMessage) {
			return false
		}
	}
	answer := s.begin(s.talk.Settings().Model)
	if answer == nil {
		return true
	}
	s.refused(answer)
	return false
}

func (s *session) refused(answer *fasthttp.Response) {
	code := closePolicy
	if status := answer.StatusCode(); status == 429 || status >= 500 {
		code = closeAgain
	}
	s.stop(&ending{})
	if body := answer.Body(); len(body) > 0 {
		_ = s.side.Send(s.talk.Refusal(body)) // if this fails, Close fails too
	}
	s.side.Close(code, "the session was refused")
}

type reader struct {
	*session
	message *socket.Message
	audio   *realtime.Audio
	doc     jsonx.Doc
	early   bool // whether the model is still unknown
}

// next reads and handles one message of at most the size most. It returns false if the session has
// ended.
func (r *reader) next(most int64) bool {
	clean, err := r.side.Receive(r.message, most, mostOf(r.all.services.Current().Config, r.key))
	if err != nil {
		r.lost(clean, err)
		return false
	}
	defer r.message.Release()
	defer r.doc.Reset() // deferred because the document refers to the message
	r.lastMessage.Store(time.Now().UnixNano())
	r.mu.Lock()
	if r.call != nil {
		r.call.Received(int64(len(r.message.Bytes())))
	}
	r.mu.Unlock()
	m, refused := realtime.ParseClient(&r.doc, r.message.Bytes())
	if refused == nil {
		refused, err = r.handle(&m)
	}
	if refused != nil && err == nil {
		err = r.refuse(refused, &m)
	}
	return err == nil && !r.isOver()
}

func (r *reader) lost(clean bool, err error) {
	var refused *apierr.Error
	switch {
	case errors.As(err, &refused):
		code := closeTooBig
		if refused.Code != apierr.CodeRequestTooLarge {
			code = closeAgain
		}
		r.stop(&ending{code: code, reason: "the message was refused", error: refused})
	default:
		r.stop(&ending{clean: clean})
	}
}

var errOver = errors.New("the session is over")

// refuse reports an invalid message to the client. To limit their number, each invalid message
// counts as a request of the key.
func (r *reader) refuse(refused *apierr.Error, m *realtime.ClientMessage) error {
	limited := call.ChargeRequest(r.all.services.Current(), r.key, time.Now())
	if limited != nil {
		r.stop(&ending{code: closePolicy, reason: "too many invalid messages", error: limited})
		return errOver
	}
	return r.side.Send(r.talk.Error(refused, m))
}

func (r *reader) handle(m *realtime.ClientMessage) (refused *apierr.Error, err error) {
	var client, engine []byte
	switch {
	case m.Kind == realtime.Update:
		client, engine, refused = r.talk.Update(m)
	case r.early:
		return apierr.Invalid("session.audio.input.transcription.model", apierr.CodeMissingParameter,
			"The session has no model yet: send session.update with the model, or name it in the query."), nil
	case m.Kind == realtime.Append:
		if refused = realtime.Check(m.Audio); refused == nil {
			err = r.append(m.Audio)
		}
		return refused, err
	default:
		if err := r.await(); err != nil {
			return nil, err
		}
		r.spoken.Store(time.Now().UnixNano())
		if m.Kind == realtime.Commit {
			engine, client, refused = r.talk.Commit()
		} else {
			engine, client = r.talk.Clear()
		}
	}
	if refused != nil {
		return refused, nil
	}
	if client != nil {
		err = r.side.Send(client)
	}
	if engine != nil && err == nil {
		err = r.toEngine(engine, false)
	}
	return nil, err
}

func (r *reader) append(audio []byte) error {
	if err := r.await(); err != nil {
		return err
	}
	start, begins := r.talk.Append()
	if begins {
		r.audio = r.talk.Audio()
	}
	if start != nil {
		if err := r.toEngine(start, true); err != nil {
			return err
		}
	}
	return r.audio.Pieces(audio, func(message []byte) error { return r.toEngine(message, true) })
}

// await blocks until the engine accepts audio. Until then, the client's messages stay in its
// socket.
func (r *reader) await() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.over && !r.gone && r.talk.Waits() {
		r.changed.Wait()
	}
	if r.over || r.gone {
		return errOver
	}
	return nil
}

// toEngine writes a message to the engine. After toEngine has sent audio, no other engine can take
// over the session.
func (r *reader) toEngine(message []byte, audio bool) error {
	r.mu.Lock()
	for !r.over && !r.gone && r.engine == nil {
		r.changed.Wait()
	}
	if r.over || r.gone {
		r.mu.Unlock()
		return errOver
	}
	ws, about := r.engine, r.about
	if audio {
		r.call.Spend()
	}
	r.mu.Unlock()
	if audio {
		r.sent.Store(time.Now().UnixNano())
	}
	if err := writeText(ws, about, message); err != nil && audio {
		_ = ws.CloseNow() // makes run end the session
		return r.awaitEnd()
	}
	return nil
}

func (r *reader) awaitEnd() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.over && !r.gone {
		r.changed.Wait()
	}
	return errOver
}

// stop ends the session if it has not ended yet, and wakes both goroutines.
func (s *session) stop(why *ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.over, s.end = true, why
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.engine != nil {
		_ = s.engine.CloseNow()
	}
	s.changed.Broadcast()
}

func (s *session) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

func (s *session) drainIdle() {
	s.mu.Lock()
	idle := s.call == nil && !s.over
	s.mu.Unlock()
	if idle {
		s.stop(&ending{})
		s.side.Close(closeGoing, reasonDrains)
	}
}

func closeReason(text string) string {
	const most = 100
	if len(text) > most {
		text = text[:strings.LastIndexByte(text[:most], ' ')+1]
	}
	return strings.TrimSpace(text)
}
