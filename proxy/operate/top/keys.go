package top

import (
	"bytes"
	"unicode/utf8"
)

// key is a key that was pressed: its character, or one of those below.
type key rune

const (
	keyEscape key = 27
	keyEnter  key = 13
	keyErase  key = 127
	keyCtrlC  key = 3

	keyUnknown key = -iota
	keyUp
	keyDown
	keyLeft
	keyRight
	keyPageUp
	keyPageDown
	keyHome
	keyEnd
)

// sequences are what terminals send for the keys that have no character.
var sequences = map[string]key{
	"[A": keyUp, "[B": keyDown, "[C": keyRight, "[D": keyLeft, "OA": keyUp, "OB": keyDown, "OC": keyRight, "OD": keyLeft,
	"[5~": keyPageUp, "[6~": keyPageDown, "[H": keyHome, "[F": keyEnd, "OH": keyHome, "OF": keyEnd,
	"[1~": keyHome, "[4~": keyEnd, "[7~": keyHome, "[8~": keyEnd,
}

// parse reads keys, and leaves the beginning of one whose rest has not come.
func parse(b []byte) (keys []key, rest []byte) {
	for len(b) > 0 {
		if b[0] == byte(keyEscape) {
			n, k := sequence(b)
			if n == 0 {
				return keys, b
			}
			keys, b = append(keys, k), b[n:]
			continue
		}
		if !utf8.FullRune(b) {
			return keys, b
		}
		r, n := utf8.DecodeRune(b)
		switch r {
		case '\n':
			r = rune(keyEnter)
		case '\b':
			r = rune(keyErase)
		}
		keys, b = append(keys, key(r)), b[n:]
	}
	return keys, nil
}

// sequence reads an escape sequence: ESC, "[" or "O", parameters and a final byte. It returns 0 if
// the end is missing.
func sequence(b []byte) (n int, k key) {
	if len(b) == 1 {
		return 0, keyUnknown
	}
	if b[1] != '[' && b[1] != 'O' {
		return 1, keyEscape // something else was typed behind the key
	}
	end := bytes.IndexFunc(b[2:], func(r rune) bool { return r >= 0x40 && r <= 0x7e })
	if end < 0 {
		return 0, keyUnknown
	}
	n = end + 3
	if k, ok := sequences[string(b[1:n])]; ok {
		return n, k
	}
	return n, keyUnknown
}
