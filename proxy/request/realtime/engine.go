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

var errBinaryMessage = errors.New("the engine's message is not text")

// connectEngine exchanges the first messages with an engine. It waits for session.created and then
// sends the settings.
func (s *session) connectEngine(e *call.DialogueEngine) error {
	ws, err := adoptConn(e.Conn)
	if err != nil {
		return failure.BadResponse(err)
	}
	form := realtime.ProtocolOpenAI
	if e.Profile.HasQuirk(config.QuirkTranscriptionEvents) {
		form = realtime.ProtocolVLLM
	}
	messages, refused := s.protocol.ConnectEngine(form, e.Served)
	if refused != nil {
		_ = ws.CloseNow()
		f := failure.FromRequestError(refused)
		return f
	}
	var buf bytes.Buffer
	var doc jsonx.Doc
	for h := (realtime.TranslatedEvent{}); !h.Created; {
		if err := readTextMessage(ws, &buf); err != nil {
			return convertEngineReadError(err)
		}
		if h, err = s.protocol.TranslateEngineEvent(&doc, buf.Bytes(), func(*engineerror.Error) {}); err != nil {
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
	s.engine, s.engineInfo = ws, e
	s.changed.Broadcast()
	s.mu.Unlock()
	return nil
}

// convertEngineReadError converts an engine's invalid message or close frame into a failure. It returns
// all other errors unchanged.
func convertEngineReadError(err error) error {
	var failed *http1.Failure
	if errors.Is(err, errBinaryMessage) || errors.Is(err, websocket.ErrMessageTooBig) || websocket.CloseStatus(err) >= 0 {
		if !errors.As(err, &failed) {
			return failure.BadResponse(&http1.Failure{Kind: http1.KindBadResponse, Reason: http1.ReasonEOF, Sent: true, Err: err})
		}
	}
	return err
}

func writeTextMessage(ws *websocket.Conn, about *call.DialogueEngine, message []byte) error {
	_ = about.Conn.SetWriteDeadline(time.Now().Add(about.Idle)) // fails only if the connection is closed
	err := ws.Write(context.Background(), websocket.MessageText, message)
	_ = about.Conn.SetWriteDeadline(time.Time{}) // the write of a pong has a separate deadline
	return err
}

// relayEngine reads the engine's events and forwards them to the client until the session ends. It
// then ends the call and closes the connection.
func (s *session) relayEngine(done chan<- struct{}) {
	defer close(done)
	defer s.call.End()
	defer s.sessions.services.Guard.Catch(guard.PlaceWebSocket, func() {
		s.endSession(&sessionEnding{})
		s.clientSocket.Close(closeInternalError, "internal error")
	})
	s.sessions.services.Guard.PanicIfInjected("realtime.run")
	var buf bytes.Buffer
	var doc jsonx.Doc
	for {
		err := s.relayEngineEvent(&buf, &doc)
		if err == nil {
			continue
		}
		if refused := s.replaceEngine(err); refused != nil {
			s.closeWithError(refused)
			return
		}
		if s.isEnded() {
			s.finishCall()
			return
		}
	}
}

func (s *session) relayEngineEvent(buf *bytes.Buffer, doc *jsonx.Doc) error {
	s.mu.Lock()
	ws := s.engine
	over := s.ended
	s.mu.Unlock()
	if over {
		return errSessionOver
	}
	if err := readTextMessage(ws, buf); err != nil {
		return convertEngineReadError(err)
	}
	now := time.Now()
	h, err := s.protocol.TranslateEngineEvent(doc, buf.Bytes(), s.call.RedactError)
	if err != nil {
		return failure.BadResponse(err)
	}
	s.lastMessage.Store(now.UnixNano())
	s.lastEngineAt.Store(now.UnixNano())
	if h.Text {
		s.call.RecordFirstText(time.Unix(0, s.lastAudioAt.Load()))
	}
	var spent *apierr.Error
	if h.Counted { // charged even if the client no longer gets the transcript
		spent = s.call.ChargeTokens(h.Prompt, h.Completion)
	}
	for _, event := range h.Client {
		if s.clientSocket.Send(event) != nil {
			s.endSession(&sessionEnding{})
			return errSessionOver
		}
		s.call.AddBytesOut(int64(len(event)))
	}
	if spent != nil {
		s.endSession(&sessionEnding{code: closeTryAgain, reason: "the key has reached a limit", apiErr: spent, clean: true})
		return errSessionOver
	}
	if h.Changed {
		s.mu.Lock()
		s.changed.Broadcast()
		s.mu.Unlock()
	}
	return nil
}

// replaceEngine closes the engine's connection after an error. It returns the error that ends the
// session. The error is nil if the session has already ended or if another engine has taken over.
func (s *session) replaceEngine(err error) *apierr.Error {
	s.mu.Lock()
	ws, end, over := s.engine, s.outcome, s.ended
	s.engine = nil
	s.mu.Unlock()
	if ws != nil {
		_ = ws.CloseNow()
	}
	if !over && errors.Is(s.call.CancelCause(), failure.ErrClientGone) {
		end, over = s.awaitClientReader(), true
	}
	if over && (end.clean || s.call.CancelCause() == nil) {
		if end.engineErr == nil {
			return nil
		}
		err = end.engineErr
	}
	if refused := s.call.Reconnect(err); refused != nil {
		return refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended && s.engine != nil { // the session has ended while the engine was being replaced
		_ = s.engine.CloseNow()
	}
	return nil
}

// closeGrace is how long the edge waits for the close frame of a client that has disconnected.
const closeGrace = time.Second

// awaitClientReader waits until the goroutine that reads from the client has ended the session.
// That goroutine may not have read the client's close frame yet. It returns how the session ended.
func (s *session) awaitClientReader() *sessionEnding {
	defer time.AfterFunc(closeGrace, s.cutClient).Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clientGone = true
	s.changed.Broadcast()
	for !s.ended {
		s.changed.Wait()
	}
	return s.outcome
}

func (s *session) cutClient() {
	defer s.sessions.services.Guard.Catch(guard.PlaceWebSocket, nil)
	s.clientSocket.CloseNow()
}

func (s *session) closeWithError(refused *apierr.Error) {
	s.endSession(&sessionEnding{})
	cause := s.call.CancelCause()
	s.call.End()
	code, reason := closeInternalError, truncateReason(refused.Message)
	switch {
	case errors.Is(cause, failure.ErrClientGone):
		s.clientSocket.CloseNow()
		return
	case errors.Is(cause, failure.ErrShuttingDown):
		code, reason = closeGoingAway, reasonShutdown
	case errors.Is(cause, failure.ErrRevoked):
		code = closePolicy
	}
	_ = s.clientSocket.Send(s.protocol.ErrorEvent(refused, nil)) // if this fails, Close fails too
	s.clientSocket.Close(code, reason)
}

// finishCall ends the call and closes the connection after the client or the edge has ended the
// session.
func (s *session) finishCall() {
	end := s.outcome
	if end.clean {
		s.call.Complete()
	} else {
		s.call.EndClientGone()
	}
	s.call.End()
	s.sendClosing()
}

func (s *session) sendClosing() {
	if s.outcome.apiErr != nil {
		_ = s.clientSocket.Send(s.protocol.ErrorEvent(s.outcome.apiErr, nil)) // if this fails, Close fails too
	}
	if s.outcome.code != 0 {
		s.clientSocket.Close(s.outcome.code, s.outcome.reason)
	}
}
