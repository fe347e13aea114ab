package forward

import (
	"bytes"
	"strings"

	"penstock/translate"
	"penstock/translate/chat/answer"
	"penstock/translate/jsonx"
)

// Relay is Answer for one that is too large to be held: it reads the body in pieces and gives each
// on with the same changes. It holds the name of one member and the usage, and no more. Reset
// first, then Append for each piece, and End behind the last. It belongs to one call.
//
// The body is held to the grammar that jsonx holds it to: RFC 8259 in UTF-8, no deeper than
// jsonx.DefaultMaxDepth. What is wrong is found when part of the answer has gone out, so that it
// can only be broken off.
type Relay struct {
	model []byte // the public id in quotes

	state   relayState
	depth   int
	objects uint64 // of the open containers, the innermost in the lowest bit: whether it is an object
	word    string // what is left of a literal
	hex     int    // digits that are left of an escape
	wide    int    // bytes that are left of a character
	low, up byte   // what the next one of them may be
	isKey   bool   // the string is a name
	sink    sink

	// Of the object whose members are read: the answer, or one of its choices.
	member  memberKind
	held    []byte // what stands before the value, from the comma on
	name    int    // where in held the name begins
	told    [2]bool
	choices bool // inside of the answer's choices
	seen    [names]bool

	value []byte // of the member that is captured
	usage translate.Usage
	doc   jsonx.Doc
}

// relayState is what may come next.
type relayState uint8

const (
	wantRoot       relayState = iota
	wantFirstName             // or the end of the object
	wantName                  //
	wantColon                 //
	wantFirstValue            // or the end of the array
	wantValue                 //
	wantMore                  // a comma, or the end of the container
	inString                  //
	inEscape                  //
	inHex                     //
	inWide                    // in a character of several bytes
	inWord                    // in true, false or null
	afterMinus                // of a number, and so on
	afterZero                 //
	inDigits                  //
	afterPoint                //
	inFraction                //
	afterE                    //
	afterSign                 //
	inExponent                //
	atEnd                     //
)

// sink is where bytes go.
type sink uint8

const (
	toClient  sink = iota
	toHeld         // until the name that they belong to is known
	toNobody       // they are replaced or left out
	toCapture      // to the client, and into value
	toValue        // into value, and from there to the client at its end
)

// memberKind is what a member is to us.
type memberKind uint8

const (
	memberOther memberKind = iota
	memberModel
	memberUsage
	memberError
	memberObject
	memberCreated
	names // those above are looked for in the answer itself, and must be there once
	memberChoices
	memberFinish
	memberPrivate
)

var watched = [names]string{memberModel: "model", memberUsage: "usage", memberError: "error", memberObject: "object", memberCreated: "created"}

const (
	longName   = 256      // a name above this is none of those that are looked for, however it is spelt
	mostBlanks = 64       // around a name, more space than this is left out
	mostUsage  = 16 << 10 // a larger usage is not read, and null to the client
)

// Reset makes r ready for an answer to a request for model.
func (r *Relay) Reset(model string) {
	r.doc.Reset()
	*r = Relay{model: jsonx.AppendStringS(r.model[:0], model), held: r.held[:0], value: r.value[:0], doc: r.doc}
}

// Usage returns the engine's token counts; not Known before End, or if it sent none.
func (r *Relay) Usage() translate.Usage { return r.usage }

// End reports whether what came was a whole answer.
func (r *Relay) End() error {
	if r.state != atEnd {
		return errBadJSON
	}
	return nil
}

var errBadJSON = &translate.BadAnswer{Reason: badJSON}

// Append appends what the client is to see of the next piece. The error is a *translate.BadAnswer, after
// which r is of no use.
func (r *Relay) Append(dst, p []byte) ([]byte, error) {
	from := 0 // what is before has been given to its sink
	for i := 0; i < len(p); i++ {
		c := p[i]
		switch r.state { //nolint:exhaustive // the others are structure's
		case inString:
			if c >= ' ' && c < 0x80 && c != '"' && c != '\\' {
				i = jsonx.SkipText(p, i+1) - 1
				continue
			}
			switch {
			case c != '"':
				if !r.beginSpecial(c) {
					return dst, errBadJSON
				}
			case r.isKey:
				if r.sink == toHeld {
					from = r.hold(p, from, i+1)
				}
				r.state = wantColon
			default:
				dst, from = r.endValue(dst, p, from, i+1)
				if r.member == memberObject && r.depth == 1 && string(r.value) == `"error"` {
					return dst, &translate.BadAnswer{Reason: engineError}
				}
			}
			continue
		case inEscape, inHex, inWide, inWord, afterMinus, afterPoint, afterE, afterSign:
			ended, ok := r.inToken(c)
			if !ok {
				return dst, errBadJSON
			}
			if ended {
				dst, from = r.endValue(dst, p, from, i+1)
			}
			continue
		case afterZero, inDigits, inFraction, inExponent:
			if r.inNumber(c) {
				for r.state != afterZero && r.state != afterPoint && r.state != afterE && i+1 < len(p) && p[i+1] >= '0' && p[i+1] <= '9' {
					i++
				}
				continue
			}
			dst, from = r.endValue(dst, p, from, i)
		}
		if r.objects&1 == 0 && r.inNumbers(c) {
			continue
		}
		if c == ' ' || c == '\n' || c == '\t' || c == '\r' {
			continue
		}
		var err error
		if dst, from, err = r.structure(dst, p, from, i); err != nil {
			return dst, err
		}
	}
	return r.give(dst, p[from:]), nil
}

// beginSpecial takes a byte of a string that is no character by itself, and reports whether it may
// stand there.
func (r *Relay) beginSpecial(c byte) bool {
	switch {
	case c == '\\':
		r.state = inEscape
	case c < ' ':
		return false
	default: // RFC 3629, section 4
		r.state, r.low, r.up = inWide, 0x80, 0xbf
		switch {
		case c >= 0xc2 && c <= 0xdf:
			r.wide = 1
		case c >= 0xe0 && c <= 0xef:
			r.wide = 2
			switch c {
			case 0xe0:
				r.low = 0xa0
			case 0xed:
				r.up = 0x9f
			}
		case c >= 0xf0 && c <= 0xf4:
			r.wide = 3
			switch c {
			case 0xf0:
				r.low = 0x90
			case 0xf4:
				r.up = 0x8f
			}
		default:
			return false
		}
	}
	return true
}

// inToken takes the next byte of what has a certain form. It reports whether a value has ended with
// it, and whether it may stand there.
func (r *Relay) inToken(c byte) (ended, ok bool) {
	digit := c >= '0' && c <= '9'
	switch r.state { //nolint:exhaustive // Append asks for these alone
	case inEscape:
		r.state = inString
		if c == 'u' {
			r.state, r.hex = inHex, 4
		}
		return false, strings.IndexByte(`"\/bfnrtu`, c) >= 0
	case inHex:
		if r.hex--; r.hex == 0 {
			r.state = inString
		}
		return false, digit || 'a' <= c|0x20 && c|0x20 <= 'f'
	case inWide:
		ok = r.low <= c && c <= r.up
		if r.wide--; r.wide == 0 {
			r.state = inString
		}
		r.low, r.up = 0x80, 0xbf
		return false, ok
	case inWord:
		ok = r.word[0] == c
		r.word = r.word[1:]
		return ok && r.word == "", ok
	case afterMinus:
		r.state = inDigits
		if c == '0' {
			r.state = afterZero
		}
		return false, digit
	case afterPoint:
		r.state = inFraction
		return false, digit
	case afterE:
		r.state = inExponent
		if c == '+' || c == '-' {
			r.state = afterSign
			return false, true
		}
		return false, digit
	}
	r.state = inExponent // afterSign
	return false, digit
}

// inNumber takes the next byte of a number that may end before it, and reports whether it goes on.
func (r *Relay) inNumber(c byte) bool {
	switch {
	case c >= '0' && c <= '9':
		return r.state != afterZero
	case c == '.' && (r.state == afterZero || r.state == inDigits):
		r.state = afterPoint
	case c|0x20 == 'e' && r.state != inExponent:
		r.state = afterE
	default:
		return false
	}
	return true
}

// inNumbers takes a byte of an array of numbers, which embeddings consist of; it is what structure
// would do, at a third of the cost.
func (r *Relay) inNumbers(c byte) bool {
	switch {
	case r.state == wantMore && c == ',':
		r.state = wantValue
	case r.state != wantValue || r.depth == 0:
		return false
	case c == '-':
		r.state = afterMinus
	case c == '0':
		r.state = afterZero
	case c >= '1' && c <= '9':
		r.state = inDigits
	default:
		return false
	}
	return true
}

// structure takes a byte outside of strings, numbers and words, which is no space.
func (r *Relay) structure(dst, p []byte, from, i int) ([]byte, int, error) {
	switch c := p[i]; r.state { //nolint:exhaustive // the others are inside of a token
	case wantRoot:
		if c != '{' {
			return dst, from, &translate.BadAnswer{Reason: notObject}
		}
		return r.open(dst, p, from, i)
	case wantFirstName, wantName:
		switch {
		case c == '"':
			r.state, r.isKey = inString, true
			if r.sink == toHeld {
				from = r.hold(p, from, i)
				r.name = len(r.held)
			}
			return dst, from, nil
		case c == '}' && r.state == wantFirstName:
			dst, from = r.closeEmpty(dst, p, from, i)
			return r.shut(dst, p, from, i)
		}
	case wantColon:
		if c == ':' {
			r.state = wantValue
			return dst, from, nil
		}
	case wantFirstValue, wantValue:
		if c == ']' && r.state == wantFirstValue {
			return r.shut(dst, p, from, i)
		}
		return r.beginValue(dst, p, from, i)
	case wantMore:
		switch object := r.objects&1 == 1; {
		case c == ',' && object:
			r.state = wantName
			if r.reads() {
				dst, from = r.give(dst, p[from:i]), i
				r.beginMember()
			}
			return dst, from, nil
		case c == ',':
			r.state = wantValue
			return dst, from, nil
		case c == '}' && object, c == ']' && !object:
			return r.shut(dst, p, from, i)
		}
	}
	return dst, from, errBadJSON
}

// reads reports whether the members of the innermost container are looked at.
func (r *Relay) reads() bool {
	return r.objects&1 == 1 && (r.depth == 1 || r.depth == 3 && r.choices)
}

// beginMember prepares for a name in an object that is looked at. What comes is held from here on.
func (r *Relay) beginMember() {
	r.sink, r.member, r.held = toHeld, memberOther, r.held[:0]
}

// open takes the beginning of a container.
func (r *Relay) open(dst, p []byte, from, i int) ([]byte, int, error) {
	if r.depth == jsonx.DefaultMaxDepth {
		return dst, from, &translate.BadAnswer{Reason: translate.TooLarge}
	}
	object := p[i] == '{'
	if r.depth == 1 && r.member == memberChoices && !object {
		r.choices = true
	}
	r.depth++
	r.objects <<= 1
	if !object {
		r.state = wantFirstValue
		return dst, from, nil
	}
	r.objects |= 1
	r.state = wantFirstName
	if r.reads() {
		dst, from = r.give(dst, p[from:i+1]), i+1
		r.told[r.level()] = false
		r.beginMember()
	}
	return dst, from, nil
}

// level distinguishes the answer from one of its choices.
func (r *Relay) level() int { return (r.depth - 1) / 2 }

// closeEmpty gives out what was held for a member that did not come.
func (r *Relay) closeEmpty(dst, p []byte, from, i int) ([]byte, int) {
	if r.reads() {
		from = r.hold(p, from, i)
		dst, r.sink = append(dst, r.held...), toClient
	}
	return dst, from
}

// shut takes the end of a container, which is the end of a value.
func (r *Relay) shut(dst, p []byte, from, i int) ([]byte, int, error) {
	r.depth--
	r.objects >>= 1
	if r.depth == 0 {
		r.state = atEnd
		return dst, from, nil
	}
	if r.depth == 1 {
		r.choices = false
	}
	dst, from = r.endValue(dst, p, from, i+1)
	return dst, from, nil
}

// beginValue takes the first byte of a value.
func (r *Relay) beginValue(dst, p []byte, from, i int) ([]byte, int, error) {
	if r.sink == toHeld && r.reads() {
		from = r.hold(p, from, i)
		var err error
		if dst, err = r.meet(dst, p[i]); err != nil {
			return dst, from, err
		}
	}
	switch c := p[i]; {
	case c == '{' || c == '[':
		return r.open(dst, p, from, i)
	case c == '"':
		r.state, r.isKey = inString, false
	case c == '-':
		r.state = afterMinus
	case c == '0':
		r.state = afterZero
	case c >= '1' && c <= '9':
		r.state = inDigits
	case c == 't':
		r.state, r.word = inWord, "true"[1:]
	case c == 'f':
		r.state, r.word = inWord, "false"[1:]
	case c == 'n':
		r.state, r.word = inWord, "null"[1:]
	default:
		return dst, from, errBadJSON
	}
	return dst, from, nil
}

// meet decides what becomes of a member whose name has come, and whose value begins with c.
func (r *Relay) meet(dst []byte, c byte) ([]byte, error) {
	var err error
	if r.member, err = r.identify(); err != nil {
		return dst, err
	}
	null := c == 'n'
	switch {
	case r.member == memberPrivate && !null:
		r.sink = toNobody
		return dst, nil
	case r.member == memberError && !null:
		return dst, &translate.BadAnswer{Reason: engineError}
	case r.member == memberFinish && null:
		return dst, &translate.BadAnswer{Reason: notFinished}
	}
	dst = r.release(dst)
	switch r.member { //nolint:exhaustive // the others go out as they are
	case memberModel:
		dst = append(dst, r.model...)
		r.sink = toNobody
	case memberObject:
		r.sink, r.value = toCapture, r.value[:0]
	case memberUsage:
		r.sink, r.value = toValue, r.value[:0]
	case memberCreated:
		if c == '-' || '0' <= c && c <= '9' {
			r.sink, r.value = toValue, r.value[:0]
		}
	}
	return dst, nil
}

// release gives out what was held, without its comma when no member has gone out before it.
func (r *Relay) release(dst []byte) []byte {
	held := r.held
	if told := &r.told[r.level()]; !*told {
		*told = true
		held = bytes.TrimPrefix(held, []byte{','})
	}
	r.sink = toClient
	return append(dst, held...)
}

// identify says which member the name is of. Two of a name that we read, or one in another case,
// may be read as the one or the other, so they are refused.
func (r *Relay) identify() (memberKind, error) {
	name := r.held[r.name:]
	name = name[:bytes.LastIndexByte(name, '"')+1]
	if bytes.IndexByte(name, '\\') >= 0 && r.doc.Parse(name, jsonx.Options{}) == nil {
		name = r.doc.Root().AppendText(nil)
	} else {
		name = name[1 : len(name)-1]
	}
	switch {
	case answer.IsPrivate(name):
		return memberPrivate, nil
	case r.depth == 3 && string(name) == "finish_reason":
		return memberFinish, nil
	case r.depth == 3:
		return memberOther, nil
	case string(name) == "choices":
		return memberChoices, nil
	}
	for kind := memberModel; kind < names; kind++ {
		if len(name) != len(watched[kind]) || !strings.EqualFold(string(name), watched[kind]) {
			continue
		}
		if r.seen[kind] || string(name) != watched[kind] {
			return memberOther, &translate.BadAnswer{Reason: twice}
		}
		r.seen[kind] = true
		return kind, nil
	}
	return memberOther, nil
}

// endValue takes the end of a value, before p[i].
func (r *Relay) endValue(dst, p []byte, from, i int) (out []byte, rest int) {
	r.state = wantMore
	if !r.reads() || r.sink == toClient {
		return dst, from
	}
	dst = r.give(dst, p[from:i])
	if r.sink == toValue {
		dst = r.appendValue(dst)
	}
	r.sink = toClient
	return dst, i
}

// appendValue appends the usage or the time that is in value, bounded.
func (r *Relay) appendValue(dst []byte) []byte {
	if len(r.value) > mostUsage || r.doc.Parse(r.value, jsonx.Options{}) != nil {
		return append(dst, "null"...)
	}
	v := r.doc.Root()
	var bounded []byte
	if r.member == memberUsage {
		r.usage, _ = readUsage(v)
		if v.IsObject() {
			bounded = answer.BoundNumbers(r.value)
		}
	} else {
		bounded = answer.BoundTime(v)
	}
	if bounded == nil {
		bounded = r.value
	}
	return append(dst, bounded...)
}

// give gives bytes to their sink.
func (r *Relay) give(dst, p []byte) []byte {
	switch r.sink {
	case toHeld:
		if r.hold(p, 0, len(p)); r.state >= inString && len(r.held)-r.name > longName {
			dst = r.release(dst)
		}
		return dst
	case toNobody:
		return dst
	case toCapture, toValue:
		r.value = append(r.value, p[:min(len(p), mostUsage+1-len(r.value))]...)
		if r.sink == toValue {
			return dst
		}
	case toClient:
	}
	return append(dst, p...)
}

// hold keeps p[from:i], which stands before a value, and returns i.
func (r *Relay) hold(p []byte, from, i int) int {
	p = p[from:i]
	if inName := r.isKey && r.state >= inString; !inName && len(p) > mostBlanks {
		for _, c := range p {
			if c == ',' || c == ':' || c == '"' {
				r.held = append(r.held, c)
			}
		}
		return i
	}
	r.held = append(r.held, p...)
	return i
}
