package http1

import (
	"errors"
	"sync/atomic"
	"time"
)

// receiveQueueState is the state of a socket's receive queue.
type receiveQueueState uint8

const (
	queueEmpty   receiveQueueState = iota // nothing has arrived
	queueHasData                          // bytes have arrived
	queueEOF                              // the peer has closed the connection
	queueBroken                           // the connection is broken; the error is in pollOps.err
)

// pollOps contains the functions that run on a connection's descriptor, with their arguments and
// results. Some of the functions run inside the runtime's poller. They are bound once, so that
// calls do not allocate.
type pollOps struct {
	probeFunc      func(fd uintptr)      // checks the socket, for peek
	fetchFunc      func(fd uintptr) bool // tryFetch, for conn.fetch; nil if not supported
	sendHeadFunc   func(fd uintptr)      // sendHead, for conn.sendHead
	sendPiecesFunc func(fd uintptr)      // sendPieces, for requestWriter.writeWithoutWaiting

	peekResult    receiveQueueState     // result of the last check
	err           error                 // error of the last check or fetch
	probeBuf      [1]byte               // buffer for a check
	fetched       *[readBufferSize]byte // buffer into which tryFetch has read fetchedBytes bytes
	fetchedBytes  int
	spare         *[readBufferSize]byte // buffer for the next tryFetch, which sets the field to nil
	unsentRequest *writeBuffers         // complete request, which tryFetch writes and releases before it reads
	head          []byte                // argument of sendHead
	sentBytes     int                   // number of bytes sent from unsentRequest, head or pieces
	pieces        [][]byte              // argument of sendPieces

	staying      *reply      // the response that stays in the poller, or nil
	stepper      Stepper     // the argument of Exchange.StayInPoller
	isInStep     bool        // stepper.Step is running
	engineHungUp atomic.Bool // the engine has hung up, and the poller will report no further event

	isUnixSocket   bool      // the socket is a Unix socket, for which unacknowledged bytes cannot be counted
	hasTimestamps  bool      // the kernel recorded when the last response arrived
	idleSince      time.Time // when the last response ended and the connection became idle
	sentAt         int64     // time just before the request was written, in Unix nanoseconds
	firstWriteSize int       // size of the request's first write; 0 once response bytes have arrived
	uncheckedWrite bool      // the request was written without checking the socket
}

func (p *pollOps) releaseSpare() {
	if p.spare != nil {
		readBufferPool.Put(p.spare)
		p.spare = nil
	}
}

// errUnsent is returned by fetch and pollOps.sendHead if they could not write the whole request. If
// pollOps.peekResult is not queueEmpty, the connection is unusable. Otherwise pollOps.sentBytes is
// the number of bytes sent.
var errUnsent = errors.New("the request has yet to be written")

// errNotQuiet is returned by conn.sendHead if bytes, or the end of the connection, had arrived
// before the write.
var errNotQuiet = errors.New("the connection is not quiet")

// errBytesBeforeRequestArrived is returned if bytes arrived before the engine's host had received
// any of the request. Such bytes cannot be the response to this request. They may, for example, be
// a second response to the previous request.
var errBytesBeforeRequestArrived = errors.New("the upstream has sent unsolicited bytes")
