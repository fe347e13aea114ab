//go:build (amd64 || arm64) && (linux || darwin)

package jsonx

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"penstock/config/testkit/guardpage"
)

// TestWithoutVectors checks that GODEBUG disables the vector code. .ci/run and .ci/full rely on
// this. Without GODEBUG, arm64 must run the vector code.
func TestWithoutVectors(t *testing.T) {
	off := strings.Contains(os.Getenv("GODEBUG"), map[string]string{"amd64": "cpu.avx2=off", "arm64": "cpu.asimd=off"}[runtime.GOARCH])
	if off && hasVectorText {
		t.Error("the vector code runs all the same")
	} else if !off && !hasVectorText && runtime.GOARCH == "arm64" {
		t.Error("the vector code does not run")
	}
}

type vectorResult struct {
	block               int
	mask                uint64
	escapes, wide, open bool
}

func runVector(s []byte, blocks int) vectorResult {
	block, mask, escapes, wide, open := vectorText(&s[0], blocks)
	if open > 1 {
		panic(fmt.Sprint("open is ", open))
	}
	return vectorResult{block, mask, escapes != 0, wide != 0, open != 0}
}

// textState is the state of a scanner within an escape or a character.
type textState struct {
	open      bool // after the backslash of an escape
	due       int  // number of remaining bytes of the character
	low, high byte // allowed range of the next byte of the character
}

// next advances by one byte, and reports whether the byte is valid. It accepts a byte that cannot
// start a character, but rejects the byte after it, which may be in the next block.
func (s *textState) next(c byte) bool {
	escaped := s.open
	s.open = c == '\\' && !escaped
	switch {
	case s.due > 0:
		ok := c >= s.low && c <= s.high
		s.due, s.low, s.high = s.due-1, 0x80, 0xbf
		return ok
	case escaped:
		return simpleEscapes[c]
	case c < 0x80:
		return c >= ' ' && c != '"'
	case c < 0xc0:
		return false
	}
	size, low, high := UTF8SequenceInfo(c)
	if size == 0 {
		size, low, high = 2, 0xff, 0
	}
	s.due, s.low, s.high = size-1, low, high
	return true
}

// runBytewise does the same as runVector, byte by byte.
func runBytewise(s []byte, blocks int) (p vectorResult) {
	var state textState
	for ; p.block < blocks; p.block++ {
		p.open = state.open
		ok, escapes, wide := true, false, false
		for i, c := range s[64*p.block : 64*p.block+64] {
			escapes = escapes || c == '\\'
			wide = wide || c >= 0x80
			if c < ' ' || c == '"' || c == '\\' || c >= 0x80 {
				p.mask |= 1 << i
			}
			ok = ok && state.next(c)
		}
		if !ok {
			return p
		}
		p.mask, p.escapes, p.wide = 0, p.escapes || escapes, p.wide || wide
	}
	p.open = state.open
	return p
}

// pieces lists the pieces that fill uses. The first validPieces pieces are valid within a string.
var pieces = []string{
	"a", "abcdefghijklmnopqrstuvwxyz ", "ä", "Ж", "\u0080", "\u07ff", "水", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U0001f600", "\U00010000",
	"\U0010ffff", `\n`, `\"`, `\\`, `\/`, "\x7f", " ", "!", "#", "[", "]", "~~~~~~~~~~~~~~~~",
	`"`, `\`, `\u00e4`, `\x`, "\\\x00", `\ä`, "\x00", "\x1f", "\x80", "\xbf", "\xc0", "\xc1\x80", "\xc3", "\xc3\xa4\xa4", "\xe0", "\xe0\x9f\x80", "\xe6\xb0",
	"\xed\xa0\x80", "\xf0\x8f\x80\x80", "\xf0\x9f\x98", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf8\x88\x80\x80\x80", "\xff",
}

const validPieces = 25

// fill fills s with pieces. One in oneIn pieces is invalid.
func fill(s []byte, random *rand.Rand, oneIn int) {
	// A text has only a few kinds of pieces, so that some blocks contain a single kind.
	few := pieces[:1+random.IntN(validPieces)]
	few = few[random.IntN(len(few)):]
	for len(s) > 0 {
		piece := few[random.IntN(len(few))]
		if random.IntN(oneIn) == 0 {
			piece = pieces[random.IntN(len(pieces))]
		}
		s = s[copy(s, piece):]
	}
}

// compareVector compares vectorText with runBytewise on the blocks of s that start at i.
func compareVector(t *testing.T, s []byte, i, blocks int) {
	t.Helper()
	if got, want := runVector(s[i:], blocks), runBytewise(s[i:], blocks); got != want {
		t.Fatalf("%q behind %q: got %+v, want %+v", s[i:i+64*blocks], s[i-3:i], got, want)
	}
}

// TestVectorText checks vectorText at every offset in a cache line, and at both ends of readable
// memory. vectorText may read three bytes before a text, but none after it.
func TestVectorText(t *testing.T) {
	if !hasVectorText {
		t.Skip("no vectors here")
	}
	memory := guardpage.GuardedMemory(t, 1)
	random := rand.New(rand.NewPCG(1, 2))
	texts := 20_000
	if testing.Short() {
		texts = 5_000
	}
	for n := range texts {
		blocks := 1 + random.IntN(5)
		size := 64 * blocks
		for _, i := range []int{3, len(memory) - size, 64 + n%64} {
			copy(memory[i-3:], []string{"abc", "水", "ü.", `\\"`, "\xa4\xc3\xa4", "\xbf\xbf\xbf", `"\\`}[n%7])
			fill(memory[i:i+size], random, []int{1, 4, 30, 1000}[n%4])
			compareVector(t, memory, i, blocks)
		}
	}
}

// TestVectorTextPairs checks all pairs of bytes in each kind of text, within a vector and across
// the border between two vectors or blocks.
func TestVectorTextPairs(t *testing.T) {
	if !hasVectorText {
		t.Skip("no vectors here")
	}
	memory := guardpage.GuardedMemory(t, 1)
	for _, kind := range []string{"a", "ä", "水", "\U0001f600", `\n`, `\\`} {
		text := []byte("abc" + strings.Repeat(kind, 192/len(kind)))
		s := memory[len(memory)-len(text):]
		places := []int{0, 9, 15, 31, 47, 61, 62, 63, 64, 66, 79, 127, 190}
		for first, at := range places {
			copy(s, text)
			at += 3
			for c := first; c < 1<<16; c += len(places) {
				s[at], s[at+1] = byte(c>>8), byte(c)
				compareVector(t, s, 3, 3)
			}
		}
	}
}

func FuzzVectorText(f *testing.F) {
	if !hasVectorText {
		f.Skip("no vectors here")
	}
	for _, body := range bodies {
		f.Add(body.src[:min(len(body.src), 1000)])
	}
	for _, piece := range pieces {
		f.Add([]byte(strings.Repeat("b", 62) + piece))
	}
	memory := guardpage.GuardedMemory(f, 1<<16)
	f.Fuzz(func(t *testing.T, text []byte) {
		text = text[:min(len(text), len(memory)-67)]
		blocks := (len(text) + 63) / 64
		if blocks == 0 {
			return
		}
		s := memory[len(memory)-64*blocks-3:]
		for _, before := range []string{"abc", `"\\`} {
			copy(s[copy(s, before+string(text)):], strings.Repeat("a", 63))
			compareVector(t, s, 3, blocks)
		}
	})
}
