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
		c := clock{
			limits: &limits, start: sent, sentAt: sent, readAt: sent,
			streams: bits&1 != 0, headed: bits&2 != 0, begun: bits&4 != 0, excused: bits&8 != 0, buffered: bits&16 != 0,
		}
		seen := c.excused || c.buffered
		// This is the limit for an answer that is not streamed.
		want, why := limits.Answer.D(), upstreams.CauseAnswerTimeout
		switch {
		case c.streams && !c.headed && c.begun:
			continue // this combination does not occur
		case c.streams && seen:
			want = 15 * time.Minute
		case c.streams && c.begun:
			want = 60 * time.Second
		case c.streams:
			want = 120 * time.Second
		case c.headed && !seen:
			want = 60 * time.Second
		}
		switch {
		case c.streams && !c.begun:
			why = upstreams.CauseFirstEventTimeout
		case c.headed && want < limits.Answer.D(), c.streams:
			why = upstreams.CauseIdleTimeout
		}
		t.Run(fmt.Sprintf("streams %t, head %t, begun %t, works %t, buffers %t", c.streams, c.headed, c.begun, c.excused, c.buffered), func(t *testing.T) {
			if at, limit := c.deadline(); time.Duration(at-sent) != want || limit != why {
				t.Errorf("ends after %v by %s, want %v by %s", time.Duration(at-sent), limit, want, why)
			}
		})
	}
}
