package listen

import (
	"errors"
	"io"
)

// unreadBytes holds bytes that were put back for the connection's next reads.
type unreadBytes struct {
	bytes      []byte
	collecting bool // the connection returns errNothingBuffered instead of blocking
}

// errNothingBuffered ends a read from an empty buffer.
var errNothingBuffered = errors.New("nothing is buffered")

// collect drains the connection's buffered reader. While it runs, read serves the reader's own
// reads from the connection.
func (u *unreadBytes) collect(from io.Reader) {
	u.collecting = true
	var piece [512]byte
	for {
		n, err := from.Read(piece[:])
		u.bytes = append(u.bytes, piece[:n]...)
		if n == 0 || err != nil {
			break
		}
	}
	u.collecting = false
}

// any reports whether read must serve the connection's next read.
func (u *unreadBytes) any() bool { return u.collecting || len(u.bytes) > 0 }

// read reads bytes that were put back. Their framing has already been checked.
func (u *unreadBytes) read(p []byte) (int, error) {
	if u.collecting {
		return 0, errNothingBuffered
	}
	n := copy(p, u.bytes)
	if u.bytes = u.bytes[n:]; len(u.bytes) == 0 {
		u.bytes = nil
	}
	return n, nil
}
