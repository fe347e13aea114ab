package attempt

import (
	"fmt"
	"testing"
	"time"

	"penstock/config"
	"penstock/config/instant"
	"penstock/upstreams"
)

// TestSilenceHasACeiling checks that every silent response fails eventually, even if the configured
// limits are 0s. If the engine makes no progress, the response fails at the default limit. If the
// engine makes progress, the response fails at most 15 minutes after the last bytes.
func TestSilenceHasACeiling(t *testing.T) {
	limits := config.Defaults().Timeouts
	limits.FirstEvent, limits.Idle = 0, 0
	sent := instant.Now()
	for bits := range 1 << 5 {
		c := responseTimeouts{
			limits: &limits, callStart: sent, sentAt: sent, readAt: sent,
			isStream: bits&1 != 0, headArrived: bits&2 != 0, answerBegun: bits&4 != 0, engineWorking: bits&8 != 0, mayBuffer: bits&16 != 0,
		}
		seen := c.engineWorking || c.mayBuffer
		want, why := limits.Answer.D(), upstreams.CauseAnswerTimeout
		switch {
		case c.isStream && !c.headArrived && c.answerBegun:
			continue // this combination does not occur
		case c.isStream && seen:
			want = 15 * time.Minute
		case c.isStream && c.answerBegun:
			want = 60 * time.Second
		case c.isStream:
			want = 120 * time.Second
		case c.headArrived && !seen:
			want = 60 * time.Second
		}
		switch {
		case c.isStream && !c.answerBegun:
			why = upstreams.CauseFirstEventTimeout
		case c.headArrived && want < limits.Answer.D(), c.isStream:
			why = upstreams.CauseIdleTimeout
		}
		t.Run(fmt.Sprintf("streams %t, head %t, begun %t, works %t, buffers %t", c.isStream, c.headArrived, c.answerBegun, c.engineWorking, c.mayBuffer), func(t *testing.T) {
			if at, limit := c.deadline(); time.Duration(at-sent) != want || limit != why {
				t.Errorf("ends after %v by %s, want %v by %s", time.Duration(at-sent), limit, want, why)
			}
		})
	}
}

// TestTotalIsNoFault checks that an engine is not blamed if timeouts.total ends an answer that it
// is generating, and is blamed for every other time limit.
func TestTotalIsNoFault(t *testing.T) {
	for name, c := range map[string]struct {
		state responseTimeouts
		limit upstreams.Cause
		want  upstreams.Outcome
	}{
		"tokens came":            {responseTimeouts{answerBegun: true}, upstreams.CauseTotalTimeout, upstreams.OutcomeClientGone},
		"the engine works":       {responseTimeouts{engineWorking: true}, upstreams.CauseTotalTimeout, upstreams.OutcomeClientGone},
		"silent, but works":      {responseTimeouts{answerBegun: true, engineWorking: true, countedWaiting: true}, upstreams.CauseTotalTimeout, upstreams.OutcomeClientGone},
		"silent, but may buffer": {responseTimeouts{answerBegun: true, mayBuffer: true, countedWaiting: true}, upstreams.CauseTotalTimeout, upstreams.OutcomeClientGone},
		"silence after tokens":   {responseTimeouts{answerBegun: true, countedWaiting: true}, upstreams.CauseTotalTimeout, upstreams.OutcomeTimeout},
		"nothing came":           {responseTimeouts{mayBuffer: true}, upstreams.CauseTotalTimeout, upstreams.OutcomeTimeout},
		"idle after tokens":      {responseTimeouts{answerBegun: true}, upstreams.CauseIdleTimeout, upstreams.OutcomeTimeout},
	} {
		if f := c.state.timeoutFailure(c.limit); f.Outcome != c.want || f.API.Status != 504 || f.Cause != c.limit {
			t.Errorf("%s: %s, %d, %s, want %s", name, f.Outcome, f.API.Status, f.Cause, c.want)
		}
	}
}
