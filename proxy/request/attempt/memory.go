package attempt

import (
	"errors"
	"sync/atomic"

	"penstock/proxy/access/limit"
)

const (
	// free is how many response bytes a call may use without a reservation. leastState is the
	// minimum reservation for PartState, and leastBuffer is the minimum size of a buffer that
	// grows.
	free        = 64 << 10
	leastState  = 64 << 10
	leastBuffer = 4 << 10
)

// Part is a kind of memory that a call uses.
type Part uint8

// The kinds of memory that a reply uses.
const (
	PartBody  Part = iota // an engine's complete response or its error body
	PartEvent             // the event reader's buffer
	PartState             // the answer assembled from events
	PartOut               // bytes for the client
	parts
)

// Memory counts the memory that the engine responses of one call use. If Budget is nil, the total
// must not exceed the constant free.
type Memory struct {
	Budget *limit.Memory
	// Bytes reserved by all responses of the key; nil if they are not counted.
	Key      *atomic.Int64
	parts    [parts]int64
	held     int64
	reserved int64
}

// errNoMemory is the error of a response for which the budget has no memory left. The error does
// not count against the upstream's health.
var errNoMemory = errors.New("no memory for the engine's reply")

// Hold sets the size of a part to n bytes. If the part grows and the budget has too little memory
// left, Hold returns an error and changes nothing. If the part shrinks, the difference counts as
// garbage.
func (m *Memory) Hold(part Part, n int) error {
	held := m.held + int64(n) - m.parts[part]
	if held > free || m.reserved > 0 {
		want := max(held-free, 0)
		switch more := want - m.reserved; {
		case more > 0 && !m.reserve(more):
			return errNoMemory
		case more < 0:
			m.Budget.Discard(-more)
			m.count(more)
		}
		m.reserved = want
	}
	m.held, m.parts[part] = held, int64(n)
	return nil
}

// keyShare limits the responses of one key to 1/2 of the budget, so that slow clients with one key
// do not block other keys. A single response may exceed this limit.
const keyShare = 2

func (m *Memory) reserve(n int64) bool {
	sum := m.count(n)
	if sum > m.reserved+n && sum > m.Budget.Limit()/keyShare || !m.Budget.Reserve(n) {
		m.count(-n)
		return false
	}
	return true
}

// count adds n to the bytes that the key has reserved and returns the sum. If Key is nil, it
// returns 0.
func (m *Memory) count(n int64) (sum int64) {
	if m.Key == nil {
		return 0
	}
	return m.Key.Add(n)
}

// replace is Hold for a part whose buffer is replaced by a buffer of n bytes. Both buffers exist
// until the content of the old one has been copied. After that, the old buffer is garbage.
func (m *Memory) replace(part Part, n int) error {
	old := m.parts[part]
	if err := m.Hold(part, int(old)+n); err != nil {
		return err
	}
	return m.Hold(part, n)
}

// HoldOut is Hold for PartOut, the buffer of n bytes for the client. Buffers of pooled size are not
// counted.
func (m *Memory) HoldOut(n int) error {
	if n <= MaxPooled {
		return nil
	}
	return m.Hold(PartOut, n)
}

// holdState is Hold for PartState with a size of n bytes. It reserves 50 % more, because a growing
// buffer is larger than its content. The surplus also avoids a new reservation for each event of a
// long text.
func (m *Memory) holdState(n int) error {
	if n < leastState/2 || int64(n) <= m.parts[PartState] {
		return nil
	}
	return m.Hold(PartState, max(n+n/2, leastState))
}

// grow returns a copy of buf that has a larger capacity. It reserves the memory first. most is the
// announced or the maximum size of the body. If most exceeds free, grow only doubles the buffer,
// because the announced bytes may never arrive.
func (m *Memory) grow(buf []byte, most int) ([]byte, error) {
	size := max(most, len(buf)+1)
	if size > free {
		size = min(size, max(2*cap(buf), leastBuffer))
	}
	if err := m.replace(PartBody, size); err != nil {
		return buf, err
	}
	return append(make([]byte, 0, size), buf...), nil
}

// Free releases the memory of a part.
func (m *Memory) Free(part Part) { _ = m.Hold(part, 0) }

// Release releases the memory of all parts. It may be called again.
func (m *Memory) Release() {
	for p := range parts {
		m.Free(p)
	}
}
