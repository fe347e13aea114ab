package http1

import (
	"errors"
	"strings"
)

// FailureKind is the kind of a Failure. The set of kinds is closed, because package failure maps every
// kind to a status.
type FailureKind uint8

const (
	// KindUnreachable means that no connection could be made, or that the connection ended before
	// the first byte of a response.
	KindUnreachable FailureKind = iota + 1
	// KindTimeout means that the timeout named by Failure.Clock expired.
	KindTimeout
	// KindBadResponse means that the response is malformed, truncated, too large, or unsafely
	// framed.
	KindBadResponse
	// KindAborted means that the edge aborted the exchange. Failure.Err is the cause passed to
	// Abort, or the error of the request's BodyReader. An aborted exchange is no evidence about the
	// upstream's health.
	KindAborted
)

// String returns the kind's label in metrics.
func (k FailureKind) String() string {
	return [...]string{"unknown", "unreachable", "timeout", "bad_response", "aborted"}[k]
}

// Clocks of a Failure of kind KindTimeout. The transport uses TimeoutConnect and TimeoutWrite, and
// probes use TimeoutAnswer. The owner of a call enforces all other timeouts by deciding how long to
// accept ErrNoBytesYet.
const (
	TimeoutConnect = "connect"
	TimeoutAnswer  = "answer"
	TimeoutWrite   = "write"
)

// Reasons for a Failure. The set of reasons is closed, so a reason can be a metric label.
const (
	ReasonConnect = "connect" // the connection was refused or failed
	ReasonDNS     = "dns"     // the upstream's name did not resolve in time
	ReasonTLS     = "tls"     // the TLS handshake failed
	ReasonReset   = "reset"   // the connection was reset
	// The engine closed the connection before the first byte of a response.
	ReasonEOF = "closed_before_answer"
	// ReasonSilent: the engine's host stopped acknowledging or became unreachable.
	ReasonSilent = "silent"
	// ReasonInvalid: the response is malformed, or its framing is contradictory.
	ReasonInvalid   = "invalid"
	ReasonTruncated = "truncated" // the response ended before the end of its framing
	ReasonTooLarge  = "too_large" // the response's head or framing exceeds its limit
	ReasonEncoding  = "encoding"  // the response has a content encoding that was not requested
	ReasonTimeout   = "timeout"   // a timeout expired
	ReasonAborted   = "aborted"   // the edge aborted the exchange
	ReasonBody      = "body"      // the request's BodyReader failed
	ReasonRequest   = "request"   // the request is invalid
	ReasonClosed    = "closed"    // the transport was closed
)

// Failure is the error of a failed exchange. Other packages decide which status a client gets and
// whether to retry on another upstream.
//
// A Failure contains no bytes from a client or an engine. Err may contain network addresses. Its
// text may appear in the operator's log, but must not appear in a response.
type Failure struct {
	Kind     FailureKind
	Upstream string // TransportOptions.Upstream
	Clock    string // if Kind is KindTimeout, the expired clock, such as TimeoutConnect
	Reason   string // such as ReasonConnect
	Sent     bool   // the engine may have received part of the request
	Err      error  // the cause, or nil
}

// Error returns "upstream ID: kind (reason, clock): cause".
func (f *Failure) Error() string {
	s := "upstream " + f.Upstream + ": " + f.Kind.String()
	switch {
	case f.Reason != "" && f.Clock != "":
		s += " (" + f.Reason + ", " + f.Clock + ")"
	case f.Reason != "":
		s += " (" + f.Reason + ")"
	}
	if f.Err != nil {
		s += ": " + f.Err.Error()
	}
	return s
}

// Detail explains to the operator why a connection failed, for example "tls: failed to verify
// certificate: x509: …". If the connection was established, Detail returns "", because Reason is
// enough.
func (f *Failure) Detail() string {
	switch {
	case f.Err == nil:
		return ""
	case f.Reason == ReasonConnect, f.Reason == ReasonDNS, f.Reason == ReasonTLS, f.Clock == TimeoutConnect:
		text := f.Err.Error()
		return strings.ToValidUTF8(text[:min(len(text), maxDetailLen)], "")
	}
	return ""
}

// maxDetailLen is the maximum length of Detail in bytes. A certificate error lists all names in the
// certificate, and there may be a hundred.
const maxDetailLen = 300

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// ErrNoBytesYet is returned by Exchange.Await and Exchange.Read when the given time has passed. The
// exchange has not failed, and the call may be repeated.
var ErrNoBytesYet = errors.New("no byte from the upstream yet")
