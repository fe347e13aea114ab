package listen

import (
	"errors"
	"io"
)

type unreadBytes struct {
	bytes      []byte
	collecting bool // whether reads return errNothingBuffered instead of blocking
}

var errNothingBuffered = errors.New("nothing is buffered")

// collect drains the connection's buffered reader. While it runs, read serves the reads of that
// reader.
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

func (u *unreadBytes) any() bool { return u.collecting || len(u.bytes) > 0 }

// read returns the bytes that were put back. Their framing has already been checked.
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
