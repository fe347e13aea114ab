//go:build !unix

package http1

import (
	"syscall"
	"time"
)

// stalePatience is how long the check before reuse waits for a byte or a close. Every reuse is
// delayed by this time.
const stalePatience = 200 * time.Microsecond

// bind does nothing, because neither peek nor fetch is supported on this system.
func (p *poll) bind(syscall.RawConn) {}

// peek is not supported on this system.
func (p *poll) peek(syscall.RawConn) peeked { return peekedQuiet }

// unacked is not supported on this system.
func (p *poll) unacked(uintptr, int) bool { return false }

// wake and interrupt are never called on this system, because exchanges do not stay in the poller.

func (*conn) wake() {}

func (c *conn) interrupt() { c.close() }
