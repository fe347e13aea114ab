package proxy

import (
	"errors"
	"io"
)

// pieces is the body of a large whole answer. It is written piece by piece, and the connection gives each write its own time:
// a client that reads slowly but steadily is served to the end and one that stops reading is let go.
type pieces struct{ rest []byte }

const pieceSize = 64 << 10

var errPush = errors.New("pieces are pushed, not read")

// Read is there for the type only: fasthttp uses WriteTo.
func (p *pieces) Read([]byte) (int, error) { return 0, errPush }

// SupportsBodyWriteTo implements fasthttp.BodyWriterTo.
func (p *pieces) SupportsBodyWriteTo() bool { return true }

// WriteTo writes what is left.
func (p *pieces) WriteTo(w io.Writer) (n int64, err error) {
	for len(p.rest) > 0 {
		piece := p.rest[:min(len(p.rest), pieceSize)]
		m, err := w.Write(piece)
		n += int64(m)
		if err != nil {
			return n, err
		}
		p.rest = p.rest[m:]
	}
	return n, nil
}
