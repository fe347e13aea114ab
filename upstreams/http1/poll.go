package http1

import (
	"errors"
	"time"
)

// peeked is the result of a peek into a socket's receive queue.
type peeked uint8

const (
	peekedQuiet  peeked = iota // nothing has arrived
	peekedData                 // bytes are waiting
	peekedEOF                  // the other side has closed
	peekedBroken               // the connection is broken; poll.err says how
)

// poll holds the functions that run on a connection's descriptor, inside or outside the runtime's
// poller, and their results. The functions are bound once, so that calling them allocates nothing.
type poll struct {
	probe func(fd uintptr)      // probes the socket, for peek
	grab  func(fd uintptr) bool // tryFetch, for conn.fetch; nil if unsupported
	begin func(fd uintptr)      // sendHead, for conn.sendHead
	part  func(fd uintptr)      // sendPieces, for requestWriter.pushAtOnce

	found   peeked            // result of the last probe
	err     error             // how the last probe or fetch failed
	one     [1]byte           // the buffer of a probe
	fetched *[readBuffer]byte // bytes that tryFetch has read: the first count of them
	count   int
	spare   *[readBuffer]byte // buffer for the first tryFetch, which removes it
	unsent  *outgoing         // complete request that tryFetch writes first, then releases
	head    []byte            // for sendHead
	left    int               // bytes sent: of unsent or head if err is errUnsent, else of pieces
	pieces  [][]byte          // for sendPieces

	step   func() bool // handles fetched inside the poller, and reports whether to wait for more; may be nil
	inside bool        // step runs

	local    bool      // a Unix socket, of which the kernel does not count unacknowledged bytes
	stamped  bool      // the kernel notes when bytes arrive, as the last reply has shown
	kept     time.Time // when the last reply ended
	sentAt   time.Time // just before the request was written
	size     int       // of the written request, until its reply's first bytes; otherwise 0
	unlooked bool      // it was written without a look at the socket
}

// releaseSpare returns the spare buffer, if no try has used it.
func (p *poll) releaseSpare() {
	if p.spare != nil {
		readBuffers.Put(p.spare)
		p.spare = nil
	}
}

// errUnsent is returned by sendHead, and by fetch if fetch could not write all of poll.unsent. If
// poll.found is not peekedQuiet, the connection is unusable. Otherwise poll.left is the number of
// sent bytes.
var errUnsent = errors.New("the request has yet to be written")

// errNotQuiet is returned by conn.sendHead if bytes or an end had arrived before the write.
var errNotQuiet = errors.New("the connection is not quiet")

// errLeftover is returned if bytes arrived before the engine's host had received any of the
// request. Such bytes do not answer this request. They may, for example, answer the previous
// request a second time.
var errLeftover = errors.New("the upstream has sent unsolicited bytes")
