//go:build !unix

package http1

import (
	"syscall"
	"time"
)

// stalePatience is the time for which the check before reuse waits for a byte or a close. Every
// reuse takes this time.
const stalePatience = 200 * time.Microsecond

// bind has nothing to prepare: there is neither peek nor fetch.
func (p *poll) bind(syscall.RawConn) {}

// peek sees nothing.
func (p *poll) peek(syscall.RawConn) peeked { return peekedQuiet }

// unacked knows nothing.
func (p *poll) unacked(uintptr, int) bool { return false }
