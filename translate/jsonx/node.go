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

// String returns the name of k in JSON Schema: "null", "boolean", "number", and so on; "absent" for
// Invalid.
func (k Kind) String() string {
	return [...]string{"absent", "null", "boolean", "boolean", "number", "string", "array", "object"}[k]
}

const (
	flagEscaped    = 1 << iota // string: holds a backslash
	flagWide                   // string: holds bytes above 0x7f
	flagLone                   // string: has an escape of half a surrogate pair
	flagFraction               // number: has a fraction or an exponent
	flagUnrecorded             // container: has children that are not on the tape
)

// node is one entry of the tape. The tape is in document order: a container is followed by its
// children, a member is its name (a String node) followed by its value. next is the index after the
// whole subtree.
type node struct {
	start, end uint32
	next       int32
	kind       Kind
	flags      uint8
}

// set writes the members one by one. A literal would be built elsewhere and copied, which stalls on
// the stores just made. This doubled the time of a Parse.
func (n *node) set(start, end, next int, kind Kind, flags uint8) {
	n.start, n.end, n.next = uint32(start), uint32(end), int32(next)
	n.kind, n.flags = kind, flags
}
