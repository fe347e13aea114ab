package http1

import "penstock/upstreams/http1/socket"

// engineHangUps wakes exchanges whose engine hangs up while they stay in the runtime's poller
// (Exchange.Stay). The poller may report bytes and the end of the stream in one event. An exchange
// that has read the bytes would then wait for an event that never comes.
var engineHangUps socket.HangUpWatch

// watchHangUps reports whether the connection is watched.
func (c *conn) watchHangUps(g Guard) bool {
	return c.hangUp.IsWatched() || engineHangUps.Add(&c.hangUp, c.raw, func(run func()) { go g.Once(guardEngines, run) }, c.wakeOnHangUp) == nil
}
