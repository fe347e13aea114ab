package body

import (
	"errors"
	"io"
	"net"
	"time"

	"penstock/proxy/front/listen"
	"penstock/translate/apierr"
)

// pacedReader reads a client's body and enforces the size limit and a minimum rate. Only the time
// spent waiting for the client counts, because a client cannot send while the engine is slow to
// read.
type pacedReader struct {
	src        io.Reader
	conn       net.Conn
	announced  int64 // announced length of the body; -1 if unknown
	maxBytes   int64
	total      int64
	maxSilence time.Duration
	minRate    int64 // in bytes per second; 0 means no minimum

	deadlineSetAt time.Time
	// Whether the deadline is the end of the rate window. Otherwise, it is the end of the permitted
	// silence.
	deadlineIsRate bool
	windowWait     time.Duration
	windowBytes    int64
}

// rateWindow is how long a client may send more slowly than limits.upload_rate.
const rateWindow = 10 * time.Second

func newPacedReader(from *RequestSource) *pacedReader {
	return &pacedReader{
		src: from.Ctx.RequestBodyStream(), conn: from.Ctx.Conn(), announced: AnnouncedLength(&from.Ctx.Request.Header),
		maxBytes: from.Limit, maxSilence: from.Silence, minRate: from.Rate,
	}
}

// Read implements io.Reader. Its errors are io.EOF at the end of the body, and *apierr.Error.
func (s *pacedReader) Read(p []byte) (int, error) {
	if s.src == nil || s.announced == 0 {
		return 0, io.EOF
	}
	begun := time.Now()
	s.setDeadline(begun)
	n, err := s.src.Read(p)
	s.total += int64(n)
	s.windowBytes += int64(n)
	if s.total > s.maxBytes {
		return 0, apierr.TooLarge(s.maxBytes)
	}
	if s.windowWait += time.Since(begun); s.windowWait >= rateWindow {
		if s.windowBytes < s.windowQuota() {
			return 0, slowClientError(nil)
		}
		s.windowWait, s.windowBytes = 0, 0
	}
	switch {
	case err == nil:
		return n, nil
	case !errors.Is(err, io.EOF):
		return n, IncompleteError(s.conn, err)
	case s.announced >= 0 && s.total < s.announced:
		return n, IncompleteError(s.conn, io.ErrUnexpectedEOF)
	}
	if wrong := listen.BodyFramingError(s.conn); wrong != nil {
		return n, IncompleteError(s.conn, wrong)
	}
	return n, io.EOF
}

func (s *pacedReader) windowQuota() int64 { return s.minRate * int64(rateWindow/time.Second) }

// setDeadline sets the read deadline to the end of the permitted silence. If too few bytes have
// arrived in the rate window and the window ends earlier, the deadline is the end of the window.
// The deadline is rarely changed, because setting it costs more than a read.
func (s *pacedReader) setDeadline(now time.Time) {
	tight := s.windowBytes < s.windowQuota() && rateWindow-s.windowWait < s.maxSilence
	if tight == s.deadlineIsRate && now.Sub(s.deadlineSetAt) < min(time.Second, s.maxSilence/8) {
		return
	}
	left := s.maxSilence
	if tight {
		left = rateWindow - s.windowWait
	}
	s.deadlineSetAt, s.deadlineIsRate = now, tight
	// This fails only if the connection is closed, and then the read fails too.
	_ = s.conn.SetReadDeadline(now.Add(left))
}
