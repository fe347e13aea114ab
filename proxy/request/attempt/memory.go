package attempt

import (
	"errors"
	"sync/atomic"

	"penstock/proxy/access/limit"
)

const (
	// unreservedBytes is how many response bytes a call may use without a reservation.
	// minStateBytes is the minimum reservation for AnswerStateMemory, and minBufferBytes is the
	// minimum size of a buffer that grows.
	unreservedBytes = 64 << 10
	minStateBytes   = 64 << 10
	minBufferBytes  = 4 << 10
)

// MemoryPart is a kind of memory that a call uses.
type MemoryPart uint8

// The kinds of memory that a reply uses.
const (
	ResponseBodyMemory MemoryPart = iota // an engine's complete response or its error body
	EventReaderMemory                    // the event reader's buffer
	AnswerStateMemory                    // the answer assembled from events
	ClientOutputMemory                   // bytes for the client
	memoryPartCount
)

// ReplyMemory counts the memory that the engine responses of one call use. If Budget is nil, the
// total must not exceed unreservedBytes.
type ReplyMemory struct {
	Budget *limit.MemoryBudget
	// Bytes reserved by all responses to calls with the same key; nil if they are not counted.
	Key       *atomic.Int64
	partBytes [memoryPartCount]int64
	held      int64
	reserved  int64
}

// errNoMemory is the error of a response for which the budget has no memory left. The error does
// not count against the upstream's health.
var errNoMemory = errors.New("no memory for the engine's reply")

// SetPartSize sets the size of a part to n bytes. If the part grows and the budget has too little
// memory left, SetPartSize returns an error and changes nothing. If the part shrinks, the
// difference counts as garbage.
func (m *ReplyMemory) SetPartSize(part MemoryPart, n int) error {
	held := m.held + int64(n) - m.partBytes[part]
	if held > unreservedBytes || m.reserved > 0 {
		want := max(held-unreservedBytes, 0)
		switch more := want - m.reserved; {
		case more > 0 && !m.reserve(more):
			return errNoMemory
		case more < 0:
			m.Budget.ReleaseGarbage(-more)
			m.addKeyBytes(more)
		}
		m.reserved = want
	}
	m.held, m.partBytes[part] = held, int64(n)
	return nil
}

// keyShareDivisor limits the responses of one key to 1/2 of the budget, so that slow clients that
// share a key do not block other keys. A single response may exceed this limit.
const keyShareDivisor = 2

func (m *ReplyMemory) reserve(n int64) bool {
	sum := m.addKeyBytes(n)
	if sum > m.reserved+n && sum > m.Budget.Limit()/keyShareDivisor || !m.Budget.Reserve(n) {
		m.addKeyBytes(-n)
		return false
	}
	return true
}

// addKeyBytes adds n to the bytes reserved for the key and returns the sum. If Key is nil, it
// returns 0.
func (m *ReplyMemory) addKeyBytes(n int64) (sum int64) {
	if m.Key == nil {
		return 0
	}
	return m.Key.Add(n)
}

// replaceBuffer is SetPartSize for a part whose buffer is replaced by a buffer of n bytes. Both
// buffers exist until the content of the old one has been copied. After that, the old buffer is
// garbage.
func (m *ReplyMemory) replaceBuffer(part MemoryPart, n int) error {
	old := m.partBytes[part]
	if err := m.SetPartSize(part, int(old)+n); err != nil {
		return err
	}
	return m.SetPartSize(part, n)
}

// SetOutSize is SetPartSize for ClientOutputMemory, the buffer of n bytes for the client. Buffers
// of at most MaxPooled bytes are not counted.
func (m *ReplyMemory) SetOutSize(n int) error {
	if n <= MaxPooled {
		return nil
	}
	return m.SetPartSize(ClientOutputMemory, n)
}

// setStateSize is SetPartSize for AnswerStateMemory with a size of n bytes. It reserves 50 % more,
// because a growing buffer is larger than its content. The surplus also avoids a new reservation
// for each event of a long text.
func (m *ReplyMemory) setStateSize(n int) error {
	if n < minStateBytes/2 || int64(n) <= m.partBytes[AnswerStateMemory] {
		return nil
	}
	return m.SetPartSize(AnswerStateMemory, max(n+n/2, minStateBytes))
}

// grow returns a copy of buf that has a larger capacity. It reserves the memory first. most is the
// announced or the maximum size of the body. If most exceeds unreservedBytes, grow at most doubles
// the buffer, because the announced bytes may never arrive.
func (m *ReplyMemory) grow(buf []byte, most int) ([]byte, error) {
	size := max(most, len(buf)+1)
	if size > unreservedBytes {
		size = min(size, max(2*cap(buf), minBufferBytes))
	}
	if err := m.replaceBuffer(ResponseBodyMemory, size); err != nil {
		return buf, err
	}
	return append(make([]byte, 0, size), buf...), nil
}

// FreePart releases the memory of a part.
func (m *ReplyMemory) FreePart(part MemoryPart) {
	if m.partBytes[part] > 0 {
		_ = m.SetPartSize(part, 0)
	}
}

// Release releases the memory of all parts. It may be called more than once.
func (m *ReplyMemory) Release() { m.freeParts(memoryPartCount) }

// freeParts releases the memory of the parts before end.
func (m *ReplyMemory) freeParts(end MemoryPart) {
	if m.held == 0 { // the usual case
		return
	}
	for p := range end {
		m.FreePart(p)
	}
}
