package jsonx

import (
	"cmp"
	"slices"
)

// Edits is a list of changes to one source. The zero value is ready for use.
//
// The caller must not modify the texts passed to an Edits until Reset. Changes may be added in any
// order. Two changes at the same offset are applied in the order in which they were added. A change
// within replaced or deleted text is dropped. If two replacements partly overlap, applying them
// panics.
type Edits struct {
	list   []edit
	sorted bool
}

type editKind uint8

const (
	editDelete  editKind = iota // removes an element or member and one comma
	editReplace                 // replaces src[start:end] with the text
	editAdd                     // adds an element or member at the end of its container
)

type edit struct {
	start, end int
	newText    []byte
	kind       editKind
	first      bool // delete: no sibling precedes the child; add: the container is empty
	before     int  // delete: offset of the comma before the child
	next       int  // delete: offset after the comma that follows the child, or -1 for the last child
}

// Reset removes all changes and releases their texts.
func (e *Edits) Reset() {
	clear(e.list)
	e.list, e.sorted = e.list[:0], false
	if cap(e.list) > 1024 {
		e.list = nil
	}
}

// Len returns the number of changes.
func (e *Edits) Len() int { return len(e.list) }

// Replace replaces src[start:end] with the given text.
func (e *Edits) Replace(start, end int, with []byte) {
	if start < 0 || end < start {
		panic("BUG: jsonx: replacement of a negative range")
	}
	e.add(edit{start: start, end: end, newText: with, kind: editReplace})
}

// Insert inserts the given text before src[at]. To insert a comma as well, use Add.
func (e *Edits) Insert(at int, with []byte) { e.Replace(at, at, with) }

// Set replaces v, which must exist, with the given JSON text.
func (e *Edits) Set(v Value, with []byte) {
	mustExist(v)
	e.Replace(v.Start(), v.End(), with)
}

// Add inserts a JSON value, or a member such as `"n":1`, after the last child of v, with a comma if
// one is needed.
func (e *Edits) Add(v Value, with []byte) {
	mustExist(v)
	src := v.d.src
	at := skipSpaceBack(src, v.End()-1)
	x := edit{start: at, end: at, newText: with, kind: editAdd}
	if at-1 == v.Start() { // the opening bracket
		x.first = true
	}
	e.add(x)
}

// Delete removes v, its comma and, if v is a member, its name. v must exist and must not be the
// root.
func (e *Edits) Delete(v Value) {
	mustExist(v)
	if v.i == 0 {
		panic("BUG: jsonx: the root cannot be deleted")
	}
	src := v.d.src
	x := edit{start: v.Start(), end: v.End(), kind: editDelete, next: -1}
	p := skipSpaceBack(src, x.start)
	if src[p-1] == ':' { // a member, whose name is the node before the value
		x.start = int(v.d.nodes[v.i-1].start)
		p = skipSpaceBack(src, x.start)
	}
	if src[p-1] == ',' {
		x.before = p - 1
	} else {
		x.first = true
	}
	if p = skipSpace(src, x.end); src[p] == ',' {
		x.next = skipSpace(src, p+1)
	}
	e.add(x)
}

// Rename changes the name of the member whose value is v. v must exist, and the new name must not
// need escapes.
func (e *Edits) Rename(v Value, name []byte) {
	mustExist(v)
	if skipped := skipSpaceBack(v.d.src, v.Start()); v.d.src[skipped-1] != ':' {
		panic("BUG: jsonx: only a member has a name")
	}
	key := v.d.nodes[v.i-1]
	e.Replace(int(key.start)+1, int(key.end)-1, name)
}

func mustExist(v Value) {
	if v.d == nil {
		panic("BUG: jsonx: edit of a value that does not exist")
	}
}

// skipSpaceBack requires a token before i. Otherwise its loop would not terminate.
func skipSpaceBack(src []byte, i int) int {
	for src[i-1] == ' ' || src[i-1] == '\n' || src[i-1] == '\r' || src[i-1] == '\t' {
		i--
	}
	return i
}

func (e *Edits) add(x edit) {
	e.list, e.sorted = append(e.list, x), false
}

// compareEdits sorts by offset. At the same offset, insertions come first, then deletions, then
// replacements. This order ensures that the replacement of a deleted value is dropped.
func compareEdits(a, b edit) int {
	switch c := cmp.Compare(a.start, b.start); {
	case c != 0:
		return c
	case (a.end == a.start) != (b.end == b.start):
		if a.end == a.start {
			return -1
		}
		return 1
	case a.kind != b.kind && a.end != a.start:
		return cmp.Compare(a.kind, b.kind)
	}
	return cmp.Compare(b.end, a.end)
}

func (e *Edits) sort() {
	if !e.sorted {
		slices.SortStableFunc(e.list, compareEdits)
		e.sorted = true
	}
}

type editCursor struct {
	i   int
	pos int // the source has been processed up to this offset

	// Deleting a child also deletes the comma before it or, if all earlier children are deleted
	// too, the comma after it.
	leadingChildAt int // offset of a child whose preceding siblings are all deleted
	emptied        int // end of the last child of a container whose children are all deleted
	added          int // offset of the last editAdd that was applied
}

// An editStep copies src up to the offset from and replaces src[from:to] with newText. If comma is
// true, it writes a comma before newText.
type editStep struct {
	from, to int
	comma    bool
	newText  []byte
}

func (e *Edits) newCursor() editCursor {
	e.sort()
	return editCursor{leadingChildAt: -1, emptied: -1, added: -1}
}

func (e *Edits) next(c *editCursor) (editStep, bool) {
	for c.i < len(e.list) {
		x := &e.list[c.i]
		c.i++
		if x.start < c.pos {
			if x.end > c.pos {
				panic("BUG: jsonx: overlapping edits")
			}
			continue
		}
		s := editStep{from: x.start, to: x.end, newText: x.newText}
		switch x.kind {
		case editReplace:
		case editAdd:
			s.comma = x.start == c.added || !x.first && x.start != c.emptied
			c.added = x.start
		case editDelete:
			switch {
			case !x.first && x.start != c.leadingChildAt:
				s.from = max(x.before, c.pos)
			case x.next >= 0:
				s.to, c.leadingChildAt = x.next, x.next
			default:
				c.emptied = x.end
			}
		}
		c.pos = s.to
		return s, true
	}
	return editStep{}, false
}

// Size returns the length of the result for a source of n bytes.
func (e *Edits) Size(n int) int {
	c := e.newCursor()
	for s, ok := e.next(&c); ok; s, ok = e.next(&c) {
		n += len(s.newText) - (s.to - s.from)
		if s.comma {
			n++
		}
	}
	return n
}

// Shift returns the number of bytes by which the changes move src[at]. The changes must not affect
// src[at] itself.
func (e *Edits) Shift(at int) int {
	n := 0
	c := e.newCursor()
	for s, ok := e.next(&c); ok && s.to <= at; s, ok = e.next(&c) {
		n += len(s.newText) - (s.to - s.from)
		if s.comma {
			n++
		}
	}
	return n
}

// Append appends src with all changes applied. dst must not overlap src.
func (e *Edits) Append(dst, src []byte) []byte {
	dst = slices.Grow(dst, e.Size(len(src)))
	pos := 0
	c := e.newCursor()
	for s, ok := e.next(&c); ok; s, ok = e.next(&c) {
		dst = append(dst, src[pos:s.from]...)
		if s.comma {
			dst = append(dst, ',')
		}
		dst = append(dst, s.newText...)
		pos = s.to
	}
	return append(dst, src[pos:]...)
}

var commaSegment = []byte{','}

// Segments appends the pieces of the result to dst for a vectored write. The pieces are slices of
// src and of the texts in e, and must not be modified. No piece is empty.
func (e *Edits) Segments(dst [][]byte, src []byte) [][]byte {
	pos := 0
	c := e.newCursor()
	for s, ok := e.next(&c); ok; s, ok = e.next(&c) {
		if pos < s.from {
			dst = append(dst, src[pos:s.from:s.from])
		}
		if s.comma {
			dst = append(dst, commaSegment)
		}
		if len(s.newText) > 0 {
			dst = append(dst, s.newText)
		}
		pos = s.to
	}
	if pos < len(src) {
		dst = append(dst, src[pos:])
	}
	return dst
}
