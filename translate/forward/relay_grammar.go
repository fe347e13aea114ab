package forward

import (
	"strings"

	"penstock/translate/jsonx"
)

// jsonGrammar tracks the position in a JSON text that arrives in pieces. It follows the same rules as
// jsonx.
type jsonGrammar struct {
	state         grammarState
	depth         int
	objects       uint64 // one bit for each open container, the innermost lowest; 1 for an object
	literalLeft   string
	hexDigitsLeft int  // remaining digits of an escape
	runeBytesLeft int  // remaining bytes of a UTF-8 character
	low, up       byte // allowed range of the next byte of the character
}

type grammarState uint8

const (
	grammarWantRoot      grammarState = iota
	grammarWantFirstName              // or the end of the object
	grammarWantName
	grammarWantColon
	grammarWantFirstValue // or the end of the array
	grammarWantValue
	grammarWantMore // a comma, or the end of the container
	grammarInString
	grammarInEscape
	grammarInHex
	grammarInMultibyte // within a multi-byte character
	grammarInLiteral   // within true, false or null
	grammarAfterMinus  // this state and the following states are within a number
	grammarAfterZero
	grammarInDigits
	grammarAfterPoint
	grammarInFraction
	grammarAfterE
	grammarAfterSign
	grammarInExponent
	grammarAtEnd
)

// beginEscapeOrRune processes the first byte of an escape or a multi-byte character in a string. It
// reports whether the byte is allowed.
func (g *jsonGrammar) beginEscapeOrRune(c byte) bool {
	switch {
	case c == '\\':
		g.state = grammarInEscape
	case c < ' ':
		return false
	default:
		size, low, high := jsonx.UTF8SequenceInfo(c)
		if size == 0 {
			return false
		}
		g.state, g.runeBytesLeft, g.low, g.up = grammarInMultibyte, size-1, low, high
	}
	return true
}

// continueToken processes a byte of a value. ended reports whether the byte ends the value, and ok
// whether the byte is allowed.
func (g *jsonGrammar) continueToken(c byte) (ended, ok bool) {
	digit := c >= '0' && c <= '9'
	switch g.state { //nolint:exhaustive // Append asks for these alone
	case grammarInEscape:
		g.state = grammarInString
		if c == 'u' {
			g.state, g.hexDigitsLeft = grammarInHex, 4
		}
		return false, strings.IndexByte(`"\/bfnrtu`, c) >= 0
	case grammarInHex:
		if g.hexDigitsLeft--; g.hexDigitsLeft == 0 {
			g.state = grammarInString
		}
		return false, digit || 'a' <= c|0x20 && c|0x20 <= 'f'
	case grammarInMultibyte:
		ok = g.low <= c && c <= g.up
		if g.runeBytesLeft--; g.runeBytesLeft == 0 {
			g.state = grammarInString
		}
		g.low, g.up = 0x80, 0xbf
		return false, ok
	case grammarInLiteral:
		ok = g.literalLeft[0] == c
		g.literalLeft = g.literalLeft[1:]
		return ok && g.literalLeft == "", ok
	case grammarAfterMinus:
		g.state = grammarInDigits
		if c == '0' {
			g.state = grammarAfterZero
		}
		return false, digit
	case grammarAfterPoint:
		g.state = grammarInFraction
		return false, digit
	case grammarAfterE:
		g.state = grammarInExponent
		if c == '+' || c == '-' {
			g.state = grammarAfterSign
			return false, true
		}
		return false, digit
	}
	g.state = grammarInExponent // the state was grammarAfterSign
	return false, digit
}

// continueNumber reports whether c continues a number that could also end here.
func (g *jsonGrammar) continueNumber(c byte) bool {
	switch {
	case c >= '0' && c <= '9':
		return g.state != grammarAfterZero
	case c == '.' && (g.state == grammarAfterZero || g.state == grammarInDigits):
		g.state = grammarAfterPoint
	case c|0x20 == 'e' && g.state != grammarInExponent:
		g.state = grammarAfterE
	default:
		return false
	}
	return true
}

func (g *jsonGrammar) mayContinueDigits() bool {
	return g.state != grammarAfterZero && g.state != grammarAfterPoint && g.state != grammarAfterE
}

// continueNumberList has the same effect as handleStructure for an array of numbers, at a third of
// the cost.
func (g *jsonGrammar) continueNumberList(c byte) bool {
	switch {
	case g.state == grammarWantMore && c == ',':
		g.state = grammarWantValue
	case g.state != grammarWantValue || g.depth == 0:
		return false
	default:
		return g.beginNumber(c)
	}
	return true
}

func (g *jsonGrammar) beginNumber(c byte) bool {
	switch {
	case c == '-':
		g.state = grammarAfterMinus
	case c == '0':
		g.state = grammarAfterZero
	case c >= '1' && c <= '9':
		g.state = grammarInDigits
	default:
		return false
	}
	return true
}

// beginToken reports whether c starts a value other than a container.
func (g *jsonGrammar) beginToken(c byte) bool {
	switch c {
	case '"':
		g.state = grammarInString
	case 't':
		g.state, g.literalLeft = grammarInLiteral, "true"[1:]
	case 'f':
		g.state, g.literalLeft = grammarInLiteral, "false"[1:]
	case 'n':
		g.state, g.literalLeft = grammarInLiteral, "null"[1:]
	default:
		return g.beginNumber(c)
	}
	return true
}

func (g *jsonGrammar) openContainer(object bool) {
	g.depth++
	g.objects <<= 1
	g.state = grammarWantFirstValue
	if object {
		g.objects |= 1
		g.state = grammarWantFirstName
	}
}

func (g *jsonGrammar) closeContainer() {
	g.depth--
	g.objects >>= 1
	g.state = grammarWantMore
	if g.depth == 0 {
		g.state = grammarAtEnd
	}
}

func (g *jsonGrammar) inObject() bool { return g.objects&1 == 1 }
