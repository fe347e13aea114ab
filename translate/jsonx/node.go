package jsonx

// Kind is the kind of a JSON value.
type Kind uint8

// The kinds. Invalid is the kind of a value that is absent.
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

// String returns JSON Schema's name for k ("null", "boolean", "number" and so on), or "absent" for
// Invalid.
func (k Kind) String() string {
	return [...]string{"absent", "null", "boolean", "boolean", "number", "string", "array", "object"}[k]
}

const (
	flagEscaped    = 1 << iota // string: holds a backslash
	flagWide                   // string: holds bytes above 0x7f
	flagLone                   // string: has an escape for half a surrogate pair
	flagFraction               // number: has a fraction or an exponent
	flagUnrecorded             // container: has children that are not on the tape
)

// node is one entry of the tape. The tape is in document order: a container's children follow the
// container, and a member is a name (a String node) followed by a value. next is the index after
// the whole subtree.
type node struct {
	start, end uint32
	next       int32
	kind       Kind
	flags      uint8
}

// set writes the members one by one. A literal would be built elsewhere and copied. The copy stalls
// on the preceding stores, which doubled the time of Parse.
func (n *node) set(start, end, next int, kind Kind, flags uint8) {
	n.start, n.end, n.next = uint32(start), uint32(end), int32(next)
	n.kind, n.flags = kind, flags
}
