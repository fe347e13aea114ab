package toolcall

import (
	"bytes"
	"hash/maphash"
	"strconv"

	"penstock/translate/jsonx"
)

// seed prevents engines from choosing names whose hashes collide.
var seed = maphash.MakeSeed()

// hashOf returns a hash of the string v. It returns 0 if v is empty or not a string.
func hashOf(v jsonx.Value) uint64 { return hash(textOf(v)) }

func hash(text []byte) uint64 {
	if len(text) == 0 {
		return 0
	}
	return max(maphash.Bytes(seed, text), 1)
}

// textOf returns the contents of v, or nil if v is not a string.
func textOf(v jsonx.Value) []byte {
	if !v.HasText() {
		return nil
	}
	return v.Inside()
}

// scanner scans arguments to find where an object starts and ends. It checks nothing else, because
// even in malformed arguments the brackets are the best indication.
type scanner struct {
	phase phase
	depth int32
	text  bool // within a string of the arguments
	slash bool // after a backslash in a string
}

// phase is the state that the arguments have reached.
type phase uint8

const (
	phaseNothing phase = iota // only space so far
	phaseOpen                 // an object has started
	phaseWhole                // the object has ended; only space since
	phaseOther                // not an object, or more than one
)

func (s *scanner) open() bool  { return s.phase == phaseOpen }
func (s *scanner) whole() bool { return s.phase == phaseWhole }

// begun reports whether an object has started.
func (s *scanner) begun() bool { return s.phase == phaseOpen || s.phase == phaseWhole }

// Blank reports whether arguments, or a piece of them, are only space. raw is the contents of a
// JSON string.
func Blank(raw []byte) bool {
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

// add scans a piece of the arguments: a string, or an object, as in Ollama's native API.
func (s *scanner) add(v jsonx.Value) {
	switch {
	case v.IsObject() && s.phase == phaseNothing:
		s.phase = phaseWhole
	case v.IsObject():
		s.phase = phaseOther
	case v.IsString():
		s.scan(v.Inside())
	}
}

// scan reads the contents of a JSON string, which are the arguments with another layer of escapes.
func (s *scanner) scan(raw []byte) {
	for i := 0; i < len(raw); {
		if s.phase == phaseOther {
			return
		}
		if s.text && !s.slash { // quotes and backslashes of the arguments have a backslash before them
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
		s.take(c)
	}
}

// take processes one character of the arguments. Any character without a meaning in JSON can stand
// for all such characters.
func (s *scanner) take(c byte) {
	switch {
	case s.slash:
		s.slash = false
	case s.text:
		s.text, s.slash = c != '"', c == '\\'
	case c == ' ', c == '\t', c == '\n', c == '\r':
	case s.phase == phaseNothing && c == '{':
		s.phase, s.depth = phaseOpen, 1
	case s.phase != phaseOpen:
		s.phase = phaseOther
	case c == '"':
		s.text = true
	case c == '{', c == '[':
		s.depth++
	case c == '}', c == ']':
		if s.depth--; s.depth == 0 {
			s.phase = phaseWhole
		}
	}
}

// unescape returns the character of the valid escape whose backslash precedes i, and the offset
// after the escape. A letter stands for any character outside ASCII.
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
