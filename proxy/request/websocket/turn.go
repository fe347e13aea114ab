package websocket

import (
	"bytes"
	"sync"

	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

type responseTurn struct {
	message    *clientMessage
	laneName   string // empty for the default lane
	previousID string // id of the response to continue; empty if there is none
	isWarmUp   bool   // whether the turn generates no output

	// The request body consists of bodyHead, the earlier conversation, input and bodyTail. If no
	// conversation can be added to the input, the body is just bodyHead.
	bodyHead, input, bodyTail [][]byte
	canPrepend                bool
}

const (
	memberTypeIndex = iota
	memberLaneIndex
	memberPreviousIndex
	memberGenerateIndex
	memberStreamIndex
	memberInputIndex
	memberCount
)

var memberNames = []string{"type", "stream_id", "previous_response_id", "generate", "stream", "input"}

var messageMembers = jsonx.NewNameIndex(memberNames...)

type eventParser struct {
	doc   jsonx.Doc
	edits jsonx.Edits
}

var parserPool = sync.Pool{New: func() any { return new(eventParser) }}

func (p *eventParser) recycle() {
	p.doc.Reset()
	p.edits.Reset()
	parserPool.Put(p)
}

func (p *eventParser) parseMessage(src []byte, v *[memberCount]jsonx.Value) (kind string, refused *apierr.Error) {
	if err := p.doc.Parse(src, jsonx.Options{Record: 1}); err != nil {
		return "", apierr.FromJSONError(err, "")
	}
	root := p.doc.Root()
	if !root.IsObject() {
		return "", apierr.Invalid("", apierr.CodeInvalidType, "A message must be a JSON object.")
	}
	if err := messageMembers.Fields(root, v[:]); err != nil {
		return "", apierr.FromJSONError(err, "")
	}
	return stringValue(v[memberTypeIndex]), nil
}

func stringValue(v jsonx.Value) string {
	if !v.IsString() {
		return ""
	}
	return string(v.AppendText(nil))
}

// parseTurn parses a message as a turn. The turn refers to the memory of the message.
func (p *eventParser) parseTurn(m *clientMessage, v *[memberCount]jsonx.Value) (*responseTurn, *apierr.Error) {
	t := &responseTurn{message: m, laneName: stringValue(v[memberLaneIndex]), previousID: stringValue(v[memberPreviousIndex])}
	if l := v[memberLaneIndex]; chat.IsGiven(l) && (!l.IsString() || !validLane(t.laneName)) {
		return nil, errInvalidLane
	}
	if given := v[memberPreviousIndex]; chat.IsGiven(given) && !given.IsString() {
		return nil, apierr.Invalid("previous_response_id", apierr.CodeInvalidType,
			"previous_response_id must be a string or null.")
	}
	generate, is := v[memberGenerateIndex].Bool()
	if chat.IsGiven(v[memberGenerateIndex]) && !is {
		return nil, apierr.Invalid("generate", apierr.CodeInvalidType, "generate must be true or false.")
	}
	t.isWarmUp = is && !generate
	t.splitBody(p, m.bytes, v)
	return t, nil
}

// These strings are added to a request body.
var (
	streamTrueMember = []byte(`"stream":true`)
	inputArrayStart  = []byte(`"stream":true,"input":[`)
	inputArrayEnd    = []byte{']'}
	userMessageStart = []byte(`{"type":"message","role":"user","content":`)
	userMessageEnd   = []byte{'}'}
)

func (t *responseTurn) splitBody(p *eventParser, src []byte, v *[memberCount]jsonx.Value) {
	for i, value := range v {
		if i != memberInputIndex && value.Exists() {
			p.edits.Delete(value)
		}
	}
	switch input := v[memberInputIndex]; {
	case input.IsString():
		t.input, t.canPrepend = [][]byte{userMessageStart, input.Raw(), userMessageEnd}, true
	case input.IsArray():
		raw := input.Raw()
		if items := bytes.TrimSpace(raw[1 : len(raw)-1]); len(items) > 0 {
			t.input = [][]byte{items}
		}
		t.canPrepend = true
	case !chat.IsGiven(input) && t.previousID != "":
		t.canPrepend = true
	}
	if !t.canPrepend {
		p.edits.Add(p.doc.Root(), streamTrueMember)
		t.bodyHead = p.edits.Segments(nil, src)
		return
	}
	if input := v[memberInputIndex]; input.Exists() {
		p.edits.Delete(input)
	}
	p.edits.Add(p.doc.Root(), inputArrayStart)
	pieces := p.edits.Segments(nil, src)
	for i, piece := range pieces {
		if &piece[0] == &inputArrayStart[0] {
			t.bodyHead, t.bodyTail = pieces[:i+1:i+1], pieces[i+1:]
		}
	}
}

// bodyPieces returns the pieces of the request body and their total size. before is inserted before
// the input.
func (t *responseTurn) bodyPieces(before []byte) (pieces [][]byte, size int64) {
	pieces = append(pieces, t.bodyHead...)
	if t.canPrepend {
		pieces = append(pieces, before)
		if len(before) > 0 && len(t.input) > 0 {
			pieces = append(pieces, commaSeparator)
		}
		pieces = append(append(pieces, t.input...), inputArrayEnd)
		pieces = append(pieces, t.bodyTail...)
	}
	for _, piece := range pieces {
		size += int64(len(piece))
	}
	return pieces, size
}

var commaSeparator = []byte{','}
