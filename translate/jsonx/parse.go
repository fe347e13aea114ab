package jsonx

import "math"

// Limits that hold when Options leaves them zero, and those that cannot be changed.
const (
	DefaultMaxDepth = 64
	DefaultRecord   = 8
	DefaultMaxNodes = 1 << 20 // 16 MiB of tape

	// MaxMembers is the greatest number of members an object may have, at any depth.
	MaxMembers = 10_000

	maxSize   = math.MaxInt32 // offsets are kept in 32 bits
	maxDepth  = 1024          // bounds the stack that a Doc keeps
	keepNodes = 16 << 10      // Reset keeps a tape of up to 256 KiB
)

// Options bounds a Parse. The zero value stands for the defaults.
type Options struct {
	// MaxDepth is how deep containers may nest; a scalar document has depth 0. Default 64, at most
	// 1024.
	MaxDepth int
	// Record is the depth down to which the children of containers are recorded: the root container
	// has depth 1. Deeper containers are validated, and known as values with a Kind and a Raw text,
	// but appear to be empty (see Value.Recorded). Default 8, which is what the deepest path of any
	// dialect needs.
	Record int
	// MaxNodes caps the tape: every recorded value and every recorded member name is a node of 16
	// bytes. Default 1<<20.
	MaxNodes int
	// Paired refuses a \u escape of half a surrogate pair. It is legal JSON but no text: other
	// parsers refuse it, or fail later, when they encode the string.
	Paired bool
}

type frame struct {
	node   int32 // the container's node, -1 when it is not recorded
	count  int32 // members so far
	object bool
}

// Doc is a parsed document: the source and the tape that indexes it. The zero value is ready. A Doc
// is meant to be reused, as part of a pooled structure; it must not be copied while Values of it
// are in use, nor be used by two goroutines while one of them parses.
type Doc struct {
	src   []byte
	nodes []node
	stack []frame
}

// Parse validates src and indexes it. The error is a *SyntaxError or a *LimitError, after which the
// document is empty.
//
// Parse keeps src, without copying, until the next Parse or Reset: the caller must not change it as
// long as it uses the Doc or any Value of it. Values of an earlier Parse are invalid.
func (d *Doc) Parse(src []byte, o Options) error {
	if o.MaxDepth <= 0 {
		o.MaxDepth = DefaultMaxDepth
	}
	if o.Record <= 0 {
		o.Record = DefaultRecord
	}
	if o.MaxNodes <= 0 {
		o.MaxNodes = DefaultMaxNodes
	}
	o.MaxDepth = min(o.MaxDepth, maxDepth)
	if len(d.stack) < o.MaxDepth {
		d.stack = make([]frame, o.MaxDepth)
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
	} else { // the tape that we have is larger than o.MaxNodes
		d.nodes = d.nodes[:len(nodes)]
	}
	return err
}

// Reset forgets the source and drops a tape that has become large, so that a pool of Docs holds
// neither.
func (d *Doc) Reset() {
	d.src, d.nodes = nil, d.nodes[:0]
	if cap(d.nodes) > keepNodes {
		d.nodes = nil
	}
}

// grow makes room for at least one more node, or reports false when the cap is reached.
func grow(nodes []node, limit int) ([]node, bool) {
	if len(nodes) >= limit {
		return nodes, false
	}
	n := make([]node, len(nodes), min(max(2*cap(nodes), 64), limit))
	copy(n, nodes)
	return n, true
}

// parse is the scanner. It appends to nodes, within its capacity or else in a copy, and returns
// them in any case. stack has room for o.MaxDepth frames. The states are labels, not functions, so
// that all of the state stays in registers.
func parse(src []byte, nodes []node, stack []frame, o Options) ([]node, error) {
	if len(src) > maxSize {
		return nodes, &LimitError{Offset: maxSize, Limit: LimitSize, Max: maxSize}
	}
	var (
		cur   frame // the innermost open container
		depth int   // how many are open
		rec   = true
		i     int
		n     = len(src)
	)

value: // a value must follow
	i = skipSpace(src, i)
	if i >= n {
		return nodes, &SyntaxError{n, reasonEnd}
	}
	if rec && len(nodes) == cap(nodes) {
		var ok bool
		if nodes, ok = grow(nodes, o.MaxNodes); !ok {
			return nodes, &LimitError{i, LimitNodes, o.MaxNodes}
		}
	}
	switch c := src[i]; c {
	case '"':
		end, flags, reason := scanString(src, i+1)
		if reason != "" {
			return nodes, &SyntaxError{end, reason}
		}
		if flags&flagLone != 0 && o.Paired {
			return nodes, &SyntaxError{i, reasonLone}
		}
		if rec {
			nodes = nodes[:len(nodes)+1]
			nodes[len(nodes)-1].set(i, end, len(nodes), String, flags)
		}
		i = end
	case '{', '[':
		if depth == o.MaxDepth {
			return nodes, &LimitError{i, LimitDepth, o.MaxDepth}
		}
		kind := Array
		if c == '{' {
			kind = Object
		}
		stack[depth] = cur
		depth++
		cur = frame{node: -1, object: c == '{'}
		if rec {
			cur.node = int32(len(nodes))
			nodes = nodes[:len(nodes)+1]
			nodes[cur.node].set(i, 0, 0, kind, 0)
			rec = depth <= o.Record
		}
		i = skipSpace(src, i+1)
		if i < n && src[i] == c+2 { // '}' is '{'+2 and ']' is '['+2
			i++
			goto closed
		}
		if cur.node >= 0 && !rec {
			nodes[cur.node].flags = flagUnrecorded
		}
		if c == '{' {
			goto member
		}
		goto value
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		end, flags, ok := scanNumber(src, i)
		if !ok {
			if end == n {
				return nodes, &SyntaxError{n, reasonEnd}
			}
			return nodes, &SyntaxError{end, reasonNumber}
		}
		if rec {
			nodes = nodes[:len(nodes)+1]
			nodes[len(nodes)-1].set(i, end, len(nodes), Number, flags)
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
		if end > n || string(src[i:end]) != word {
			return nodes, literalError(src, i, word)
		}
		if rec {
			nodes = nodes[:len(nodes)+1]
			nodes[len(nodes)-1].set(i, end, len(nodes), kind, 0)
		}
		i = end
	case 0xef, 0xfe, 0xff, 0:
		if i == 0 {
			return nodes, &SyntaxError{0, reasonBOM}
		}
		return nodes, &SyntaxError{i, reasonValue}
	default:
		return nodes, &SyntaxError{i, reasonValue}
	}

after: // a value has ended
	i = skipSpace(src, i)
	if depth == 0 {
		if i < n {
			return nodes, &SyntaxError{i, reasonTrailing}
		}
		return nodes, nil
	}
	if i >= n {
		return nodes, &SyntaxError{n, reasonEnd}
	}
	if cur.object {
		switch src[i] {
		case ',':
			i = skipSpace(src, i+1)
			goto member
		case '}':
			i++
			goto closed
		}
		return nodes, &SyntaxError{i, reasonObject}
	}
	switch src[i] {
	case ',':
		i++
		goto value
	case ']':
		i++
		goto closed
	}
	return nodes, &SyntaxError{i, reasonArray}

member: // a member's name must follow; space has been skipped
	if i >= n {
		return nodes, &SyntaxError{n, reasonEnd}
	}
	if src[i] != '"' {
		return nodes, &SyntaxError{i, reasonName}
	}
	if cur.count++; cur.count > MaxMembers {
		return nodes, &LimitError{i, LimitMembers, MaxMembers}
	}
	{
		end, flags, reason := scanString(src, i+1)
		if reason != "" {
			return nodes, &SyntaxError{end, reason}
		}
		if flags&flagLone != 0 && o.Paired {
			return nodes, &SyntaxError{i, reasonLone}
		}
		if rec {
			if len(nodes) == cap(nodes) {
				var ok bool
				if nodes, ok = grow(nodes, o.MaxNodes); !ok {
					return nodes, &LimitError{i, LimitNodes, o.MaxNodes}
				}
			}
			nodes = nodes[:len(nodes)+1]
			nodes[len(nodes)-1].set(i, end, len(nodes), String, flags)
		}
		i = skipSpace(src, end)
	}
	if i >= n {
		return nodes, &SyntaxError{n, reasonEnd}
	}
	if src[i] != ':' {
		return nodes, &SyntaxError{i, reasonColon}
	}
	i++
	goto value

closed: // the innermost container has ended
	if cur.node >= 0 {
		p := &nodes[cur.node]
		p.end, p.next = uint32(i), int32(len(nodes))
		rec = true // a recorded container's parent records
	}
	depth--
	cur = stack[depth]
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

// skipSpace is small so that it is inlined: the loop runs in skipSpaces.
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

// scanNumber validates the number at i and returns the offset behind it, or the offset of the byte
// that is wrong.
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
