package http1

import "penstock/upstreams/http1/socket"

// engineHangUps wakes exchanges whose engine hangs up while they stay in the runtime's poller
// (Exchange.StayInPoller). The poller may report bytes and the end of the stream in one event. An
// exchange that has read the bytes would then wait for an event that never occurs.
var engineHangUps socket.HangUpWatch

// watchHangUps adds the connection to engineHangUps if it is not watched yet. It returns false if
// that fails.
func (c *conn) watchHangUps(g Guard) bool {
	return c.hangUp.IsWatched() || engineHangUps.Add(&c.hangUp, c.raw, func(run func()) { go g.RunWithRecover(guardEngines, run) }, c.endStayOnHangUp) == nil
}
