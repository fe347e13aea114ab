package http1

import "errors"

// peeked is what a look at a socket's receive queue found.
type peeked uint8

const (
	peekedQuiet  peeked = iota // nothing has come
	peekedData                 // bytes are waiting
	peekedEOF                  // the other side has closed
	peekedBroken               // the connection is broken; poll.err says how
)

// poll is what runs on a connection's descriptor, within the runtime's poller or beside it, and
// what it has found. The functions are bound once, so that calling them allocates nothing.
type poll struct {
	probe func(fd uintptr)      // look, for peek
	grab  func(fd uintptr) bool // tryFetch, for conn.fetch; nil where there is none
	begin func(fd uintptr)      // sendHead, for conn.sendHead
	part  func(fd uintptr)      // sendPieces, for requestWriter.pushAtOnce

	found   peeked            // by the last look
	err     error             // of the last look or fetch
	one     [1]byte           // what a look reads into
	fetched *[readBuffer]byte // what tryFetch has read: the first count bytes of it
	count   int
	unsent  *outgoing // a whole request for tryFetch to write first, which gives its memory back
	head    []byte    // for sendHead
	left    int       // how much of either went, where err is errUnsent; or of pieces
	pieces  [][]byte  // for sendPieces
}

// errUnsent is returned by fetch when it could not write all of poll.unsent, and by sendHead. If
// poll.found is not peekedQuiet, the connection is unusable. Otherwise poll.left is the number of
// bytes that it took.
var errUnsent = errors.New("the request has yet to be written")

// errLeftover is returned when bytes were there before the engine's host had any of the request:
// they reply to something else, such as a second time to the request before.
var errLeftover = errors.New("the upstream has sent unsolicited bytes")
