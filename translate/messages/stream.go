package messages

import (
	"strconv"

	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// Stream writes the answer to one request: the whole message (AppendWhole), or the events of a
// stream, which it makes from those of an engine's chat stream:
//
//	message_start, (content_block_start, content_block_delta…, content_block_stop)…, message_delta, message_stop
//
// or, wherever it fails, error as the last event. One block is open at a time and blocks are
// numbered from 0.
//
// The zero value is ready for Reset. A Stream belongs to one call at a time and is meant to be
// pooled. It does not allocate per event once its buffers have grown.
type Stream struct {
	RequestInfo RequestInfo // filled by Request.Decode

	identity  dialects.Identity
	reader    answer.Reader
	phase     phase
	index     int                // of the block that is open, or of the next one
	queue     []piece            // the first may be open; what is behind it waits for its end
	toolCalls []toolCallProgress // by position in reader.ToolCalls
	lead      []byte             // what a delta of the open block begins with
	input     input
}

var _ translate.Stream = (*Stream)(nil)

// phase is how far a stream is.
type phase uint8

const (
	phaseIdle    phase = iota // nothing has been said
	phaseStarted              // message_start has
	phaseClosed               // message_stop or error has
)

// kind is a kind of content block.
type kind uint8

const (
	kindThinking kind = iota
	kindText
	kindToolCall
)

// piece is a block that is open or that waits to be.
type piece struct {
	kind     kind
	open     bool
	toolCall int    // of kindToolCall: its position in reader.ToolCalls
	text     []byte // of the others: what has not been sent
}

// toolCallProgress is how much of a tool call the client has been sent.
type toolCallProgress struct {
	sent   int // bytes of its arguments
	closed bool
}

// Reset makes s ready for an answer, to the request that RequestInfo is of.
func (s *Stream) Reset(i *dialects.Identity) {
	s.reader.Reset(i.ID)
	s.reader.SetPromptEstimate(i.PromptTokens)
	s.input.reset()
	s.identity, s.phase, s.index = *i, phaseIdle, 0
	s.queue, s.toolCalls = s.queue[:cap(s.queue)], s.toolCalls[:0]
	if len(s.queue) > keepPieces {
		s.queue = nil
	}
	for i := range s.queue {
		if cap(s.queue[i].text) > keepInput {
			s.queue[i].text = nil
		}
	}
	s.queue = s.queue[:0]
}

// Release lets go of the last call's data, for a pool.
func (s *Stream) Release() {
	s.RequestInfo.reset()
	s.Reset(&dialects.Identity{})
}

// keepPieces is of how many pieces the memory is kept.
const keepPieces = 16

// Append appends what one event of the engine becomes: events, or nothing. The error is a
// *translate.BadAnswer or a *engineerror.Error; nothing is appended then, and only Fail may follow. The
// event's data is not kept.
func (s *Stream) Append(dst []byte, ev sse.Event) ([]byte, error) {
	ok, err := s.reader.Read(ev)
	if !ok || err != nil {
		return dst, err
	}
	out := dst
	if s.phase == phaseIdle {
		out = s.start(out)
	}
	if len(s.reader.Reasoning) > 0 && s.RequestInfo.thinking {
		out = s.say(out, kindThinking, s.reader.Reasoning)
	}
	if len(s.reader.Content) > 0 {
		out = s.say(out, kindText, s.reader.Content)
	}
	if len(s.reader.Refusal) > 0 {
		out = s.say(out, kindText, s.reader.Refusal)
	}
	for _, i := range s.reader.Touched {
		if err := s.touch(i); err != nil {
			return dst, err
		}
	}
	if len(s.queue) > 1 || len(s.reader.Touched) > 0 {
		if out, err = s.advance(out); err != nil {
			return dst, err
		}
	}
	return out, nil
}

// start appends message_start. The counts are the engine's so far; clients
// correct them later.
func (s *Stream) start(dst []byte) []byte {
	s.phase = phaseStarted
	dst = append(dst, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":"...)
	dst = jsonx.AppendStringS(dst, s.identity.ID)
	dst = append(dst, `,"type":"message","role":"assistant","model":`...)
	dst = jsonx.AppendStringS(dst, s.identity.Model)
	dst = append(dst, `,"content":[],"stop_reason":null,"stop_sequence":null,"usage":`...)
	u := s.reader.Usage()
	if !u.Known {
		u = translate.Usage{}
	}
	dst = appendUsage(dst, u)
	return append(dst, "}}\n\n"...)
}

// say takes a piece of thinking or text. It goes out at once when its block is the open one and
// nothing waits.
func (s *Stream) say(dst []byte, k kind, text []byte) []byte {
	if n := len(s.queue); n > 0 && s.queue[n-1].kind == k {
		if last := &s.queue[n-1]; n > 1 || !last.open {
			last.text = append(last.text, text...)
			return dst
		}
		return s.delta(dst, text)
	}
	p := s.push(k)
	if len(s.queue) == 1 {
		dst = s.open(dst, p)
		return s.delta(dst, text)
	}
	p.text = append(p.text, text...)
	return dst
}

// push adds a piece to the queue, with the memory of an older one if there is any.
func (s *Stream) push(k kind) *piece {
	n := len(s.queue)
	if n < cap(s.queue) {
		s.queue = s.queue[:n+1]
		s.queue[n] = piece{kind: k, text: s.queue[n].text[:0]}
	} else {
		s.queue = append(s.queue, piece{kind: k})
	}
	return &s.queue[n]
}

// pop takes the first piece out of the queue. Its memory goes to the end, for push.
func (s *Stream) pop() {
	first := s.queue[0]
	copy(s.queue, s.queue[1:])
	if cap(first.text) > keepInput {
		first.text = nil
	}
	s.queue[len(s.queue)-1] = first
	s.queue = s.queue[:len(s.queue)-1]
}

// touch notes that the last event was about tool call i. Tool calls are queued in the order of
// their first appearance.
func (s *Stream) touch(i int) error {
	if i == len(s.toolCalls) {
		s.toolCalls = append(s.toolCalls, toolCallProgress{})
		s.push(kindToolCall).toolCall = i
		return nil
	}
	if c := &s.toolCalls[i]; c.closed {
		args := s.reader.ToolCalls[i].Args
		if _, more := firstByte(args[c.sent:]); more {
			return errLate
		}
		c.sent = len(args)
	}
	return nil
}

// advance appends what may go out of the queue: the rest of the first piece, and of those behind it
// for which it makes way.
func (s *Stream) advance(dst []byte) ([]byte, error) {
	for len(s.queue) > 0 {
		dst = s.flush(dst)
		if len(s.queue) == 1 || !s.ends(&s.queue[0]) {
			break
		}
		var err error
		if dst, err = s.stop(dst); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// ends reports whether the first piece is known to be complete when others wait behind it.
func (s *Stream) ends(p *piece) bool {
	return p.kind != kindToolCall || s.reader.Finish != answer.FinishNone || p.open && s.reader.Complete(p.toolCall)
}

// flush appends what is there of the first piece, and opens its block if need be. A tool call
// without a name cannot be opened.
func (s *Stream) flush(dst []byte) []byte {
	p := &s.queue[0]
	if p.kind != kindToolCall {
		if !p.open {
			dst = s.open(dst, p)
		}
		if len(p.text) > 0 {
			dst = s.delta(dst, p.text)
			p.text = p.text[:0]
		}
		return dst
	}
	if !p.open {
		if len(s.reader.ToolCalls[p.toolCall].Name) == 0 {
			return dst
		}
		dst = s.open(dst, p)
	}
	c, args := &s.toolCalls[p.toolCall], s.reader.ToolCalls[p.toolCall].Args
	if len(args) == c.sent {
		return dst
	}
	if c.sent == 0 { // null and blanks wait: they are sent only if nothing follows
		if first, _ := firstByte(args); first != '{' {
			return dst
		}
	}
	dst = s.delta(dst, args[c.sent:])
	c.sent = len(args)
	return dst
}

// firstByte returns the first byte of args, the contents of a JSON string, that is not a blank,
// escaped or not.
func firstByte(args []byte) (byte, bool) {
	for i := 0; i < len(args); i++ {
		switch c := args[i]; c {
		case ' ':
		case '\\':
			if i++; args[i] != 'n' && args[i] != 't' && args[i] != 'r' {
				return '\\', true
			}
		default:
			return c, true
		}
	}
	return 0, false
}

// open appends content_block_start for p, which is the first piece.
func (s *Stream) open(dst []byte, p *piece) []byte {
	p.open = true
	dst = append(dst, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"...)
	dst = strconv.AppendInt(dst, int64(s.index), 10)
	s.lead = append(s.lead[:0], "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	s.lead = strconv.AppendInt(s.lead, int64(s.index), 10)
	switch p.kind {
	case kindThinking:
		s.lead = append(s.lead, `,"delta":{"type":"thinking_delta","thinking":"`...)
		dst = append(dst, `,"content_block":{"type":"thinking","thinking":"","signature":""`...)
	case kindText:
		s.lead = append(s.lead, `,"delta":{"type":"text_delta","text":"`...)
		dst = append(dst, `,"content_block":{"type":"text","text":""`...)
	case kindToolCall:
		s.lead = append(s.lead, `,"delta":{"type":"input_json_delta","partial_json":"`...)
		dst = append(dst, `,"content_block":{"type":"tool_use","id":"`...)
		dst = append(append(dst, s.reader.ToolCallID(p.toolCall)...), `","name":"`...)
		dst = append(append(dst, s.reader.ToolCalls[p.toolCall].Name...), `","input":{}`...)
	}
	return append(dst, "}}\n\n"...)
}

// delta appends content_block_delta for the open block. text is the contents of a JSON string.
func (s *Stream) delta(dst, text []byte) []byte {
	dst = append(append(dst, s.lead...), text...)
	return append(dst, "\"}}\n\n"...)
}

// stop appends what ends the first piece, and takes it out of the queue.
func (s *Stream) stop(dst []byte) ([]byte, error) {
	p := &s.queue[0]
	switch p.kind {
	case kindThinking:
		dst = append(dst, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
		dst = strconv.AppendInt(dst, int64(s.index), 10)
		dst = append(dst, ",\"delta\":{\"type\":\"signature_delta\",\"signature\":\""+signature+"\"}}\n\n"...)
	case kindToolCall:
		var err error
		if dst, err = s.stopToolCall(dst, p.toolCall); err != nil {
			return dst, err
		}
	case kindText:
	}
	dst = append(dst, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
	dst = strconv.AppendInt(dst, int64(s.index), 10)
	dst = append(dst, "}\n\n"...)
	s.index++
	s.pop()
	return dst, nil
}

// stopToolCall checks that the tool call may end here, and appends the part of its input that was
// held back.
func (s *Stream) stopToolCall(dst []byte, i int) ([]byte, error) {
	c, from := &s.toolCalls[i], &s.reader.ToolCalls[i]
	if len(from.Name) == 0 {
		return dst, errNoName
	}
	c.closed = true
	if s.reader.Complete(i) {
		return dst, nil
	}
	switch value, is := s.input.read(from.Args); {
	case is == inputObject && len(value) == 0:
		dst = s.delta(dst, noInput)
	case is == inputCut && s.reader.Finish != answer.FinishLength:
		return dst, errArguments
	case is == inputOther && c.sent == 0: // what does not begin like an object
		dst = s.delta(dst, from.Args)
	}
	c.sent = len(from.Args)
	return dst, nil
}

// Finish appends what ends the answer well: the end of what is open, message_delta and
// message_stop. The error is translate.ErrNoFinish when the engine ended too early, or a *translate.BadAnswer
// when a tool call is malformed; nothing is appended then. A second call appends nothing.
func (s *Stream) Finish(dst []byte) ([]byte, error) {
	if err := s.reader.End(); err != nil {
		return dst, err
	}
	if s.phase == phaseClosed {
		return dst, nil
	}
	out, err := s.advance(dst)
	if err == nil && len(s.queue) > 0 {
		out, err = s.stop(out)
	}
	if err != nil {
		return dst, err
	}
	s.phase = phaseClosed
	out = append(out, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"...)
	out = s.appendStop(out)
	out = append(out, `},"usage":`...)
	out = appendUsage(out, s.reader.Usage())
	return append(out, "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...), nil
}

// Fail appends the error event, behind which nothing comes.
func (s *Stream) Fail(dst []byte, e *apierr.Error) []byte {
	if s.phase == phaseClosed {
		return dst
	}
	s.phase = phaseClosed
	dst = append(dst, "event: error\ndata: "...)
	dst = e.AppendMessages(dst, s.identity.RequestID)
	return append(dst, "\n\n"...)
}

// Keepalive appends a ping. It may stand wherever an event may, also before the first one.
func (s *Stream) Keepalive(dst []byte) []byte {
	return append(dst, "event: ping\ndata: {\"type\":\"ping\"}\n\n"...)
}

// Whole reports whether the engine has said why it stopped: Finish will succeed, unless a tool call
// is malformed.
func (s *Stream) Finished() bool { return s.reader.Finished() }

// Done reports whether nothing more is wanted from the engine.
func (s *Stream) Done() bool { return s.reader.Done() }

// Held is about how many bytes s keeps of the stream so far: the tool calls, and the text that
// waits behind an open one.
func (s *Stream) Held() int {
	n := s.reader.HeldToolCalls()
	if len(s.queue) > 1 {
		for i := range s.queue {
			n += cap(s.queue[i].text)
		}
	}
	return n
}

// Markup returns the word of a model's markup that the text begins with.
func (s *Stream) Markup() translate.Markup { return s.reader.Markup() }

// Usage returns the engine's counts so far; if it sent none, an estimate of one token a delta.
func (s *Stream) Usage() translate.Usage { return s.reader.Usage() }
