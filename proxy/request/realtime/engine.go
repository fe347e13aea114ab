package realtime

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/coder/websocket"

	"penstock/config"
	"penstock/proxy/request/call"
	"penstock/proxy/request/failure"
	"penstock/proxy/telemetry/guard"
	"penstock/translate/apierr"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
	"penstock/translate/realtime"
	"penstock/upstreams/http1"
)

var errBinary = errors.New("the engine's message is not text")

// meet exchanges the first messages with an engine. It waits for session.created and then sends the
// settings.
func (s *session) meet(e *call.Engine) error {
	ws, err := adopt(e.Conn)
	if err != nil {
		return failure.BadResponse(err)
	}
	form := realtime.OpenAI
	if e.Profile.Has(config.QuirkTranscriptionEvents) {
		form = realtime.VLLM
	}
	messages, refused := s.talk.Meet(form, e.Served)
	if refused != nil {
		_ = ws.CloseNow()
		f := failure.FromClient(refused)
		return f
	}
	var buf bytes.Buffer
	var doc jsonx.Doc
	for h := (realtime.Heard{}); !h.Created; {
		if err := readText(ws, &buf); err != nil {
			return cause(err)
		}
		if h, err = s.talk.Engine(&doc, buf.Bytes(), func(*engineerror.Error) {}); err != nil {
			return failure.BadResponse(err)
		}
	}
	for _, m := range messages {
		if err := ws.Write(context.Background(), websocket.MessageText, m); err != nil {
			return err
		}
	}
	_ = e.Conn.SetDeadline(time.Time{}) // must be cleared before another goroutine writes
	s.mu.Lock()
	s.engine, s.about = ws, e
	s.changed.Broadcast()
	s.mu.Unlock()
	return nil
}

// cause converts an engine's invalid message or close frame into a failure. It returns other errors
// unchanged.
func cause(err error) error {
	var failed *http1.Failure
	if errors.Is(err, errBinary) || errors.Is(err, websocket.ErrMessageTooBig) || websocket.CloseStatus(err) >= 0 {
		if !errors.As(err, &failed) {
			return failure.BadResponse(&http1.Failure{Kind: http1.BadResponse, Reason: http1.ReasonEOF, Sent: true, Err: err})
		}
	}
	return err
}

func writeText(ws *websocket.Conn, about *call.Engine, message []byte) error {
	_ = about.Conn.SetWriteDeadline(time.Now().Add(about.Idle)) // fails only if the connection is closed
	err := ws.Write(context.Background(), websocket.MessageText, message)
	_ = about.Conn.SetWriteDeadline(time.Time{}) // a pong has a separate limit
	return err
}

// run reads the engine's events and forwards them to the client until the session ends. It then
// ends the call and closes the connection.
func (s *session) run(done chan<- struct{}) {
	defer close(done)
	defer s.call.End()
	defer s.all.services.Guard.Catch(guard.WebSocket, func() {
		s.stop(&ending{})
		s.side.Close(closeFault, "internal error")
	})
	s.all.services.Guard.Point("realtime.run")
	var buf bytes.Buffer
	var doc jsonx.Doc
	for {
		err := s.hear(&buf, &doc)
		if err == nil {
			continue
		}
		if refused := s.leave(err); refused != nil {
			s.tell(refused)
			return
		}
		if s.isOver() {
			s.conclude()
			return
		}
	}
}

func (s *session) hear(buf *bytes.Buffer, doc *jsonx.Doc) error {
	s.mu.Lock()
	ws := s.engine
	over := s.over
	s.mu.Unlock()
	if over {
		return errOver
	}
	if err := readText(ws, buf); err != nil {
		return cause(err)
	}
	now := time.Now()
	h, err := s.talk.Engine(doc, buf.Bytes(), s.call.Redact)
	if err != nil {
		return failure.BadResponse(err)
	}
	s.lastMessage.Store(now.UnixNano())
	s.spoken.Store(now.UnixNano())
	if h.Text {
		s.call.FirstText(time.Unix(0, s.sent.Load()))
	}
	var spent *apierr.Error
	if h.Counted { // even if the client no longer gets the transcript
		spent = s.call.Used(h.Prompt, h.Completion)
	}
	for _, event := range h.Client {
		if s.side.Send(event) != nil {
			s.stop(&ending{})
			return errOver
		}
		s.call.Sent(int64(len(event)))
	}
	if spent != nil {
		s.stop(&ending{code: closeAgain, reason: "the key has reached a limit", error: spent, clean: true})
		return errOver
	}
	if h.Changed {
		s.mu.Lock()
		s.changed.Broadcast()
		s.mu.Unlock()
	}
	return nil
}

// leave closes the engine's connection after an error. It returns the error that ends the session.
// The error is nil if the session has already ended or if another engine has taken over.
func (s *session) leave(err error) *apierr.Error {
	s.mu.Lock()
	ws, end, over := s.engine, s.end, s.over
	s.engine = nil
	s.mu.Unlock()
	if ws != nil {
		_ = ws.CloseNow()
	}
	if !over && errors.Is(s.call.Cause(), failure.ErrClientGone) {
		end, over = s.awaitReader(), true
	}
	if over && (end.clean || s.call.Cause() == nil) {
		if end.failed == nil {
			return nil
		}
		err = end.failed
	}
	if refused := s.call.Lost(err); refused != nil {
		return refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over && s.engine != nil { // the session has ended in the meantime
		_ = s.engine.CloseNow()
	}
	return nil
}

// closeGrace is how long to wait for the close frame of a client that has disconnected.
const closeGrace = time.Second

// awaitReader waits until the goroutine that reads from the client has ended the session, because
// that goroutine may not have read the client's close frame yet. It returns how the session ended.
func (s *session) awaitReader() *ending {
	defer time.AfterFunc(closeGrace, s.cut).Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.changed.Broadcast()
	for !s.over {
		s.changed.Wait()
	}
	return s.end
}

func (s *session) cut() {
	defer s.all.services.Guard.Catch(guard.WebSocket, nil)
	s.side.Cut()
}

func (s *session) tell(refused *apierr.Error) {
	s.stop(&ending{})
	cause := s.call.Cause()
	s.call.End()
	code, reason := closeFault, closeReason(refused.Message)
	switch {
	case errors.Is(cause, failure.ErrClientGone):
		s.side.Cut()
		return
	case errors.Is(cause, failure.ErrDrained):
		code, reason = closeGoing, reasonDrains
	case errors.Is(cause, failure.ErrRevoked):
		code = closePolicy
	}
	_ = s.side.Send(s.talk.Error(refused, nil)) // if this fails, Close fails too
	s.side.Close(code, reason)
}

// conclude ends the call and closes the connection after the client or the edge has ended the
// session.
func (s *session) conclude() {
	end := s.end
	if end.clean {
		s.call.Complete()
	} else {
		s.call.Leave()
	}
	s.call.End()
	s.part()
}

func (s *session) part() {
	if s.end.error != nil {
		_ = s.side.Send(s.talk.Error(s.end.error, nil)) // if this fails, Close fails too
	}
	if s.end.code != 0 {
		s.side.Close(s.end.code, s.end.reason)
	}
}
