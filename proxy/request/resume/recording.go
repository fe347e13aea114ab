package resume

import (
	"penstock/proxy/access/limit"
	"penstock/proxy/request/endpoint"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/sse"
)

// Recording is an endpoint.Stream that stores the part of the answer that the client has received.
// It belongs to one call.
type Recording struct {
	endpoint.Stream
	reader answer.Reader
	begun  chat.Begun
	memory *limit.Memory
	held   int64
	sent   int // length of begun.Text when an engine was last asked to continue it
	// Number of tokens in begun as reported by the engines, capped at what the client can have
	// received.
	tokens   int
	reported int  // highest token count reported by the current engine
	over     bool // whether storing has stopped
}

// Record returns a Recording that wraps codec. The bytes of the stored text are reserved from
// memory.
func Record(codec endpoint.Stream, memory *limit.Memory) *Recording {
	s := &Recording{Stream: codec, memory: memory}
	s.reader.Reset("", 0)
	return s
}

// Append implements endpoint.Stream.
func (s *Recording) Append(dst []byte, ev sse.Event) ([]byte, error) {
	out, err := s.Stream.Append(dst, ev)
	if err != nil || s.over {
		return out, err
	}
	r := &s.reader
	switch _, unread := r.Read(ev); {
	case unread != nil || len(r.ToolCalls.List) > 0 || len(r.Refusal) > 0:
		s.Release()
	case len(r.Reasoning) > 0 && len(s.begun.Text) > 0: // engines do not reason after answering
		s.Release()
	default:
		s.store(&s.begun.Reasoning, r.Reasoning)
		s.store(&s.begun.Text, r.Content)
		s.count(len(r.Reasoning) + len(r.Content))
	}
	return out, nil
}

// count adds the tokens of an event that added the given number of bytes. It adds what the engine
// counted, but at most one token per byte. For an event without bytes, it adds at most one token.
// The total determines how many tokens another engine may still generate, and whether an
// interrupted answer has reached its limit.
func (s *Recording) count(bytes int) {
	if n := s.Usage().Completion; n > s.reported {
		s.tokens += min(n-s.reported, max(bytes, 1))
		s.reported = n
	}
}

const (
	leastStored = 4 << 10  // minimum size of a reservation
	pooled      = 64 << 10 // buffers above this size count as garbage when released
)

func (s *Recording) store(to *[]byte, piece []byte) {
	if len(piece) == 0 || s.over {
		return
	}
	if n := len(*to) + len(piece); n > cap(*to) {
		size := max(2*cap(*to), n, leastStored)
		if !s.memory.Reserve(int64(size)) {
			s.Release()
			return
		}
		s.held += int64(size) // includes the old buffer, which is now garbage
		*to = append(make([]byte, 0, size), *to...)
	}
	*to = append(*to, piece...)
}

// Usable reports whether another engine could still continue the answer. A nil Recording is not
// usable. If more than half of the memory is in use, Usable releases the stored text to make room
// for new requests.
func (s *Recording) Usable() bool {
	if s == nil || s.over {
		return false
	}
	if s.memory.Used() > s.memory.Limit()/2 {
		s.Release()
	}
	return !s.over
}

// HasNewText reports whether the stored text includes text that no engine has been asked to
// continue yet.
func (s *Recording) HasNewText() bool { return len(s.begun.Text) > s.sent }

// Continuing reports whether an engine was asked to continue the answer and has not sent anything
// yet.
func (s *Recording) Continuing() bool { return s != nil && s.sent > 0 && !s.HasNewText() }

// HasReasoning reports whether the answer contains reasoning, which the next engine must receive.
func (s *Recording) HasReasoning() bool { return len(s.begun.Reasoning) > 0 }

// Full reports whether the client has received as many tokens as the request allows. In that case,
// a lost engine only had to end the stream.
func (s *Recording) Full(limit *chat.TokenLimit) bool { return limit.Left(s.tokens) == 0 }

// fullLength is the event that ends an answer that has reached its token limit.
var fullLength = sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`)}

// FinishFull ends the answer of an engine that was lost after the last token.
func (s *Recording) FinishFull(dst []byte) ([]byte, error) {
	out, err := s.Append(dst, fullLength)
	if err != nil {
		return out, err
	}
	return s.Finish(out)
}

// Continue makes the next engine of r continue the stored answer. The answer must not change until
// the request to that engine is written.
func (s *Recording) Continue(r *chat.Request) {
	s.begun.Tokens = s.tokens
	s.sent = len(s.begun.Text)
	s.begun.GoOn(r)
}

// NextEngine implements endpoint.Stream. If the client has not received any part of the answer yet,
// it drops the stored text.
func (s *Recording) NextEngine() {
	if !s.Started() {
		s.begun = chat.Begun{Text: s.begun.Text[:0], Reasoning: s.begun.Reasoning[:0]}
		s.tokens = 0
	}
	s.Stream.NextEngine()
	s.reported = s.Usage().Completion
	s.reader.Reset("", 0)
}

// Release releases the stored text and stops storing. It may be called again, and on a nil
// Recording.
func (s *Recording) Release() {
	if s == nil {
		return
	}
	if s.held > pooled {
		s.memory.Discard(s.held)
	} else {
		s.memory.Release(s.held)
	}
	s.held, s.sent, s.over = 0, 0, true
	s.begun = chat.Begun{}
	s.reader = answer.Reader{}
}
