package http1

import (
	"errors"
	"sync/atomic"
	"time"
)

// queueState is the state of a socket's receive queue.
type queueState uint8

const (
	queueEmpty   queueState = iota // nothing has arrived
	queueHasData                   // bytes are waiting
	queueEOF                       // the peer has closed the connection
	queueBroken                    // the connection is broken; the error is in poll.err
)

// pollOps contains the functions that run on a connection's descriptor, and their results. Some of
// them run inside the runtime's poller. The functions are bound once, so that calls do not
// allocate.
type pollOps struct {
	probeFunc      func(fd uintptr)      // checks the socket, for peek
	fetchFunc      func(fd uintptr) bool // tryFetch, for conn.fetch; nil if not supported
	sendHeadFunc   func(fd uintptr)      // sendHead, for conn.sendHead
	sendPiecesFunc func(fd uintptr)      // sendPieces, for requestWriter.writeWithoutWaiting

	peekResult    queueState            // result of the last check
	err           error                 // error of the last check or fetch
	probeBuf      [1]byte               // buffer for a check
	fetched       *[readBufferSize]byte // buffer with count bytes that tryFetch has read
	fetchedBytes  int
	spare         *[readBufferSize]byte // buffer for the next tryFetch, which sets the field to nil
	unsentRequest *writeBuffers         // complete request that tryFetch writes and releases before it reads
	head          []byte                // argument of sendHead
	sentBytes     int                   // number of bytes sent: from unsent or head if err is errUnsent, otherwise from pieces
	pieces        [][]byte              // argument of sendPieces

	onFetched    func() bool // handles the bytes in fetched and reports whether to wait for more; may be nil
	isInStep     bool        // step is running
	engineHungUp atomic.Bool // the engine has hung up, and no report of the poller will follow

	isUnixSocket    bool      // a Unix socket, for which the kernel does not count unacknowledged bytes
	hasTimestamps   bool      // the kernel recorded when the last response arrived
	lastResponseEnd time.Time // when the last response ended
	sentAt          time.Time // time just before the request was written
	firstWriteSize  int       // size of the request's first write; 0 once response bytes have arrived
	uncheckedWrite  bool      // the request was written without checking the socket
}

func (p *pollOps) releaseSpare() {
	if p.spare != nil {
		readBufferPool.Put(p.spare)
		p.spare = nil
	}
}

// errUnsent is returned by sendHead, and by fetch if it could not write all of poll.unsent. If
// poll.found is not queueEmpty, the connection is unusable. Otherwise poll.left is the number of
// bytes sent.
var errUnsent = errors.New("the request has yet to be written")

// errNotQuiet is returned by conn.sendHead if bytes or an end had arrived before the write.
var errNotQuiet = errors.New("the connection is not quiet")

// errLeftover is returned if bytes arrived before the engine's host had received any of the
// request. Such bytes do not answer this request. They may, for example, answer the previous
// request a second time.
var errLeftover = errors.New("the upstream has sent unsolicited bytes")
