package attempt

import (
	"errors"
	"sync/atomic"

	"penstock/proxy/access/limit"
)

const (
	// free is the maximum number of reply bytes that a call may hold without a reservation.
	free = 64 << 10
	// leastState is the minimum reservation for a stream's state that has grown large.
	leastState = 64 << 10
	// leastBuffer is the minimum size to which a reply buffer grows.
	leastBuffer = 4 << 10
)

// Part is a kind of memory that a call holds.
type Part uint8

// The kinds of memory that a reply takes.
const (
	PartBody  Part = iota // the engine's whole reply, or its error
	PartEvent             // the reader's buffer for a stream's events
	PartState             // what is assembled from a stream's events
	PartOut               // the client's next bytes
	parts
)

// Memory is the memory that is reserved for engines' replies to one call. Without a budget it must
// not grow beyond the free amount.
type Memory struct {
	Budget   *limit.Memory
	Key      *atomic.Int64 // bytes reserved for all replies of the call's key; nil: not counted
	parts    [parts]int64
	held     int64 // the sum of parts
	reserved int64
}

// errNoMemory ends an attempt if no memory is left for its reply. The engine is not blamed.
var errNoMemory = errors.New("no memory for the engine's reply")

// Hold sets the size of a part to n bytes. If the part grows and the budget has no room, Hold fails
// and changes nothing. If the part shrinks, the difference counts as garbage.
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

// keyShare limits the replies of one key to 1/2 of the budget, so that a key whose clients read
// slowly does not lock out others. A single reply may hold more.
const keyShare = 2

// reserve reserves n more bytes. If there is no room, it reserves none and returns false.
func (m *Memory) reserve(n int64) bool {
	sum := m.count(n)
	if sum > m.reserved+n && sum > m.Budget.Limit()/keyShare || !m.Budget.Reserve(n) {
		m.count(-n)
		return false
	}
	return true
}

// count adds n bytes to the total held by the key's replies and returns the new total. It returns 0
// without a key.
func (m *Memory) count(n int64) (sum int64) {
	if m.Key == nil {
		return 0
	}
	return m.Key.Add(n)
}

// replace is Hold for a new buffer of n bytes that replaces the part's old one. Both buffers exist
// while the old one is copied; after that the old one is garbage.
func (m *Memory) replace(part Part, n int) error {
	old := m.parts[part]
	if err := m.Hold(part, int(old)+n); err != nil {
		return err
	}
	return m.Hold(part, n)
}

// HoldOut is Hold for a buffer of n bytes for the client. It does not count buffers of pooled
// size.
func (m *Memory) HoldOut(n int) error {
	if n <= MaxPooled {
		return nil
	}
	return m.Hold(PartOut, n)
}

// holdState is Hold for what a stream has assembled so far. It reserves half as much again, for two
// reasons. A growing buffer is larger than its content, and a long text then needs a new
// reservation only occasionally instead of at each event.
func (m *Memory) holdState(n int) error {
	if n < leastState/2 || int64(n) <= m.parts[PartState] {
		return nil
	}
	return m.Hold(PartState, max(n+n/2, leastState))
}

// grow returns buf, the reply's body, with room for more bytes. most is the number of bytes that
// the whole body may need. If it exceeds the free amount, grow only doubles the buffer, regardless
// of the announced length. It reserves the memory first.
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

// Free releases a part.
func (m *Memory) Free(part Part) { _ = m.Hold(part, 0) }

// Release frees all parts. Further calls do nothing.
func (m *Memory) Release() {
	for p := range parts {
		m.Free(p)
	}
}
