//go:build !unix

package http1

import (
	"syscall"
	"time"
)

// stalePatience is how long the check before reuse waits for a byte or a close. It delays every
// reuse by this time.
const stalePatience = 200 * time.Microsecond

// bind has nothing to prepare: there is neither peek nor fetch.
func (p *poll) bind(syscall.RawConn) {}

// peek is not supported.
func (p *poll) peek(syscall.RawConn) peeked { return peekedQuiet }

// unacked knows nothing.
func (p *poll) unacked(uintptr, int) bool { return false }
