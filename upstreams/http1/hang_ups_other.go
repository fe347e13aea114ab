//go:build !linux

package http1

// hangUps watches nothing here, so exchanges do not stay in the poller.
type hangUps struct{}

var engineHangUps hangUps

func (*hangUps) watch(*conn, Guard) bool { return false }
func (*hangUps) forget(*conn)            {}

// interrupt is not called here.
func (c *conn) interrupt() { c.close() }
