//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package upstreams

import "time"

// canPeek says that there is no way here to look at a socket without taking from it. An early answer is then seen only
// when the write fails or its time is up.
const canPeek = false

// stalePatience is how long the check before reuse waits for a byte or a close. It is the price of a reuse.
const stalePatience = 200 * time.Microsecond

// peek sees nothing.
func (c *conn) peek() peeked { return peekedQuiet }

func (c *conn) look(uintptr) {}
