package body

import (
	"errors"
	"io"
	"net"
	"time"

	"penstock/proxy/front/listen"
	"penstock/translate/apierr"
)

// pacedReader reads a client's body piece by piece. It enforces the size limit and a minimum rate.
// Only time spent waiting for the client counts: while an engine is slow to read, the client cannot
// send.
type pacedReader struct {
	src       io.Reader
	conn      net.Conn
	announced int64 // -1: unknown
	limit     int64
	total     int64
	silence   time.Duration
	rate      int64 // bytes per second; 0: any rate

	armed  time.Time     // when the deadline was set
	tight  bool          // the deadline is the end of the window, not of the permitted silence
	waited time.Duration // in this window
	came   int64         // in this window
}

// rateWindow is the maximum time for which a client may be slower than limits.upload_rate.
const rateWindow = 10 * time.Second

func newPacedReader(from *Source) *pacedReader {
	return &pacedReader{
		src: from.Ctx.RequestBodyStream(), conn: from.Ctx.Conn(), announced: Announced(&from.Ctx.Request.Header),
		limit: from.Limit, silence: from.Silence, rate: from.Rate,
	}
}

// Read implements io.Reader. Its errors are io.EOF at the body's end, and *apierr.Error.
func (s *pacedReader) Read(p []byte) (int, error) {
	if s.src == nil || s.announced == 0 {
		return 0, io.EOF
	}
	begun := time.Now()
	s.arm(begun)
	n, err := s.src.Read(p)
	s.total += int64(n)
	s.came += int64(n)
	if s.total > s.limit {
		return 0, apierr.TooLarge(s.limit)
	}
	if s.waited += time.Since(begun); s.waited >= rateWindow {
		if s.came < s.quota() {
			return 0, slowClient(nil)
		}
		s.waited, s.came = 0, 0
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

// quota returns how many bytes must arrive in a window.
func (s *pacedReader) quota() int64 { return s.rate * int64(rateWindow/time.Second) }

// arm sets the connection's deadline to the end of the permitted silence. While too few bytes have
// arrived in the window, it uses the end of the window if that is earlier. It moves the deadline
// only occasionally, because setting one costs more than a read.
func (s *pacedReader) arm(now time.Time) {
	tight := s.came < s.quota() && rateWindow-s.waited < s.silence
	if tight == s.tight && now.Sub(s.armed) < min(time.Second, s.silence/8) {
		return
	}
	left := s.silence
	if tight {
		left = rateWindow - s.waited
	}
	s.armed, s.tight = now, tight
	_ = s.conn.SetReadDeadline(now.Add(left)) // on a closed connection the read fails anyway
}
