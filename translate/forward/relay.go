package forward

import (
	"bytes"
	"strings"

	"penstock/translate"
	"penstock/translate/chat/answer"
	"penstock/translate/jsonx"
)

// Relay does the same as Answer for a body that is too large to buffer. It passes the body on in
// pieces, with the same changes. Call Reset, then Append for each piece, and finally CheckComplete.
// A Relay belongs to one call.
//
// The body must follow the grammar of jsonx: RFC 8259 in UTF-8, nested no deeper than
// jsonx.DefaultMaxDepth. When Relay finds an error, part of the answer may already have been sent.
// In this case, the caller can only abort the response.
type Relay struct {
	model []byte // the public id in quotes

	grammar jsonGrammar
	isKey   bool
	sink    relaySink

	// The following fields refer to the object whose members are being read.
	member     memberKind
	heldBytes  []byte     // the bytes from the comma to the start of the value
	nameOffset int        // offset of the name in heldBytes
	memberSent [2]bool    // by level (answer, choice): true if a member of the object has been sent
	listMember memberKind // the answer's member whose list is being read, such as memberChoices
	seen       [uniqueMemberCount]bool

	vectors VectorForm
	vector  vectorRewriter

	value    []byte
	hasError bool
	usage    translate.Usage
	texts    completionTexts
	doc      jsonx.Doc
}

type relaySink uint8

const (
	relaySinkClient  relaySink = iota
	relaySinkHeld              // held back until the member's name is known
	relaySinkDropped           // replaced or omitted
	relaySinkCapture           // to the client, and copied to value
	relaySinkValue             // to value; sent to the client when the value ends
	relaySinkText              // to the client, and counted
	relaySinkVector            // to the client in the format that vector writes
)

type memberKind uint8

const (
	memberOther memberKind = iota
	memberModel
	memberUsage
	memberError
	memberObject
	memberCreated
	memberTimings
	uniqueMemberCount // kinds before this one are read at the top level, and must occur only once
	memberChoices
	memberFinish
	memberText
	memberPrivate
	memberData // read only if embeddings are rewritten
	memberEmbedding
)

var watchedNames = [uniqueMemberCount]string{
	memberModel: "model", memberUsage: "usage", memberError: "error", memberObject: "object", memberCreated: "created",
	memberTimings: "timings",
}

const (
	maxNameBytes  = 256      // a longer name cannot be a known name, even with escapes
	maxBlanks     = 64       // spaces around a name beyond this number are dropped
	maxUsageBytes = 16 << 10 // a larger usage is replaced with null
)

// Reset prepares the Relay for a response to a request for model.
func (r *Relay) Reset(model string, vectors VectorForm) {
	r.doc.Reset()
	*r = Relay{
		model: jsonx.AppendStringS(r.model[:0], model), heldBytes: r.heldBytes[:0], value: r.value[:0], doc: r.doc,
		vectors: vectors, vector: vectorRewriter{text: r.vector.text, bits: r.vector.bits},
	}
}

// BufferedBytes returns roughly how many bytes the Relay buffers, for the reply memory budget.
func (r *Relay) BufferedBytes() int { return cap(r.vector.text) + cap(r.vector.bits) }

// Usage returns the engine's token counts or, for a completion, an estimate. The engine's counts are
// usually at the end of the answer.
func (r *Relay) Usage() translate.Usage { return r.texts.usageOrEstimate(r.usage) }

// CheckComplete returns an error if the answer is incomplete.
func (r *Relay) CheckComplete() error {
	switch {
	case r.grammar.state != grammarAtEnd:
		return errBadJSON
	case r.hasError:
		return &translate.BadAnswerError{Reason: reasonEngineError, Cause: answer.AbortedError()}
	}
	return nil
}

var errBadJSON = &translate.BadAnswerError{Reason: translate.ReasonBadJSON}

// Append appends the next piece with the changes for the client. The error is a
// *translate.BadAnswerError. After an error, r must not be used.
func (r *Relay) Append(dst, p []byte) ([]byte, error) {
	from := 0 // the bytes before this offset have been written to their sink
	for i := 0; i < len(p); i++ {
		c := p[i]
		switch r.grammar.state { //nolint:exhaustive // the others are structure's
		case grammarInString:
			if c >= ' ' && c < 0x80 && c != '"' && c != '\\' {
				i = jsonx.SkipText(p, i+1) - 1
				continue
			}
			switch {
			case c != '"':
				if !r.grammar.beginEscapeOrRune(c) {
					return dst, errBadJSON
				}
			case r.isKey:
				if r.sink == relaySinkHeld {
					from = r.holdBytes(p, from, i+1)
				}
				r.grammar.state = grammarWantColon
			default:
				dst, from = r.endValue(dst, p, from, i+1)
				if r.member == memberObject && r.grammar.depth == 1 && string(r.value) == `"error"` {
					return dst, &translate.BadAnswerError{Reason: reasonEngineError}
				}
			}
			continue
		case grammarInEscape, grammarInHex, grammarInMultibyte, grammarInLiteral, grammarAfterMinus, grammarAfterPoint, grammarAfterE, grammarAfterSign:
			ended, ok := r.grammar.continueToken(c)
			if !ok {
				return dst, errBadJSON
			}
			if ended {
				dst, from = r.endValue(dst, p, from, i+1)
			}
			continue
		case grammarAfterZero, grammarInDigits, grammarInFraction, grammarInExponent:
			if r.grammar.continueNumber(c) {
				for r.grammar.mayContinueDigits() && i+1 < len(p) && p[i+1] >= '0' && p[i+1] <= '9' {
					i++
				}
				continue
			}
			dst, from = r.endValue(dst, p, from, i)
		}
		if !r.grammar.inObject() && r.grammar.continueNumberList(c) {
			continue
		}
		if c == ' ' || c == '\n' || c == '\t' || c == '\r' {
			continue
		}
		var err error
		if dst, from, err = r.handleStructure(dst, p, from, i); err != nil {
			return dst, err
		}
	}
	return r.writeToSink(dst, p[from:]), r.vector.err()
}

func (r *Relay) handleStructure(dst, p []byte, from, i int) ([]byte, int, error) {
	switch c := p[i]; r.grammar.state { //nolint:exhaustive // the others are inside of a token
	case grammarWantRoot:
		if c != '{' {
			return dst, from, &translate.BadAnswerError{Reason: translate.ReasonNotObject}
		}
		return r.openContainer(dst, p, from, i)
	case grammarWantFirstName, grammarWantName:
		switch {
		case c == '"':
			r.grammar.state, r.isKey = grammarInString, true
			if r.sink == relaySinkHeld {
				from = r.holdBytes(p, from, i)
				r.nameOffset = len(r.heldBytes)
			}
			return dst, from, nil
		case c == '}' && r.grammar.state == grammarWantFirstName:
			dst, from = r.sendAtObjectEnd(dst, p, from, i)
			return r.closeContainer(dst, p, from, i)
		}
	case grammarWantColon:
		if c == ':' {
			r.grammar.state = grammarWantValue
			return dst, from, nil
		}
	case grammarWantFirstValue, grammarWantValue:
		if c == ']' && r.grammar.state == grammarWantFirstValue {
			return r.closeContainer(dst, p, from, i)
		}
		return r.beginValue(dst, p, from, i)
	case grammarWantMore:
		switch object := r.grammar.inObject(); {
		case c == ',' && object:
			r.grammar.state = grammarWantName
			if r.readsMembers() {
				dst, from = r.writeToSink(dst, p[from:i]), i
				r.beginMember()
			}
			return dst, from, nil
		case c == ',':
			r.grammar.state = grammarWantValue
			return dst, from, nil
		case c == '}' && object, c == ']' && !object:
			return r.closeContainer(dst, p, from, i)
		}
	}
	return dst, from, errBadJSON
}

func (r *Relay) readsMembers() bool {
	return r.grammar.inObject() && (r.grammar.depth == 1 || r.grammar.depth == 3 && r.listMember != memberOther)
}

// beginMember starts a member. Append holds back the bytes of its name.
func (r *Relay) beginMember() {
	r.sink, r.member, r.heldBytes = relaySinkHeld, memberOther, r.heldBytes[:0]
}

func (r *Relay) openContainer(dst, p []byte, from, i int) ([]byte, int, error) {
	if r.grammar.depth == jsonx.DefaultMaxDepth {
		return dst, from, &translate.BadAnswerError{Reason: translate.ReasonTooLarge}
	}
	object := p[i] == '{'
	if r.grammar.depth == 1 && (r.member == memberChoices || r.member == memberData) && !object {
		r.listMember = r.member
	}
	if r.grammar.openContainer(object); object && r.readsMembers() {
		dst, from = r.writeToSink(dst, p[from:i+1]), i+1
		r.memberSent[r.nestingLevel()] = false
		r.beginMember()
	}
	return dst, from, nil
}

// nestingLevel returns 0 in the answer itself, and 1 in an element of its list.
func (r *Relay) nestingLevel() int { return (r.grammar.depth - 1) / 2 }

// sendAtObjectEnd releases the bytes that were held back in case a member followed. The object
// ended instead.
func (r *Relay) sendAtObjectEnd(dst, p []byte, from, i int) ([]byte, int) {
	if r.readsMembers() {
		from = r.holdBytes(p, from, i)
		dst, r.sink = append(dst, r.heldBytes...), relaySinkClient
	}
	return dst, from
}

// closeContainer processes the end of a container, which is also the end of a value.
func (r *Relay) closeContainer(dst, p []byte, from, i int) ([]byte, int, error) {
	if r.grammar.closeContainer(); r.grammar.depth == 0 {
		return dst, from, nil
	}
	if r.grammar.depth == 1 {
		r.listMember = memberOther
	}
	dst, from = r.endValue(dst, p, from, i+1)
	return dst, from, nil
}

func (r *Relay) beginValue(dst, p []byte, from, i int) ([]byte, int, error) {
	if r.sink == relaySinkHeld && r.readsMembers() {
		from = r.holdBytes(p, from, i)
		var err error
		if dst, err = r.handleMember(dst, p[i]); err != nil {
			return dst, from, err
		}
	}
	switch c := p[i]; {
	case c == '{' || c == '[':
		return r.openContainer(dst, p, from, i)
	case r.grammar.beginToken(c):
		r.isKey = r.isKey && c != '"'
		return dst, from, nil
	}
	return dst, from, errBadJSON
}

// handleMember decides what to do with a member. The name is complete, and the value starts with c.
func (r *Relay) handleMember(dst []byte, c byte) ([]byte, error) {
	var err error
	if r.member, err = r.identifyMember(); err != nil {
		return dst, err
	}
	null := c == 'n'
	switch {
	case r.member == memberPrivate && !null:
		r.sink = relaySinkDropped
		return dst, nil
	case r.member == memberError && !null:
		return dst, &translate.BadAnswerError{Reason: reasonEngineError}
	case r.member == memberFinish && null:
		return dst, &translate.BadAnswerError{Reason: reasonNotFinished}
	}
	dst = r.sendHeld(dst)
	switch r.member { //nolint:exhaustive // the others go out as they are
	case memberModel:
		dst = append(dst, r.model...)
		r.sink = relaySinkDropped
	case memberObject:
		r.sink, r.value = relaySinkCapture, r.value[:0]
	case memberUsage:
		r.sink, r.value = relaySinkValue, r.value[:0]
	case memberTimings:
		r.texts.hasTimings = c == '{'
	case memberCreated:
		if c == '-' || '0' <= c && c <= '9' {
			r.sink, r.value = relaySinkValue, r.value[:0]
		}
	case memberFinish:
		if c == '"' {
			r.sink, r.value = relaySinkValue, r.value[:0]
		}
	case memberText:
		if c == '"' {
			r.sink = relaySinkText
			r.texts.count++
			r.texts.bytes -= len(`""`) // the sink counts the quotes
		}
	case memberEmbedding:
		if r.vector.begin(r.vectors, c) {
			r.sink = relaySinkVector
		}
	}
	return dst, nil
}

// sendHeld sends the held bytes. If no member has been sent before, it removes the leading comma.
func (r *Relay) sendHeld(dst []byte) []byte {
	held := r.heldBytes
	if begun := &r.memberSent[r.nestingLevel()]; !*begun {
		*begun = true
		held = bytes.TrimPrefix(held, []byte{','})
	}
	r.sink = relaySinkClient
	return append(dst, held...)
}

// identifyMember rejects the answer if a name that the edge reads occurs twice or in a different
// case, because two readers could see different values.
func (r *Relay) identifyMember() (memberKind, error) {
	name := r.heldBytes[r.nameOffset:]
	name = name[:bytes.LastIndexByte(name, '"')+1]
	if bytes.IndexByte(name, '\\') >= 0 && r.doc.Parse(name, jsonx.Options{}) == nil {
		name = r.doc.Root().AppendText(nil)
	} else {
		name = name[1 : len(name)-1]
	}
	switch {
	case r.grammar.depth == 3 && r.listMember == memberData:
		if string(name) == "embedding" {
			return memberEmbedding, nil
		}
		return memberOther, nil
	case answer.IsPrivate(name):
		return memberPrivate, nil
	case r.grammar.depth == 3 && string(name) == "finish_reason":
		return memberFinish, nil
	case r.grammar.depth == 3 && string(name) == "text":
		return memberText, nil
	case r.grammar.depth == 3:
		return memberOther, nil
	case string(name) == "choices":
		return memberChoices, nil
	case r.vectors != VectorsAsSent && string(name) == "data":
		return memberData, nil
	}
	for kind := memberModel; kind < uniqueMemberCount; kind++ {
		if len(name) != len(watchedNames[kind]) || !strings.EqualFold(string(name), watchedNames[kind]) {
			continue
		}
		if r.seen[kind] || string(name) != watchedNames[kind] {
			return memberOther, &translate.BadAnswerError{Reason: translate.ReasonDuplicateMember}
		}
		r.seen[kind] = true
		return kind, nil
	}
	return memberOther, nil
}

// endValue processes a value that ends before p[i].
func (r *Relay) endValue(dst, p []byte, from, i int) (out []byte, rest int) {
	r.grammar.state = grammarWantMore
	if !r.readsMembers() || r.sink == relaySinkClient {
		return dst, from
	}
	dst = r.writeToSink(dst, p[from:i])
	switch r.sink { //nolint:exhaustive // the others have given out what they had
	case relaySinkValue:
		dst = r.appendValue(dst)
	case relaySinkVector:
		dst = r.vector.end(dst)
	}
	r.sink = relaySinkClient
	return dst, i
}

// appendValue appends the captured value and limits its numbers.
func (r *Relay) appendValue(dst []byte) []byte {
	if len(r.value) > maxUsageBytes || r.doc.Parse(r.value, jsonx.Options{}) != nil {
		return append(dst, "null"...)
	}
	v := r.doc.Root()
	var bounded []byte
	switch r.member {
	case memberUsage:
		r.usage, _ = readUsage(v)
		if v.IsObject() {
			bounded = answer.BoundNumbers(r.value)
		}
	case memberFinish:
		var failed bool
		bounded, failed = answer.ReplaceLegacyFinish(v)
		r.hasError = r.hasError || failed
	default:
		bounded = answer.BoundCreated(v)
	}
	if bounded == nil {
		bounded = r.value
	}
	return append(dst, bounded...)
}

func (r *Relay) writeToSink(dst, p []byte) []byte {
	switch r.sink {
	case relaySinkHeld:
		if r.holdBytes(p, 0, len(p)); r.grammar.state >= grammarInString && len(r.heldBytes)-r.nameOffset > maxNameBytes {
			dst = r.sendHeld(dst)
		}
		return dst
	case relaySinkDropped:
		return dst
	case relaySinkVector:
		return r.vector.append(dst, p)
	case relaySinkCapture, relaySinkValue:
		r.value = append(r.value, p[:min(len(p), maxUsageBytes+1-len(r.value))]...)
		if r.sink == relaySinkValue {
			return dst
		}
	case relaySinkText:
		r.texts.bytes += len(p)
	case relaySinkClient:
	}
	return append(dst, p...)
}

// holdBytes holds back p[from:i], the bytes before a value. It returns i.
func (r *Relay) holdBytes(p []byte, from, i int) int {
	p = p[from:i]
	if inName := r.isKey && r.grammar.state >= grammarInString; !inName && len(p) > maxBlanks {
		for _, c := range p {
			if c == ',' || c == ':' || c == '"' {
				r.heldBytes = append(r.heldBytes, c)
			}
		}
		return i
	}
	r.heldBytes = append(r.heldBytes, p...)
	return i
}
