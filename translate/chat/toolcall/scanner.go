package toolcall

import (
	"bytes"
	"hash/maphash"
	"strconv"

	"penstock/translate/jsonx"
)

// hashSeed is random, so that an engine cannot choose names with colliding hashes.
var hashSeed = maphash.MakeSeed()

// hashStringValue returns a hash of the string v. It returns 0 if v is empty or not a string.
func hashStringValue(v jsonx.Value) uint64 { return hashText(rawString(v)) }

func hashText(text []byte) uint64 {
	if len(text) == 0 {
		return 0
	}
	return max(maphash.Bytes(hashSeed, text), 1)
}

func rawString(v jsonx.Value) []byte {
	if !v.HasText() {
		return nil
	}
	return v.RawContents()
}

// objectScanner finds the start and the end of an object. It checks only strings and brackets,
// which are the best indication even if the arguments are malformed.
type objectScanner struct {
	phase          scanPhase
	depth          int32
	text           bool // within a string in the arguments
	afterBackslash bool // after a backslash in such a string
}

type scanPhase uint8

const (
	scanPhaseBlank scanPhase = iota // only whitespace so far
	scanPhaseOpen
	scanPhaseEnded // the object has ended; only whitespace follows
	scanPhaseOther // not an object, or more than one object
)

func (s *objectScanner) isOpen() bool  { return s.phase == scanPhaseOpen }
func (s *objectScanner) isEnded() bool { return s.phase == scanPhaseEnded }

func (s *objectScanner) isBegun() bool { return s.phase == scanPhaseOpen || s.phase == scanPhaseEnded }

// IsBlank reports whether raw, the contents of a JSON string, contains only whitespace.
func IsBlank(raw []byte) bool {
	for i := 0; i < len(raw); {
		c := raw[i]
		i++
		if c == '\\' {
			c, i = unescape(raw, i)
		}
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return false
		}
	}
	return true
}

// addValue scans a piece of the arguments: a string or, as in Ollama's native API, an object.
func (s *objectScanner) addValue(v jsonx.Value) {
	switch {
	case v.IsObject() && s.phase == scanPhaseBlank:
		s.phase = scanPhaseEnded
	case v.IsObject():
		s.phase = scanPhaseOther
	case v.IsString():
		s.scan(v.RawContents())
	}
}

func (s *objectScanner) scan(raw []byte) {
	for i := 0; i < len(raw); {
		if s.phase == scanPhaseOther {
			return
		}
		if s.text && !s.afterBackslash { // a backslash precedes quotes and backslashes of the arguments
			n := bytes.IndexByte(raw[i:], '\\')
			if n < 0 {
				return
			}
			i += n
		}
		c := raw[i]
		i++
		if c == '\\' {
			c, i = unescape(raw, i)
		}
		s.scanByte(c)
	}
}

// scanByte processes one character of the arguments. Only quotes, backslashes, brackets and
// whitespace matter.
func (s *objectScanner) scanByte(c byte) {
	switch {
	case s.afterBackslash:
		s.afterBackslash = false
	case s.text:
		s.text, s.afterBackslash = c != '"', c == '\\'
	case c == ' ', c == '\t', c == '\n', c == '\r':
	case s.phase == scanPhaseBlank && c == '{':
		s.phase, s.depth = scanPhaseOpen, 1
	case s.phase != scanPhaseOpen:
		s.phase = scanPhaseOther
	case c == '"':
		s.text = true
	case c == '{', c == '[':
		s.depth++
	case c == '}', c == ']':
		if s.depth--; s.depth == 0 {
			s.phase = scanPhaseEnded
		}
	}
}

// unescape decodes the character or escape at i. It returns a letter for every non-ASCII character.
func unescape(raw []byte, i int) (c byte, next int) {
	switch c = raw[i]; c {
	case 'n', 'r', 't':
		return ' ', i + 1
	case 'u':
		if n, err := strconv.ParseUint(string(raw[i+1:i+5]), 16, 8); err == nil && n < 0x80 {
			return byte(n), i + 5
		}
		return 'u', i + 5
	}
	return c, i + 1
}
