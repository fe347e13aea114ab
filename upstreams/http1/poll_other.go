//go:build !unix

package http1

import (
	"syscall"
	"time"
)

// stalePatience is how long the check before reuse waits for a byte or a close. Every reuse takes
// that long.
const stalePatience = 200 * time.Microsecond

// bind has nothing to prepare: there is neither peek nor fetch.
func (p *poll) bind() {}

// peek sees nothing.
func (p *poll) peek(syscall.RawConn) peeked { return peekedQuiet }
