package jsonx

// Kind is the kind of a JSON value.
type Kind uint8

// The kinds of values. Invalid is the kind of an absent value.
const (
	Invalid Kind = iota
	Null
	False
	True
	Number
	String
	Array
	Object
)

// String returns JSON Schema's name for k, or "absent" for Invalid.
func (k Kind) String() string {
	return [...]string{"absent", "null", "boolean", "boolean", "number", "string", "array", "object"}[k]
}

const (
	flagEscaped       = 1 << iota // string: contains a backslash
	flagNonASCII                  // string: contains bytes above 0x7f
	flagLoneSurrogate             // string: contains an escape for half a surrogate pair
	flagFraction                  // number: has a fraction or an exponent
	flagUnrecorded                // container: has children that are not on the tape
)

// tapeNode is one entry of the tape. The entries are in document order, and a container precedes
// its children. A member is a name (a String node) followed by a value. next is the index of the
// first node after the subtree.
type tapeNode struct {
	start, end uint32
	next       int32
	kind       Kind
	flags      uint8
}

// set assigns each field separately. A composite literal would be built in memory and then copied,
// and the copy would stall on the preceding stores. This would double the time of Parse.
func (n *tapeNode) set(start, end, next int, kind Kind, flags uint8) {
	n.start, n.end, n.next = uint32(start), uint32(end), int32(next)
	n.kind, n.flags = kind, flags
}
