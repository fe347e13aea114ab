package realtime

import (
	"time"

	"penstock/proxy/request/failure"
	"penstock/proxy/telemetry/guard"
	"penstock/translate/apierr"
	"penstock/upstreams"
)

const (
	// idleTime is how long both sides of a session may be silent if timeouts.idle is not set.
	idleTime = 10 * time.Minute
	// longest is the maximum duration of a session if timeouts.total is not set. OpenAI uses the
	// same value.
	longest = 60 * time.Minute
	// pingEvery is the interval between pings to the client. A client that does not answer a ping
	// counts as disconnected.
	pingEvery = 30 * time.Second
)

func (s *session) startClock(known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	if !known {
		s.timer = time.AfterFunc(modelTime, s.noModel)
		return
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timer = time.AfterFunc(pingEvery, s.tick)
	s.timer.Reset(s.nextTick(time.Now()))
}

func (s *session) noModel() {
	defer s.all.services.Guard.Catch(guard.WebSocket, nil)
	s.mu.Lock()
	late := s.call == nil && !s.over && s.talk.Settings().Model == ""
	s.mu.Unlock()
	if !late {
		return
	}
	s.stop(&ending{})
	_ = s.side.Send(s.talk.Error(apierr.Invalid("session.audio.input.transcription.model", apierr.CodeMissingParameter,
		"No session.update has named a model within %d seconds.", int(modelTime/time.Second)), nil))
	s.side.Close(closePolicy, "no model was named")
}

// limits returns three time limits: for an engine that owes text, for silence on both sides, and
// for the session. The caller must hold mu.
func (s *session) limits() (stall, idle, total time.Duration) {
	stall, idle, total = s.about.Idle, idleTime, longest
	if s.about.Quiet > 0 {
		idle = s.about.Quiet
	}
	if s.about.Total > 0 {
		total = s.about.Total
	}
	return stall, idle, total
}

// nextTick returns the time until the next tick. The caller must hold mu.
func (s *session) nextTick(now time.Time) time.Duration {
	stall, idle, total := s.limits()
	silent := now.Sub(time.Unix(0, s.lastMessage.Load()))
	next := min(pingEvery, idle-silent, total-now.Sub(s.begun), stall)
	return max(next, time.Millisecond)
}

func (s *session) tick() {
	defer s.all.services.Guard.Catch(guard.WebSocket, nil)
	s.all.services.Guard.Point("realtime.tick")
	s.mu.Lock()
	now := time.Now()
	stall, idle, total := s.limits()
	s.mu.Unlock()
	silent := now.Sub(time.Unix(0, s.lastMessage.Load()))
	switch {
	case now.Sub(s.begun) >= total:
		s.stop(&ending{code: closeNormal, reason: "the session has lasted its time", clean: true, error: apierr.Invalid("",
			"session_expired", "The session has reached its maximum duration. Open another one.")})
		return
	case now.Sub(time.Unix(0, s.spoken.Load())) >= stall && s.talk.Owes():
		s.stop(&ending{failed: failure.GenerationTimeout(upstreams.CauseIdleTimeout, nil)})
		return
	case silent >= idle:
		s.stop(&ending{code: closeNormal, reason: "the session was idle", clean: true, error: apierr.Invalid("",
			"session_expired", "The session was idle for too long. Open another one.")})
		return
	}
	if !s.side.Ping() {
		s.stop(&ending{})
		s.side.Cut()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.timer.Reset(s.nextTick(time.Now()))
	}
}
