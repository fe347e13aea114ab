package resume

import (
	"penstock/proxy/access/limit"
	"penstock/proxy/request/endpoint"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/sse"
)

// Stream is an endpoint.Stream that stores the part of the answer that the client has received. It
// belongs to one call.
type Stream struct {
	endpoint.Stream
	reader answer.Reader
	begun  chat.Begun
	memory *limit.Memory
	held   int64
	sent   int // length of begun.Text when an engine was last asked to continue it
	// Number of tokens in begun as reported by the engines, capped at what the client can have
	// received.
	tokens int
	told   int  // highest token count reported by the current engine
	over   bool // whether storing has stopped
}

// Wrap returns a Stream that wraps codec. The bytes of the stored text are reserved from memory.
func Wrap(codec endpoint.Stream, memory *limit.Memory) *Stream {
	s := &Stream{Stream: codec, memory: memory}
	s.reader.Reset("", 0)
	return s
}

// Append implements endpoint.Stream.
func (s *Stream) Append(dst []byte, ev sse.Event) ([]byte, error) {
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
		s.keep(&s.begun.Reasoning, r.Reasoning)
		s.keep(&s.begun.Text, r.Content)
		s.count(len(r.Reasoning) + len(r.Content))
	}
	return out, nil
}

// count adds the tokens of an event that added the given number of bytes. It adds what the engine
// counted, but at most one token per byte. For an event without bytes, it adds at most one token.
// The total determines how many tokens another engine may still generate, and whether an
// interrupted answer has reached its limit.
func (s *Stream) count(bytes int) {
	if told := s.Usage().Completion; told > s.told {
		s.tokens += min(told-s.told, max(bytes, 1))
		s.told = told
	}
}

// Tokens returns the number of tokens in the stored text.
func (s *Stream) Tokens() int { return s.tokens }

const (
	leastKept = 4 << 10  // minimum size of a reservation
	pooled    = 64 << 10 // buffers above this size count as garbage when released
)

func (s *Stream) keep(to *[]byte, piece []byte) {
	if len(piece) == 0 || s.over {
		return
	}
	if n := len(*to) + len(piece); n > cap(*to) {
		size := max(2*cap(*to), n, leastKept)
		if !s.memory.Reserve(int64(size)) {
			s.Release()
			return
		}
		s.held += int64(size) // includes the old buffer, which is now garbage
		*to = append(make([]byte, 0, size), *to...)
	}
	*to = append(*to, piece...)
}

// Keeps reports whether another engine could still continue the answer.
func (s *Stream) Keeps() bool { return !s.over }

// Yields releases the stored text if more than half of the memory is in use, to make room for new
// requests.
func (s *Stream) Yields() {
	if s.memory.Used() > s.memory.Limit()/2 {
		s.Release()
	}
}

// Said reports whether the stored text includes new text that no engine has been asked to continue
// yet.
func (s *Stream) Said() bool { return len(s.begun.Text) > s.sent }

// Awaits reports whether the engine that continues the answer has not sent anything yet.
func (s *Stream) Awaits() bool { return s.sent > 0 && !s.Said() }

// Thought reports whether the answer contains reasoning, which the next engine must receive.
func (s *Stream) Thought() bool { return len(s.begun.Reasoning) > 0 }

// Begun returns the partial answer for the engine that will continue it, and records how much text
// that engine gets. The result is valid until the next event.
func (s *Stream) Begun() *chat.Begun {
	s.begun.Tokens = s.tokens
	s.sent = len(s.begun.Text)
	return &s.begun
}

// NextEngine implements endpoint.Stream. If the client has not received any part of the answer yet,
// it drops the stored text.
func (s *Stream) NextEngine() {
	if !s.Started() {
		s.begun = chat.Begun{Text: s.begun.Text[:0], Reasoning: s.begun.Reasoning[:0]}
		s.tokens = 0
	}
	s.Stream.NextEngine()
	s.told = s.Usage().Completion
	s.reader.Reset("", 0)
}

// Release releases the stored text and stops storing. It may be called again.
func (s *Stream) Release() {
	if s.held > pooled {
		s.memory.Discard(s.held)
	} else {
		s.memory.Release(s.held)
	}
	s.held, s.sent, s.over = 0, 0, true
	s.begun = chat.Begun{}
	s.reader = answer.Reader{}
}
