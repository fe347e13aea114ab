//go:build !unix

package http1

import (
	"syscall"
	"time"
)

// canPeek says that there is no way here to look at a socket without taking from it. An early
// answer is then seen only when the write fails or its time is up.
const canPeek = false

// stalePatience is how long the check before reuse waits for a byte or a close. It is the price of
// a reuse.
const stalePatience = 200 * time.Microsecond

// bind has nothing to prepare: there is neither peek nor fetch.
func (p *poll) bind() {}

// peek sees nothing.
func (p *poll) peek(syscall.RawConn) peeked { return peekedQuiet }
