//go:build !linux

package http1

// hangUps is not supported on this system, so exchanges do not stay in the poller.
type hangUps struct{}

var engineHangUps hangUps

func (*hangUps) watch(*conn, Guard) bool { return false }
func (*hangUps) forget(*conn)            {}

// interrupt is never called on this system.
func (c *conn) interrupt() { c.close() }
