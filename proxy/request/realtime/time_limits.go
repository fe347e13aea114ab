package realtime

import (
	"time"

	"penstock/proxy/request/failure"
	"penstock/proxy/telemetry/guard"
	"penstock/translate/apierr"
	"penstock/upstreams"
)

const (
	// defaultIdleTimeout is how long both sides of a session may be silent if timeouts.idle is not
	// set.
	defaultIdleTimeout = 10 * time.Minute
	// defaultMaxDuration is the maximum duration of a session if timeouts.total is not set. OpenAI
	// uses the same value.
	defaultMaxDuration = 60 * time.Minute
	// pingEvery is the interval between pings to the client. A client that does not answer a ping
	// counts as disconnected.
	pingEvery = 30 * time.Second
)

func (s *session) startTimer(known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	if !known {
		s.timer = time.AfterFunc(modelTimeout, s.closeWithoutModel)
		return
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timer = time.AfterFunc(pingEvery, s.checkTimeLimits)
	s.timer.Reset(s.nextCheckDelay(time.Now()))
}

func (s *session) closeWithoutModel() {
	defer s.sessions.services.Guard.Catch(guard.PlaceWebSocket, nil)
	s.mu.Lock()
	late := s.call == nil && !s.ended && s.protocol.Settings().Model == ""
	s.mu.Unlock()
	if !late {
		return
	}
	s.endSession(&sessionEnding{})
	_ = s.clientSocket.Send(s.protocol.ErrorEvent(apierr.Invalid("session.audio.input.transcription.model", apierr.CodeMissingParameter,
		"No session.update has named a model within %d seconds.", int(modelTimeout/time.Second)), nil))
	s.clientSocket.Close(closePolicy, "no model was named")
}

// timeLimits returns three time limits. stall limits the silence of an engine that has not sent all
// text. idle limits the silence of both sides. total limits the duration of the session. The caller
// must hold mu.
func (s *session) timeLimits() (stall, idle, total time.Duration) {
	stall, idle, total = s.engineInfo.Idle, defaultIdleTimeout, defaultMaxDuration
	if s.engineInfo.Quiet > 0 {
		idle = s.engineInfo.Quiet
	}
	if s.engineInfo.Total > 0 {
		total = s.engineInfo.Total
	}
	return stall, idle, total
}

// nextCheckDelay returns the time until the session must check its time limits again. The caller
// must hold mu.
func (s *session) nextCheckDelay(now time.Time) time.Duration {
	stall, idle, total := s.timeLimits()
	silent := now.Sub(time.Unix(0, s.lastMessage.Load()))
	next := min(pingEvery, idle-silent, total-now.Sub(s.startedAt), stall)
	return max(next, time.Millisecond)
}

func (s *session) checkTimeLimits() {
	defer s.sessions.services.Guard.Catch(guard.PlaceWebSocket, nil)
	s.sessions.services.Guard.PanicIfInjected("realtime.tick")
	s.mu.Lock()
	now := time.Now()
	stall, idle, total := s.timeLimits()
	s.mu.Unlock()
	silent := now.Sub(time.Unix(0, s.lastMessage.Load()))
	switch {
	case now.Sub(s.startedAt) >= total:
		s.endSession(&sessionEnding{code: closeNormal, reason: "the session has lasted its time", clean: true, apiErr: apierr.Invalid("",
			"session_expired", "The session has reached its maximum duration. Open another one.")})
		return
	case now.Sub(time.Unix(0, s.lastEngineAt.Load())) >= stall && s.protocol.HasPendingText():
		s.endSession(&sessionEnding{engineErr: failure.GenerationTimeout(upstreams.CauseIdleTimeout, nil)})
		return
	case silent >= idle:
		s.endSession(&sessionEnding{code: closeNormal, reason: "the session was idle", clean: true, apiErr: apierr.Invalid("",
			"session_expired", "The session was idle for too long. Open another one.")})
		return
	}
	if !s.clientSocket.PingClient() {
		s.endSession(&sessionEnding{})
		s.clientSocket.CloseNow()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.timer.Reset(s.nextCheckDelay(time.Now()))
	}
}
