package body

import (
	"errors"
	"net"
	"os"
	"strings"
	"time"

	"penstock/proxy/access/limit"
	"penstock/proxy/front/listen"
	"penstock/translate/apierr"
)

// ErrClientGone is the cause of an error if the client closed its side of the connection.
var ErrClientGone = errors.New("client gone")

// CodeNoMemory is the error code if no memory is left for a body. Engines do not return this code.
const CodeNoMemory = "no_body_memory"

// MemoryFullError returns the 503 for a body when the memory is exhausted.
func MemoryFullError() *apierr.Error {
	e := apierr.New(503, CodeNoMemory, "Request memory is exhausted. Retry shortly.")
	e.RetryAfter = limit.AddJitter(time.Second)
	return e
}

func slowClientError(cause error) *apierr.Error {
	e := apierr.New(408, apierr.CodeRequestTimeout, "The request body came too slowly.")
	e.Cause = cause
	return e
}

// IncompleteError returns the error for a body that did not arrive completely. Either the client
// was too slow, closed its side of the connection, or sent invalid framing. The error is sent in
// all three cases, because a client that closed only its sending side can still read.
func IncompleteError(conn net.Conn, err error) *apierr.Error {
	switch {
	case IsTimeout(err):
		return slowClientError(err)
	case listen.IsRequestTruncated(conn):
		return TruncatedError()
	}
	return FramingError(err)
}

// TruncatedError returns the error for a client that closed its side of the connection before the
// end of the body.
func TruncatedError() *apierr.Error {
	e := apierr.BadRequest("The request body ended early: " +
		"the client closed its side of the connection before all of it was read.")
	e.Cause = ErrClientGone
	return e
}

// FramingError returns the error for a body with invalid framing.
func FramingError(cause error) *apierr.Error {
	e := apierr.BadRequest(framingMessage(cause))
	e.Cause = cause
	return e
}

// framingMessage describes the framing error without quoting the request.
func framingMessage(cause error) string {
	switch {
	case errors.Is(cause, listen.ErrContentLength):
		return "The Content-Length header is not one whole number of bytes."
	case errors.Is(cause, listen.ErrTransferEncoding):
		return "The Transfer-Encoding header is not chunked, given once."
	case errors.Is(cause, listen.ErrChunkExtrasTooLarge):
		return "The extensions of the body's chunks and its trailers are larger than 16 KiB together."
	case isForbiddenTrailer(cause):
		return "The body has a trailer by a name that only the head may have, such as Content-Length."
	}
	return "The request body ended early, or a chunk or a trailer of it is malformed."
}

// isForbiddenTrailer reports whether fasthttp rejected a trailer because of its name (RFC 9110,
// 6.5.1).
func isForbiddenTrailer(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.HasPrefix(err.Error(), "forbidden trailer") {
			return true
		}
	}
	return false
}

// IsTimeout reports whether err is an expired deadline.
func IsTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
