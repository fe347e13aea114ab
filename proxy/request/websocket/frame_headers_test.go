package websocket

import (
	"encoding/binary"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestFrameHeads checks that a message is rejected exactly at the frame header that makes the
// message too large. The result must not depend on how the bytes are split across reads.
func TestFrameHeads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 300
		f := frameHeaderScanner{maxMessage: func() int64 { return most }}
		var wire []byte
		// at is the offset in wire of the end of the frame header that makes the message too large.
		message, at := uint64(0), -1
		for range rapid.IntRange(1, 8).Draw(t, "frames") {
			op := rapid.SampledFrom([]byte{0, 1, 2, 8, 9, 10}).Draw(t, "op")
			n := rapid.SampledFrom([]uint64{0, 1, 100, 125, 126, 200, 300, 301, 65535, 65536, 1 << 40, 1<<64 - 1}).Draw(t, "length")
			masked := rapid.Bool().Draw(t, "masked")
			bit := byte(0)
			if masked {
				bit = 0x80
			}
			wire = append(wire, op)
			switch wide := rapid.Bool().Draw(t, "wider than it need be"); {
			case n < 126 && !wide:
				wire = append(wire, bit|byte(n))
			case n < 1<<16:
				wire = binary.BigEndian.AppendUint16(append(wire, bit|126), uint16(n))
			default:
				wire = binary.BigEndian.AppendUint64(append(wire, bit|127), n)
			}
			if masked {
				wire = append(wire, 1, 2, 3, 4)
			}
			if op == 1 || op == 2 {
				message = 0
			}
			if op < 8 && n > most-min(message, most) && at < 0 {
				at = len(wire)
			}
			if op < 8 {
				message += n
			}
			// The library would reject a control frame of this length.
			if at >= 0 || n > 1<<16 {
				break
			}
			wire = append(wire, make([]byte, n)...)
		}
		for done := 0; done < len(wire); {
			n := rapid.IntRange(1, len(wire)-done).Draw(t, "read")
			f.scan(wire[done : done+n])
			if done += n; (f.violation == errAnnouncedTooLarge) != (at >= 0 && done >= at) {
				t.Fatalf("%v behind %d of %d bytes, want it too long at %d", f.violation, done, len(wire), at)
			}
		}
	})
}

// TestEmptyFrames checks the maximum number of empty frames in a message. Pings do not count.
func TestEmptyFrames(t *testing.T) {
	f := frameHeaderScanner{maxMessage: func() int64 { return 300 }}
	empty, piece, ping := []byte{0, 0x80, 1, 2, 3, 4}, []byte{0, 1, 'x'}, []byte{0x89, 0}
	for range 3 {
		f.scan([]byte{1, 0})
		for range maxEmptyFrames - 1 {
			f.scan(ping)
			f.scan(empty)
		}
		f.scan(piece)
		if f.violation != nil {
			t.Fatal(f.violation)
		}
	}
	if f.scan(empty); f.violation != errEmptyFrames {
		t.Errorf("%v behind one frame more", f.violation)
	}
}

// TestCloseReason checks that the library never gets the last byte of a close frame whose reason is
// not valid UTF-8. The result must not depend on how the bytes are split across reads.
func TestCloseReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := frameHeaderScanner{maxMessage: func() int64 { return 300 }}
		reason := rapid.SampledFrom([]string{"", "bye", "再见", "\xff", "bye\xf0\x9f\x98", "\xed\xa0\x80"}).Draw(t, "reason")
		mask := [4]byte{7, 0, 0xff, 0x5a}
		wire := append([]byte{1, 0x80 | 3, 0, 0, 0, 0, 'a', 0xff, 'c', 0x88, 0x80 | byte(2+len(reason))}, mask[:]...)
		for i, b := range []byte("\x03\xe8" + reason) {
			wire = append(wire, b^mask[i&3])
		}
		end := len(wire)
		wire = append(wire, "what follows"...)
		bad, seen := !utf8.ValidString(reason), 0
		for done := 0; done < len(wire) && f.violation == nil; {
			n := rapid.IntRange(1, len(wire)-done).Draw(t, "read")
			seen += f.scan(wire[done : done+n])
			done += n
		}
		if want := end - 1; bad && (f.violation != errCloseReason || seen != want) {
			t.Fatalf("%v: %d bytes were seen, want %d", f.violation, seen, want)
		}
		if !bad && f.violation != nil {
			t.Fatal(f.violation)
		}
	})
}
