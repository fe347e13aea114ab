package resume

import (
	"penstock/proxy/access/limit"
	"penstock/proxy/request/endpoint"
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/sse"
)

// PartialAnswerRecorder is an endpoint.Stream that stores the part of the answer that the client
// has received. It belongs to one call.
type PartialAnswerRecorder struct {
	endpoint.Stream
	reader        answer.Reader
	partial       chat.PartialAnswer
	memory        *limit.MemoryBudget
	reservedBytes int64
	sentTextLen   int // length of partial.Text when an engine was last asked to continue it
	// Number of tokens in partial as reported by the engines, capped at the number that the client
	// can have received.
	engineTokens int
	// Highest token count that the current engine has reported, plus the tokens counted since that
	// report.
	reportedTokens int
	stopped        bool // whether the PartialAnswerRecorder has stopped storing
}

// NewPartialAnswerRecorder returns a PartialAnswerRecorder that wraps codec. The bytes of the
// stored text are reserved from memory.
func NewPartialAnswerRecorder(codec endpoint.Stream, memory *limit.MemoryBudget) *PartialAnswerRecorder {
	s := &PartialAnswerRecorder{Stream: codec, memory: memory}
	s.reader.Reset("", 0)
	return s
}

// Translator implements endpoint.Stream. The PartialAnswerRecorder must see every event.
func (s *PartialAnswerRecorder) Translator() translate.Stream { return s }

// Append implements endpoint.Stream.
func (s *PartialAnswerRecorder) Append(dst []byte, ev sse.Event) ([]byte, error) {
	out, err := s.Stream.Append(dst, ev)
	if err != nil || s.stopped {
		return out, err
	}
	r := &s.reader
	switch _, unread := r.Read(ev); {
	case unread != nil || len(r.ToolCalls.List) > 0 || len(r.Refusal) > 0:
		s.Release()
	case len(r.Reasoning) > 0 && len(s.partial.Text) > 0: // engines do not reason after answering
		s.Release()
	default:
		s.storePiece(&s.partial.Reasoning, r.Reasoning)
		s.storePiece(&s.partial.Text, r.Content)
		s.countTokens(len(r.Reasoning) + len(r.Content))
	}
	return out, nil
}

// countTokens counts the tokens of an event that added the given number of bytes to the answer. It
// uses the engine's count, but at most one token per byte. For an event without bytes, it counts at
// most one token. While the engine sends no counts, each event with bytes counts as one token. The
// total determines how many tokens another engine may still generate, and whether an interrupted
// answer has reached its limit.
func (s *PartialAnswerRecorder) countTokens(bytes int) {
	u := s.Usage()
	if u.Estimated || u.PartlyEstimated { // an estimate that is too high would end the answer early
		n := min(bytes, 1)
		s.engineTokens, s.reportedTokens = s.engineTokens+n, s.reportedTokens+n
		return
	}
	if n := u.Completion; n > s.reportedTokens {
		s.engineTokens += min(n-s.reportedTokens, max(bytes, 1))
		s.reportedTokens = n
	}
}

const (
	minReservation = 4 << 10  // minimum size of a reservation
	maxPooledBytes = 64 << 10 // a larger buffer counts as garbage when it is released
)

func (s *PartialAnswerRecorder) storePiece(to *[]byte, piece []byte) {
	if len(piece) == 0 || s.stopped {
		return
	}
	if n := len(*to) + len(piece); n > cap(*to) {
		size := max(2*cap(*to), n, minReservation)
		if !s.memory.Reserve(int64(size)) {
			s.Release()
			return
		}
		s.reservedBytes += int64(size) // includes the old buffer, which is now garbage
		*to = append(make([]byte, 0, size), *to...)
	}
	*to = append(*to, piece...)
}

// CanContinue reports whether another engine could still continue the answer. It returns false for
// a nil PartialAnswerRecorder. If more than half of the memory is in use, CanContinue releases the
// stored text to make space for new requests.
func (s *PartialAnswerRecorder) CanContinue() bool {
	if s == nil || s.stopped {
		return false
	}
	if s.memory.UsedBytes() > s.memory.Limit()/2 {
		s.Release()
	}
	return !s.stopped
}

// HasNewText reports whether the stored text includes text that no engine has been asked to
// continue yet.
func (s *PartialAnswerRecorder) HasNewText() bool { return len(s.partial.Text) > s.sentTextLen }

// IsNextEngineSilent reports whether an engine was asked to continue the answer and has not sent
// anything yet.
func (s *PartialAnswerRecorder) IsNextEngineSilent() bool {
	return s != nil && s.sentTextLen > 0 && !s.HasNewText()
}

// HasReasoning reports whether the answer contains reasoning, which the next engine must receive.
func (s *PartialAnswerRecorder) HasReasoning() bool { return len(s.partial.Reasoning) > 0 }

// HasReachedTokenLimit reports whether the client has received as many tokens as the request
// allows. In that case, the lost engine only had to end the stream.
func (s *PartialAnswerRecorder) HasReachedTokenLimit(limit *chat.TokenLimit) bool {
	return limit.TokensLeft(s.engineTokens) == 0
}

// lengthFinishEvent is the event that ends an answer that has reached its token limit.
var lengthFinishEvent = sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`)}

// FinishAtTokenLimit ends the answer if its engine was lost after the last token.
func (s *PartialAnswerRecorder) FinishAtTokenLimit(dst []byte) ([]byte, error) {
	out, err := s.Append(dst, lengthFinishEvent)
	if err != nil {
		return out, err
	}
	return s.Finish(out)
}

// AddToRequest adds the stored answer to r, so that the next engine continues it. The answer must
// not change until the request to that engine is written.
func (s *PartialAnswerRecorder) AddToRequest(r *chat.Request) {
	s.partial.Tokens = s.engineTokens
	s.sentTextLen = len(s.partial.Text)
	s.partial.AttachTo(r)
}

// PrepareForNextEngine implements endpoint.Stream. If the client has not received any part of the
// answer yet, PrepareForNextEngine drops the stored text.
func (s *PartialAnswerRecorder) PrepareForNextEngine() {
	if !s.HasStarted() {
		s.partial = chat.PartialAnswer{Text: s.partial.Text[:0], Reasoning: s.partial.Reasoning[:0]}
		s.engineTokens = 0
	}
	s.Stream.PrepareForNextEngine()
	s.reportedTokens = s.Usage().Completion
	s.reader.Reset("", 0)
}

// Release releases the stored text and stops storing. It may be called more than once, and on a nil
// PartialAnswerRecorder.
func (s *PartialAnswerRecorder) Release() {
	if s == nil {
		return
	}
	if s.reservedBytes > maxPooledBytes {
		s.memory.ReleaseGarbage(s.reservedBytes)
	} else {
		s.memory.Release(s.reservedBytes)
	}
	s.reservedBytes, s.sentTextLen, s.stopped = 0, 0, true
	s.partial = chat.PartialAnswer{}
	s.reader = answer.Reader{}
}
