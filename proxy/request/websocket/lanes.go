package websocket

import (
	"bytes"
	"slices"
	"sync/atomic"

	"penstock/proxy/access/limit"
)

// conversationMemory limits the conversations on all connections to half of the memory for bodies,
// so that stored conversations do not block calls. If there is more than one key, the conversations
// of one key may use a quarter of the memory for bodies. A single conversation may exceed this
// quarter.
type conversationMemory struct {
	bodyMemory *limit.MemoryBudget
	reserved   atomic.Int64
}

// reserve reserves n bytes and returns true. If too little memory is left, it returns false. ofKey
// counts the bytes in the key's conversations, and may be nil.
func (m *conversationMemory) reserve(n int64, ofKey *atomic.Int64) bool {
	if ofKey != nil {
		if sum := ofKey.Add(n); sum > n && sum > m.bodyMemory.Limit()/4 {
			ofKey.Add(-n)
			return false
		}
	}
	if m.reserved.Add(n) > m.bodyMemory.Limit()/2 || !m.bodyMemory.Reserve(n) {
		m.reserved.Add(-n)
		if ofKey != nil {
			ofKey.Add(-n)
		}
		return false
	}
	return true
}

func (m *conversationMemory) discard(n int64, ofKey *atomic.Int64) {
	if ofKey != nil {
		ofKey.Add(-n)
	}
	m.reserved.Add(-n)
	m.bodyMemory.ReleaseGarbage(n)
}

// maxLanes is the protocol's maximum number of named lanes.
const maxLanes = 32

// conversationLanes stores the conversations on a connection. Each lane stores the conversation up
// to its last response, in the form of the input for a request that continues the conversation. If
// memory is short, or if all conversations together exceed the maximum size of a request, the
// conversation of the least recently used lane is dropped first.
type conversationLanes struct {
	memory     *conversationMemory
	keyBytes   *atomic.Int64 // bytes in all conversations of the key; nil if they are not counted
	limit      func() int64
	list       []*conversationLane // ordered by use; the most recently used lane is last
	namedCount int
}

type conversationLane struct {
	name           string // empty for the default lane
	lastResponseID string // id of the last response; empty if there is none
	inputItems     []byte // elements of input, separated by commas
}

// getOrCreate returns the lane with the given name, and creates the lane if it does not exist. If
// there are too many lanes, it returns nil.
func (l *conversationLanes) getOrCreate(name string) *conversationLane {
	i := slices.IndexFunc(l.list, func(x *conversationLane) bool { return x.name == name })
	switch {
	case i >= 0:
		x := l.list[i]
		l.list = append(slices.Delete(l.list, i, i+1), x)
		return x
	case name != "" && l.namedCount == maxLanes:
		return nil
	case name != "":
		l.namedCount++
	}
	x := &conversationLane{name: name}
	l.list = append(l.list, x)
	return x
}

// findByResponse returns the lane whose last response has the given id, or nil.
func (l *conversationLanes) findByResponse(id string) *conversationLane {
	for _, x := range l.list {
		if x.lastResponseID == id && id != "" {
			return x
		}
	}
	return nil
}

// storeResponse stores a response as the last response of lane x. The lane then contains the
// conversation of from (unless from is nil), followed by the input of the request and the output.
func (l *conversationLanes) storeResponse(x, from *conversationLane, id string, input [][]byte, output []byte) {
	var parts [][]byte
	if from != nil && len(from.inputItems) > 0 {
		parts = append(parts, from.inputItems)
	}
	if len(input) > 0 && len(parts) > 0 {
		parts = append(parts, commaSeparator)
	}
	parts = append(parts, input...)
	if len(output) > 0 && len(parts) > 0 {
		parts = append(parts, commaSeparator)
	}
	parts = append(parts, output)
	size := int64(0)
	for _, p := range parts {
		size += int64(len(p))
	}
	if !l.makeRoom(x, from, size) {
		l.dropConversation(x)
		return
	}
	items := slices.Concat(parts...)
	l.dropConversation(x)
	x.lastResponseID, x.inputItems = id, items
}

// makeRoom reserves n bytes for lane x. If necessary, it drops conversations in other lanes, but
// not the conversation in from.
func (l *conversationLanes) makeRoom(x, from *conversationLane, n int64) bool {
	for {
		held := n
		for _, other := range l.list {
			if other != x {
				held += int64(len(other.inputItems))
			}
		}
		if held <= l.limit() && l.memory.reserve(n, l.keyBytes) {
			return true
		}
		i := slices.IndexFunc(l.list, func(y *conversationLane) bool { return y != x && y != from && len(y.inputItems) > 0 })
		if i < 0 {
			return false
		}
		l.dropConversation(l.list[i])
	}
}

func (l *conversationLanes) dropConversation(x *conversationLane) {
	l.memory.discard(int64(len(x.inputItems)), l.keyBytes)
	x.lastResponseID, x.inputItems = "", nil
}

func (l *conversationLanes) release() {
	for _, x := range l.list {
		l.dropConversation(x)
	}
	l.list = nil
}

func validLane(name string) bool {
	const others = "_-."
	for _, c := range []byte(name) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && bytes.IndexByte([]byte(others), c) < 0 {
			return false
		}
	}
	return len(name) > 0 && len(name) <= 256
}
