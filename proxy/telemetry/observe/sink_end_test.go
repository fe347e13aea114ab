package observe

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// limitedWriter accepts the first takes bytes of every write and rejects the remaining bytes.
type limitedWriter struct {
	takes int
	got   bytes.Buffer
}

func (s *limitedWriter) Write(p []byte) (int, error) {
	n := min(s.takes, len(p))
	s.got.Write(p[:n])
	if n < len(p) {
		return n, errors.New("no space left")
	}
	return n, nil
}

// TestSinkCountsWhatIsRefused checks that lines rejected by a full disk or a closed pipe are
// counted, including partly written lines.
func TestSinkCountsWhatIsRefused(t *testing.T) {
	t.Parallel()
	for takes, want := range map[int]uint64{0: 3, 5: 2, 7: 2, 100: 0} {
		dst := &limitedWriter{takes: takes}
		s := NewLogSink(dst, nil)
		_, _ = s.Write([]byte("one.\ntwo.\nthree\n"))
		_ = s.Close()
		if n := s.Dropped(); n != want {
			t.Errorf("of %d bytes taken: %d lines lost, want %d", takes, n, want)
		}
	}
}

// TestSinkNeverBlocks uses a destination that accepts no bytes. Lines that do not fit into the
// buffer are lost, but writers and the exit of the process must not be delayed.
func TestSinkNeverBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		s := NewLogSink(w, nil)
		line := []byte(strings.Repeat("x", 1023) + "\n")
		begun := time.Now()
		for range 3 * maxPendingBytes / len(line) {
			_, _ = s.Write(line)
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("writing took %v", took)
		}
		if n := s.Dropped(); n < uint64(maxPendingBytes/len(line)) {
			t.Errorf("%d lines lost", n)
		}
		_ = s.Close()
		if took := time.Since(begun); took != closeTimeout {
			t.Errorf("closing took %v", took)
		}
		_ = r.Close()
	})
}
