//go:build !unix

package http1

import (
	"syscall"
	"time"
)

// staleCheckTimeout is how long the check before each reuse waits for a byte or a close. It delays
// every reuse.
const staleCheckTimeout = 200 * time.Microsecond

// bindFuncs does nothing, because neither peek nor fetch is supported on this system.
func (p *pollOps) bindFuncs(syscall.RawConn) {}

// peek is not supported on this system.
func (p *pollOps) peek(syscall.RawConn) receiveQueueState { return queueEmpty }

// isUnacked is not supported on this system.
func (p *pollOps) isUnacked(uintptr, int) bool { return false }

// endStayOnHangUp and interrupt are never called on this system, because exchanges do not stay in the
// poller.

func (*conn) endStayOnHangUp() {}

func (c *conn) interruptStay() { c.close() }
