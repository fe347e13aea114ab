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
	src       io.Reader
	conn      net.Conn
	announced int64 // announced length of the body; -1 if unknown
	limit     int64
	total     int64
	silence   time.Duration
	rate      int64 // in bytes per second; 0 means no minimum

	armed time.Time
	// Whether the deadline is the end of the rate window rather than the end of the permitted
	// silence.
	tight  bool
	waited time.Duration
	read   int64
}

// rateWindow is how long a client may send more slowly than limits.upload_rate.
const rateWindow = 10 * time.Second

func newPacedReader(from *Source) *pacedReader {
	return &pacedReader{
		src: from.Ctx.RequestBodyStream(), conn: from.Ctx.Conn(), announced: Announced(&from.Ctx.Request.Header),
		limit: from.Limit, silence: from.Silence, rate: from.Rate,
	}
}

// Read implements io.Reader. Its errors are io.EOF at the end of the body, and *apierr.Error.
func (s *pacedReader) Read(p []byte) (int, error) {
	if s.src == nil || s.announced == 0 {
		return 0, io.EOF
	}
	begun := time.Now()
	s.arm(begun)
	n, err := s.src.Read(p)
	s.total += int64(n)
	s.read += int64(n)
	if s.total > s.limit {
		return 0, apierr.TooLarge(s.limit)
	}
	if s.waited += time.Since(begun); s.waited >= rateWindow {
		if s.read < s.quota() {
			return 0, slowClient(nil)
		}
		s.waited, s.read = 0, 0
	}
	switch {
	case err == nil:
		return n, nil
	case !errors.Is(err, io.EOF):
		return n, Broken(s.conn, err)
	case s.announced >= 0 && s.total < s.announced:
		return n, Broken(s.conn, io.ErrUnexpectedEOF)
	}
	if wrong := listen.BodyFramingError(s.conn); wrong != nil {
		return n, Broken(s.conn, wrong)
	}
	return n, io.EOF
}

func (s *pacedReader) quota() int64 { return s.rate * int64(rateWindow/time.Second) }

// arm sets the read deadline to the end of the permitted silence. If too few bytes have arrived in
// the rate window and the window ends earlier, the deadline is the end of the window. The deadline
// is rarely moved, because setting it costs more than a read.
func (s *pacedReader) arm(now time.Time) {
	tight := s.read < s.quota() && rateWindow-s.waited < s.silence
	if tight == s.tight && now.Sub(s.armed) < min(time.Second, s.silence/8) {
		return
	}
	left := s.silence
	if tight {
		left = rateWindow - s.waited
	}
	s.armed, s.tight = now, tight
	// This fails only if the connection is closed, and then the read fails too.
	_ = s.conn.SetReadDeadline(now.Add(left))
}
