package config

// CheckOpen says what keeps f from being served at ports that are open already, whatever listen and
// admin.listen say: those of a process that runs, which only a restart moves, and those that a
// service manager has opened. The addresses are the ports' own; admin is empty when there is no
// admin listener. What Validate finds about the addresses of the file says nothing about them: a
// file that takes everything back to loopback may switch the keys off, the open port would stay
// open.
func (f *File) CheckOpen(public, admin string) Problems {
	c := f.checks().check
	for _, port := range []struct{ setting, at string }{{"listen", public}, {"admin.listen", admin}} {
		if f.Auth == AuthNone && port.at != "" && !OnLoopback(port.at) {
			c.fail("auth", "none is allowed on loopback only, and the port of %s is open at %s %s", port.setting, port.at,
				untilMoved)
		}
	}
	if f.Admin.Token == "" && admin != "" && !OnLoopback(admin) {
		c.fail("admin.token", "it is needed: the admin listener is open at %s, where other machines reach it, %s", admin,
			untilMoved)
	}
	return c.Problems()
}

// untilMoved is the remedy for an open port.
const untilMoved = "until the edge is restarted, or, where a service manager opened it, its socket unit says another address"
