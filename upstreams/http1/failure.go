package http1

import (
	"errors"
	"strings"
)

// Kind says what went wrong with an exchange. The set is closed: package failure maps every kind
// to a status.
type Kind uint8

const (
	// Unreachable means that no connection could be made, or that the connection was reset or
	// closed before the first byte of a reply.
	Unreachable Kind = iota + 1
	// Timeout means that a timeout has expired; Failure.Clock names it.
	Timeout
	// BadResponse means that the reply does not parse, ends early, is too large, or has unsafe
	// framing.
	BadResponse
	// Aborted means that this side ended the exchange. Failure.Err is the cause passed to Abort, or
	// the error of the request's own body reader. An Aborted exchange says nothing about the upstream.
	Aborted
)

// String returns the kind as it appears in metrics.
func (k Kind) String() string {
	return [...]string{"unknown", "unreachable", "timeout", "bad_response", "aborted"}[k]
}

// Names of the clocks in a Failure of kind Timeout. ClockConnect and ClockWrite belong to the
// transport, ClockAnswer to a probe. A call's own clocks belong to its owner, which decides how
// long to accept ErrNotYet.
const (
	ClockConnect = "connect"
	ClockAnswer  = "answer"
	ClockWrite   = "write"
)

// Reasons of a Failure: a closed set of low cardinality, suitable as a metric label.
const (
	ReasonConnect = "connect"              // the connection was refused or could not be made
	ReasonDNS     = "dns"                  // the upstream's name did not resolve, or not in time
	ReasonTLS     = "tls"                  // the TLS handshake failed
	ReasonReset   = "reset"                // the connection was reset
	ReasonEOF     = "closed_before_answer" // the engine closed the connection before the first byte of a reply
	// the engine's host stopped acknowledging or became unreachable
	ReasonSilent = "silent"
	// the reply does not parse, or its framing is contradictory
	ReasonInvalid   = "invalid"
	ReasonTruncated = "truncated" // the reply ended before the end of its framing
	ReasonTooLarge  = "too_large" // the reply's head or framing exceeds its limit
	ReasonEncoding  = "encoding"  // the reply has a content encoding that was not requested
	ReasonTimeout   = "timeout"   // a timeout expired
	ReasonAborted   = "aborted"   // this side ended the exchange
	ReasonBody      = "body"      // the request's own body reader failed
	ReasonRequest   = "request"   // the request could not be written
	ReasonClosed    = "closed"    // the transport was closed
)

// Failure is the error of every failed exchange. It states only facts; other packages decide which
// status a client sees and whether another upstream is tried.
//
// A Failure never contains a byte from a client or an engine. Err can contain network addresses, so
// its text may go only into the operator's log, never into a reply.
type Failure struct {
	Kind     Kind
	Upstream string // see TransportOptions
	Clock    string // for Timeout, the expired clock: ClockConnect and the like
	Reason   string // ReasonConnect and the like
	Sent     bool   // the engine may have received part of the request and may be working on it
	Err      error  // the cause; may be nil
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

// Detail explains to the operator why no connection was made: "tls: failed to verify certificate:
// x509: …". It is empty for later failures, for which the reason is enough.
func (f *Failure) Detail() string {
	switch {
	case f.Err == nil:
		return ""
	case f.Reason == ReasonConnect, f.Reason == ReasonDNS, f.Reason == ReasonTLS, f.Clock == ClockConnect:
		text := f.Err.Error()
		return strings.ToValidUTF8(text[:min(len(text), longestDetail)], "")
	}
	return ""
}

// longestDetail is the maximum length of Detail. An error about a certificate lists all of the
// certificate's names, and these may be a hundred.
const longestDetail = 300

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// ErrNotYet is returned by Exchange.Await and Exchange.Read once the given time has passed. It is
// not a failure: the same call may be repeated.
var ErrNotYet = errors.New("no byte from the upstream yet")
