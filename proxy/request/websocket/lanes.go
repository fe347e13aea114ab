package websocket

import (
	"bytes"
	"slices"
	"sync/atomic"

	"penstock/proxy/access/limit"
)

// memory counts the body memory used by the conversations of all connections. They may use half of
// it, so that data that is kept between turns does not keep calls out. If there are several keys,
// the conversations of one key may use a quarter of it. A single conversation may use more than
// that quarter.
type memory struct {
	bodies *limit.Memory
	held   atomic.Int64
}

// reserve reserves n bytes. It also counts them in ofKey, unless ofKey is nil.
func (m *memory) reserve(n int64, ofKey *atomic.Int64) bool {
	if ofKey != nil {
		if sum := ofKey.Add(n); sum > n && sum > m.bodies.Limit()/4 {
			ofKey.Add(-n)
			return false
		}
	}
	if m.held.Add(n) > m.bodies.Limit()/2 || !m.bodies.Reserve(n) {
		m.held.Add(-n)
		if ofKey != nil {
			ofKey.Add(-n)
		}
		return false
	}
	return true
}

func (m *memory) discard(n int64, ofKey *atomic.Int64) {
	if ofKey != nil {
		ofKey.Add(-n)
	}
	m.held.Add(-n)
	m.bodies.Discard(n)
}

// maxLanes is the protocol's limit on the named lanes of a connection.
const maxLanes = 32

// lanes holds the conversations of a connection. Each lane keeps the conversation up to its last
// response, as the input of a request that continues it. The least recently used lane loses its
// conversation first if memory runs out, or if all conversations together exceed the maximum length
// of a request.
type lanes struct {
	memory *memory
	ofKey  *atomic.Int64 // bytes of the key's conversations, on all connections; nil: not counted
	limit  func() int64
	list   []*lane // in order of use, the most recently used one last
	named  int
}

type lane struct {
	name  string // empty: the default lane
	last  string // the id of the last response; empty: there is none to continue
	items []byte // elements of input, with commas between them
}

// at returns the lane with the given name, or nil if there are too many lanes.
func (l *lanes) at(name string) *lane {
	i := slices.IndexFunc(l.list, func(x *lane) bool { return x.name == name })
	switch {
	case i >= 0:
		x := l.list[i]
		l.list = append(slices.Delete(l.list, i, i+1), x)
		return x
	case name != "" && l.named == maxLanes:
		return nil
	case name != "":
		l.named++
	}
	x := &lane{name: name}
	l.list = append(l.list, x)
	return x
}

// holding returns the lane whose last response has the given id, or nil.
func (l *lanes) holding(id string) *lane {
	for _, x := range l.list {
		if x.last == id && id != "" {
			return x
		}
	}
	return nil
}

// keep makes a response the last one of lane x. It joins the earlier conversation, the pieces of
// the request's input, and the output. The lane from holds the earlier conversation; if from is
// nil, there is none.
func (l *lanes) keep(x, from *lane, id string, input [][]byte, output []byte) {
	var parts [][]byte
	if from != nil && len(from.items) > 0 {
		parts = append(parts, from.items)
	}
	if len(input) > 0 && len(parts) > 0 {
		parts = append(parts, comma)
	}
	parts = append(parts, input...)
	if len(output) > 0 && len(parts) > 0 {
		parts = append(parts, comma)
	}
	parts = append(parts, output)
	size := int64(0)
	for _, p := range parts {
		size += int64(len(p))
	}
	if !l.makeRoom(x, from, size) {
		l.drop(x)
		return
	}
	items := slices.Concat(parts...)
	l.drop(x)
	x.last, x.items = id, items
}

// makeRoom reserves n bytes for the conversation of x, which continues the conversation of from. If
// necessary, other lanes lose their conversations.
func (l *lanes) makeRoom(x, from *lane, n int64) bool {
	for {
		held := n
		for _, other := range l.list {
			if other != x {
				held += int64(len(other.items))
			}
		}
		if held <= l.limit() && l.memory.reserve(n, l.ofKey) {
			return true
		}
		i := slices.IndexFunc(l.list, func(y *lane) bool { return y != x && y != from && len(y.items) > 0 })
		if i < 0 {
			return false
		}
		l.drop(l.list[i])
	}
}

// drop removes the conversation of a lane.
func (l *lanes) drop(x *lane) {
	l.memory.discard(int64(len(x.items)), l.ofKey)
	x.last, x.items = "", nil
}

// release removes all conversations.
func (l *lanes) release() {
	for _, x := range l.list {
		l.drop(x)
	}
	l.list = nil
}

// validLane reports whether name may be a lane's name: 1 to 256 letters, digits, underscores,
// hyphens and periods.
func validLane(name string) bool {
	const others = "_-."
	for _, c := range []byte(name) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && bytes.IndexByte([]byte(others), c) < 0 {
			return false
		}
	}
	return len(name) > 0 && len(name) <= 256
}
