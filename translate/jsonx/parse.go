package jsonx

import "math"

// The defaults of Options, and fixed limits.
const (
	DefaultMaxDepth    = 64
	DefaultRecordDepth = 8
	DefaultMaxNodes    = 1 << 20 // 16 MiB of tape

	// MaxMembers is the maximum number of members of an object, at any depth.
	MaxMembers = 10_000

	maxSize      = math.MaxInt32 // offsets have 32 bits
	maxDepth     = 1024          // limits the stack in a Doc
	maxKeptNodes = 16 << 10      // Reset retains a tape of up to 256 KiB
)

// Options limits what Parse accepts. The zero value selects the defaults.
type Options struct {
	// MaxDepth is the maximum nesting of containers. A scalar has depth 0. The default is 64, and
	// the maximum is 1024.
	MaxDepth int
	// Record is the maximum depth of containers whose children are recorded. The root container has
	// depth 1. Deeper containers are validated, but appear to be empty (see
	// Value.HasRecordedChildren). The default of 8 is enough for every dialect.
	Record int
	// MaxNodes is the maximum number of nodes on the tape. The default is 1<<20. Every recorded
	// value and member name uses a node of 16 bytes.
	MaxNodes int
	// Paired rejects a \u escape for half a surrogate pair. The escape is legal JSON, but some
	// parsers reject it, or fail later when they encode the string.
	Paired bool
}

type openContainer struct {
	node   int32 // the container's node, or -1 if it is not recorded
	count  int32
	object bool
}

// Doc is a parsed document: the source and its tape. The zero value is ready for use. A Doc must
// not be copied while its Values are in use. While one goroutine parses, no other goroutine may use
// the Doc.
type Doc struct {
	src   []byte
	nodes []tapeNode
	stack []openContainer
}

// Parse validates src and indexes it. The error is a *SyntaxError or a *LimitError. After an error,
// the document is empty.
//
// Parse refers to src until the next Parse or Reset. The caller must not change src while it uses
// the Doc or any of its Values. Values of an earlier Parse are invalid.
func (d *Doc) Parse(src []byte, o Options) error {
	if o.MaxDepth <= 0 {
		o.MaxDepth = DefaultMaxDepth
	}
	if o.Record <= 0 {
		o.Record = DefaultRecordDepth
	}
	if o.MaxNodes <= 0 {
		o.MaxNodes = DefaultMaxNodes
	}
	o.MaxDepth = min(o.MaxDepth, maxDepth)
	if len(d.stack) < o.MaxDepth {
		d.stack = make([]openContainer, o.MaxDepth)
	}
	d.src = nil
	nodes, err := parse(src, d.nodes[:0:min(cap(d.nodes), o.MaxNodes)], d.stack, o)
	if err != nil {
		nodes = nodes[:0]
	} else {
		d.src = src
	}
	if cap(nodes) >= cap(d.nodes) {
		d.nodes = nodes
	} else { // the current tape is larger than o.MaxNodes
		d.nodes = d.nodes[:len(nodes)]
	}
	return err
}

// Reset releases the source. It also releases a large tape.
func (d *Doc) Reset() {
	d.src, d.nodes = nil, d.nodes[:0]
	if cap(d.nodes) > maxKeptNodes {
		d.nodes = nil
	}
}

// growTape returns a copy of a full tape with more space, or false if the tape has reached the limit.
func growTape(tape []tapeNode, limit int) ([]tapeNode, bool) {
	if len(tape) >= limit {
		return tape, false
	}
	n := make([]tapeNode, min(max(2*len(tape), 64), limit))
	copy(n, tape)
	return n, true
}

// parse fills nodes up to its capacity and then continues in a larger copy. It returns the filled
// nodes even if it also returns an error. stack must have a frame for every level up to o.MaxDepth.
// States are labels, and short tokens need no function call, so all variables stay in registers.
func parse(src []byte, nodes []tapeNode, stack []openContainer, o Options) ([]tapeNode, error) {
	if len(src) > maxSize {
		return nodes[:0], &LimitError{Offset: maxSize, Limit: LimitSize, Max: maxSize}
	}
	var (
		tape   = nodes[:cap(nodes)]
		k      int            // number of filled nodes
		cur    *openContainer // the innermost open container, or nil
		depth  int            // number of open containers; up to o.Record, their children are recorded
		record = o.Record
		i      int
	)

value: // a value must follow
	i = skipSpace(src, i)
	if i >= len(src) {
		return tape[:k], &SyntaxError{len(src), reasonEnd}
	}
	if k == len(tape) && depth <= record {
		var ok bool
		if tape, ok = growTape(tape, o.MaxNodes); !ok {
			return tape[:k], &LimitError{i, LimitNodes, o.MaxNodes}
		}
	}
	switch c := src[i]; c {
	case '"':
		end, flags, reason := scanString(src, i+1)
		if reason != "" {
			return tape[:k], &SyntaxError{end, reason}
		}
		if flags&flagLoneSurrogate != 0 && o.Paired {
			return tape[:k], &SyntaxError{i, reasonLoneSurrogate}
		}
		if depth <= record {
			tape[k].set(i, end, k+1, String, flags)
			k++
		}
		i = end
	case '{', '[':
		if depth == o.MaxDepth {
			return tape[:k], &LimitError{i, LimitDepth, o.MaxDepth}
		}
		cur = &stack[depth]
		cur.node, cur.count, cur.object = -1, 0, c == '{'
		if depth <= record {
			kind := Array
			if c == '{' {
				kind = Object
			}
			cur.node = int32(k)
			tape[k].set(i, 0, 0, kind, 0)
			k++
		}
		depth++
		i = skipSpace(src, i+1)
		if i < len(src) && src[i] == c+2 { // '}' is '{'+2 and ']' is '['+2
			i++
			goto closed
		}
		if cur.node >= 0 && depth > record {
			tape[cur.node].flags = flagUnrecorded
		}
		if c == '{' {
			goto member
		}
		goto value
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		end, flags, ok := scanNumber(src, i)
		if !ok {
			if end == len(src) {
				return tape[:k], &SyntaxError{end, reasonEnd}
			}
			return tape[:k], &SyntaxError{end, reasonNumber}
		}
		if depth <= record {
			tape[k].set(i, end, k+1, Number, flags)
			k++
		}
		i = end
	case 't', 'f', 'n':
		word, kind := "true", True
		switch c {
		case 'f':
			word, kind = "false", False
		case 'n':
			word, kind = "null", Null
		}
		end := i + len(word)
		if end > len(src) || string(src[i:end]) != word {
			return tape[:k], literalError(src, i, word)
		}
		if depth <= record {
			tape[k].set(i, end, k+1, kind, 0)
			k++
		}
		i = end
	case 0xef, 0xfe, 0xff, 0:
		if i == 0 {
			return tape[:k], &SyntaxError{0, reasonBOM}
		}
		return tape[:k], &SyntaxError{i, reasonValue}
	default:
		return tape[:k], &SyntaxError{i, reasonValue}
	}

after: // a value has ended
	if cur == nil {
		if i = skipSpace(src, i); i < len(src) {
			return tape[:k], &SyntaxError{i, reasonTrailing}
		}
		return tape[:k], nil
	}
	if i = skipSpace(src, i); i >= len(src) {
		return tape[:k], &SyntaxError{len(src), reasonEnd}
	}
	if cur.object {
		switch src[i] {
		case ',':
			i++
			goto member
		case '}':
			i++
			goto closed
		}
		return tape[:k], &SyntaxError{i, reasonObject}
	}
	switch src[i] {
	case ',':
		i++
		goto value
	case ']':
		i++
		goto closed
	}
	return tape[:k], &SyntaxError{i, reasonArray}

member: // a member's name must follow
	if i >= len(src) || src[i] != '"' {
		if i = skipSpace(src, i); i >= len(src) {
			return tape[:k], &SyntaxError{len(src), reasonEnd}
		}
		if src[i] != '"' {
			return tape[:k], &SyntaxError{i, reasonName}
		}
	}
	if cur.count++; cur.count > MaxMembers {
		return tape[:k], &LimitError{i, LimitMembers, MaxMembers}
	}
	{
		end, flags, reason := scanString(src, i+1)
		if reason != "" {
			return tape[:k], &SyntaxError{end, reason}
		}
		if flags&flagLoneSurrogate != 0 && o.Paired {
			return tape[:k], &SyntaxError{i, reasonLoneSurrogate}
		}
		if depth <= record {
			if k == len(tape) {
				var ok bool
				if tape, ok = growTape(tape, o.MaxNodes); !ok {
					return tape[:k], &LimitError{i, LimitNodes, o.MaxNodes}
				}
			}
			tape[k].set(i, end, k+1, String, flags)
			k++
		}
		i = end
	}
	if i >= len(src) || src[i] != ':' {
		if i = skipSpace(src, i); i >= len(src) {
			return tape[:k], &SyntaxError{len(src), reasonEnd}
		}
		if src[i] != ':' {
			return tape[:k], &SyntaxError{i, reasonColon}
		}
	}
	i++
	goto value

closed: // the innermost container has ended
	if cur.node >= 0 {
		p := &tape[cur.node]
		p.end, p.next = uint32(i), int32(k)
	}
	depth--
	cur = nil
	if depth > 0 {
		cur = &stack[depth-1]
	}
	goto after
}

func literalError(src []byte, i int, word string) error {
	for j := range len(word) {
		if i+j == len(src) {
			return &SyntaxError{len(src), reasonEnd}
		}
		if src[i+j] != word[j] {
			return &SyntaxError{i + j, reasonLiteral}
		}
	}
	panic("BUG: the literal is complete")
}

// skipSpace is small enough to be inlined. The loop is in skipSpaces.
func skipSpace(src []byte, i int) int {
	if i < len(src) && src[i] > ' ' {
		return i
	}
	return skipSpaces(src, i)
}

func skipSpaces(src []byte, i int) int {
	for i < len(src) {
		switch src[i] {
		case ' ', '\n', '\r', '\t':
			i++
		default:
			return i
		}
	}
	return i
}

// scanNumber validates the number at i. end is the offset after the number or, if ok is false, of
// the first invalid byte.
func scanNumber(s []byte, i int) (end int, flags uint8, ok bool) {
	if s[i] == '-' {
		i++
	}
	j := skipDigits(s, i)
	if j == i || s[i] == '0' && j > i+1 {
		return min(j, i+1), 0, false
	}
	i = j
	if i < len(s) && s[i] == '.' {
		flags = flagFraction
		i++
		if j = skipDigits(s, i); j == i {
			return i, 0, false
		}
		i = j
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		flags = flagFraction
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if j = skipDigits(s, i); j == i {
			return i, 0, false
		}
		i = j
	}
	return i, flags, true
}

func skipDigits(s []byte, i int) int {
	for i < len(s) && s[i]-'0' <= 9 {
		i++
	}
	return i
}
