package jsonx

import "math/bits"

// Value is a value in a Doc. It is cheap to copy. The zero Value is absent: its Kind is Invalid,
// and all its methods may be called. A Value is valid until the next Parse or Reset of its Doc.
type Value struct {
	d *Doc
	i int32
}

// Root returns the document's value, or an absent Value if the Doc is empty.
func (d *Doc) Root() Value {
	if len(d.nodes) == 0 {
		return Value{}
	}
	return Value{d: d}
}

func (v Value) node() *tapeNode { return &v.d.nodes[v.i] }

// Kind returns the kind of v, or Invalid if v is absent.
func (v Value) Kind() Kind {
	if v.d == nil {
		return Invalid
	}
	return v.node().kind
}

// Exists reports whether v is present. null counts as present.
func (v Value) Exists() bool { return v.d != nil }

// IsNull reports whether v is null. An absent value is not null.
func (v Value) IsNull() bool { return v.Kind() == Null }

// IsBool reports whether v is true or false.
func (v Value) IsBool() bool { k := v.Kind(); return k == True || k == False }

// IsNumber reports whether v is a number.
func (v Value) IsNumber() bool { return v.Kind() == Number }

// IsString reports whether v is a string.
func (v Value) IsString() bool { return v.Kind() == String }

// IsArray reports whether v is an array.
func (v Value) IsArray() bool { return v.Kind() == Array }

// IsObject reports whether v is an object.
func (v Value) IsObject() bool { return v.Kind() == Object }

// Raw returns the text of v, including quotes or brackets, or nil if v is absent.
func (v Value) Raw() []byte {
	if v.d == nil {
		return nil
	}
	n := v.node()
	return v.d.src[n.start:n.end:n.end]
}

// RawContents returns Raw without its quotes or brackets. v must be a string, an array or an
// object.
func (v Value) RawContents() []byte {
	raw := v.Raw()
	return raw[1 : len(raw)-1]
}

// HasText reports whether v is a string that is not empty.
func (v Value) HasText() bool { return v.IsString() && v.End()-v.Start() > 2 }

// Start returns the offset of the first byte of v in the source.
func (v Value) Start() int {
	if v.d == nil {
		return 0
	}
	return int(v.node().start)
}

// End returns the offset after the last byte of v in the source.
func (v Value) End() int {
	if v.d == nil {
		return 0
	}
	return int(v.node().end)
}

// HasRecordedChildren reports whether the children of the container v can be visited. Children are
// not recorded below the depth Options.Record. To read them, parse v.Raw with another Doc.
func (v Value) HasRecordedChildren() bool { return v.d != nil && v.node().flags&flagUnrecorded == 0 }

// Len returns the number of elements or members of v, or 0 if v is not a container. Len takes
// linear time.
func (v Value) Len() int {
	n := 0
	for it := v.Iter(); it.Next(); {
		n++
	}
	return n
}

// Iter visits the children of an array or object in source order:
//
//	for it := v.Iter(); it.Next(); {
//		it.Key(); it.Value()
//	}
type Iter struct {
	d         *Doc
	next, end int32 // indexes of nodes
	at        int32 // node index of the current value
	index     int32
	object    bool
}

// Iter returns an iterator over the children of v, which is empty if v is not a container.
func (v Value) Iter() Iter {
	if v.d == nil {
		return Iter{}
	}
	n := v.node()
	if n.kind < Array {
		return Iter{}
	}
	return Iter{d: v.d, next: v.i + 1, end: n.next, index: -1, object: n.kind == Object}
}

// Next moves to the next child and reports whether there is one.
func (it *Iter) Next() bool {
	if it.next >= it.end {
		return false
	}
	it.at = it.next
	if it.object {
		it.at++
	}
	it.next = it.d.nodes[it.at].next
	it.index++
	return true
}

// Value returns the current element or the value of the current member.
func (it *Iter) Value() Value { return Value{it.d, it.at} }

// Index returns the position of the current child, starting with 0.
func (it *Iter) Index() int { return int(it.index) }

// Key returns the name of the current member, or the zero Key if v is an array.
func (it *Iter) Key() Key {
	if !it.object {
		return Key{}
	}
	n := &it.d.nodes[it.at-1]
	return Key{it.d.src[n.start+1 : n.end-1 : n.end-1], n.flags}
}

// Key is a member's name as spelled in the source. It refers to the source.
type Key struct {
	raw   []byte // the name without quotes
	flags uint8
}

// Raw returns the name between its quotes, with its escapes.
func (k Key) Raw() []byte { return k.raw }

// IsPlainASCII reports whether the name is ASCII without escapes.
func (k Key) IsPlainASCII() bool { return k.flags == 0 }

// Equals reports whether the decoded key equals the given name.
func (k Key) Equals(name string) bool {
	if k.flags&flagEscaped == 0 {
		return string(k.raw) == name
	}
	return equalDecoded(k.raw, name)
}

// EqualFold is like Equals, but ignores the case of ASCII letters. Like Go's decoder, it treats
// U+017F as s and U+212A as k.
func (k Key) EqualFold(name string) bool {
	if k.flags != 0 {
		return equalFoldDecoded(k.raw, name)
	}
	return equalFoldPlain(k.raw, name)
}

func equalFoldPlain(s []byte, name string) bool {
	if len(s) != len(name) {
		return false
	}
	for i, c := range s {
		if c != name[i] && toLowerASCII(c) != toLowerASCII(name[i]) {
			return false
		}
	}
	return true
}

// AppendTo appends the decoded name.
func (k Key) AppendTo(dst []byte) []byte {
	if k.flags&flagEscaped == 0 {
		return append(dst, k.raw...)
	}
	return AppendDecoded(dst, k.raw)
}

// Name returns the decoded name. If the name contains no escapes, the result is a slice of the
// source.
func (k Key) Name() []byte {
	if k.flags&flagEscaped == 0 {
		return k.raw
	}
	return AppendDecoded(nil, k.raw)
}

// Get returns the value of the first member of v with the given name. It does not detect
// duplicates. Use Fields for members on which the edge bases decisions.
func (v Value) Get(name string) Value {
	if v.Kind() != Object {
		return Value{}
	}
	for it := v.Iter(); it.Next(); {
		if it.Key().Equals(name) {
			return it.Value()
		}
	}
	return Value{}
}

// Index returns element i of an array, or the value of member i of an object.
func (v Value) Index(i int) Value {
	for it := v.Iter(); it.Next(); {
		if i == 0 {
			return it.Value()
		}
		i--
	}
	return Value{}
}

// Fields looks up all names in one pass. It sets out[i] to the value of the member names[i], or to
// an absent Value. out must be at least as long as names. Members with other names are ignored.
//
// Fields returns a *MemberError if a member occurs twice, or if its name differs from one of names
// only in case. Two readers could then see different requests. After an error, the values in out
// are undefined. If v is not an object, all values in out are absent.
//
// The names must be in ASCII. Fields does not allocate.
func (v Value) Fields(names []string, out []Value) error {
	out = out[:len(names)]
	clear(out)
	if v.Kind() != Object {
		return nil
	}
	if len(names) > minIndexedNames && len(names) <= maxIndexedNames {
		var n NameIndex
		n.addNames(names)
		_, _, err := n.fillFields(v, out)
		return err
	}
	nodes, src := v.d.nodes, v.d.src
	for i, end := v.i+1, v.node().next; i < end; i = nodes[i+1].next {
		k := &nodes[i]
		raw := src[k.start+1 : k.end-1]
		for j, name := range names {
			if string(raw) == name && k.flags == 0 && out[j].d == nil {
				out[j] = Value{v.d, i + 1}
				break
			}
			if (Key{raw, k.flags}).EqualFold(name) {
				if err := v.setToMember(i, name, &out[j]); err != nil {
					return err
				}
				break
			}
		}
	}
	return nil
}

// setToMember sets out to the value of the member whose name is node i. The caller has checked that
// the member's name equals name except for case. If the case differs, or out is already set, set
// returns a *MemberError.
func (v Value) setToMember(i int32, name string, out *Value) error {
	k := &v.d.nodes[i]
	switch {
	case !(Key{v.d.src[k.start+1 : k.end-1], k.flags}).Equals(name):
		return &MemberError{name, CaseVariant, int(k.start)}
	case out.d != nil:
		return &MemberError{name, MemberDuplicate, int(k.start)}
	}
	*out = Value{v.d, i + 1}
	return nil
}

const (
	minIndexedNames = 8 // Fields indexes longer lists of names
	maxIndexedNames = 64
)

// NameIndex is an immutable index of member names.
type NameIndex struct {
	list    []string
	buckets [32]uint64 // sets of names, by length and first letter
}

// NewNameIndex returns an index of at most 64 names, which must be in ASCII. It retains the slice.
func NewNameIndex(names ...string) *NameIndex {
	if len(names) > maxIndexedNames {
		panic("BUG: jsonx: more than 64 names")
	}
	n := new(NameIndex)
	n.addNames(names)
	return n
}

func (n *NameIndex) addNames(names []string) {
	n.list = names
	for j, name := range names {
		if name != "" {
			n.buckets[nameBucket(len(name), name[0])] |= 1 << j
		}
	}
}

func nameBucket(length int, first byte) int { return (length*5 + int(first|0x20)) & 31 }

// Index returns the position of k in the list, or -1. It ignores the case of letters.
func (n *NameIndex) Index(k Key) int {
	set := ^uint64(0) >> (maxIndexedNames - len(n.list))
	if k.flags == 0 && len(k.raw) > 0 {
		set = n.buckets[nameBucket(len(k.raw), k.raw[0])]
	}
	for ; set != 0; set &= set - 1 {
		j := bits.TrailingZeros64(set)
		if k.flags == 0 && len(k.raw) != len(n.list[j]) {
			continue
		}
		if k.EqualFold(n.list[j]) {
			return j
		}
	}
	return -1
}

// Fields is like v.Fields, but faster for a long list.
func (n *NameIndex) Fields(v Value, out []Value) error {
	clear(out[:len(n.list)])
	_, _, err := n.ReadFields(v, out)
	return err
}

// ReadFields is like Fields, but does not clear the slice out. Every value in out must therefore be
// the zero Value. It also returns the set of names found, as a bit mask (bit i for name i), and
// whether v has any other members.
func (n *NameIndex) ReadFields(v Value, out []Value) (found uint64, others bool, err error) {
	out = out[:len(n.list)]
	if v.Kind() != Object {
		return 0, false, nil
	}
	return n.fillFields(v, out)
}

func (n *NameIndex) fillFields(v Value, out []Value) (found uint64, others bool, err error) {
	d := v.d
	nodes, src := d.nodes, d.src
	for i, end := v.i+1, nodes[v.i].next; i < end; i = nodes[i+1].next {
		k := &nodes[i]
		raw := src[k.start+1 : k.end-1]
		if k.flags == 0 && len(raw) > 0 {
			if j := n.findExact(raw); j >= 0 && found&(1<<j) == 0 {
				out[j] = Value{d, i + 1}
				found |= 1 << j
				continue
			}
		}
		j := n.Index(Key{raw, k.flags})
		if j < 0 {
			others = true
			continue
		}
		if err := v.setToMember(i, n.list[j], &out[j]); err != nil {
			return 0, false, err
		}
		found |= 1 << j
	}
	return found, others, nil
}

// findExact returns the position of a name in the list, or -1. The name must not be empty.
func (n *NameIndex) findExact(name []byte) int {
	for set := n.buckets[nameBucket(len(name), name[0])]; set != 0; set &= set - 1 {
		if j := bits.TrailingZeros64(set); string(name) == n.list[j] {
			return j
		}
	}
	return -1
}

// ReadTwoMembers returns the values of an object that has exactly the members first and second, in
// this order.
func (v Value) ReadTwoMembers(first, second string) (a, b Value, ok bool) {
	if v.Kind() != Object {
		return Value{}, Value{}, false
	}
	d := v.d
	i, end := v.i+1, d.nodes[v.i].next
	if i == end || !d.isNamed(i, first) {
		return Value{}, Value{}, false
	}
	j := d.nodes[i+1].next
	if j == end || !d.isNamed(j, second) || d.nodes[j+1].next != end {
		return Value{}, Value{}, false
	}
	return Value{d, i + 1}, Value{d, j + 1}, true
}

// isNamed reports whether node i is the given name, without escapes.
func (d *Doc) isNamed(i int32, name string) bool {
	k := &d.nodes[i]
	return k.flags == 0 && string(d.src[k.start+1:k.end-1]) == name
}

// AppendText appends the decoded contents of a string. A lone surrogate becomes U+FFFD.
func (v Value) AppendText(dst []byte) []byte {
	s, flags, ok := v.text()
	if !ok {
		return dst
	}
	if flags&flagEscaped == 0 {
		return append(dst, s...)
	}
	return AppendDecoded(dst, s)
}

// Text returns the contents of a string without escapes, as a slice of the source.
func (v Value) Text() ([]byte, bool) {
	s, flags, ok := v.text()
	if !ok || flags&flagEscaped != 0 {
		return nil, false
	}
	return s, true
}

// EqualText reports whether v is a string whose decoded contents equal s.
func (v Value) EqualText(s string) bool {
	if v.d == nil {
		return false
	}
	n := v.node()
	switch {
	case n.kind != String:
		return false
	case n.flags&flagEscaped != 0:
		return equalDecoded(v.d.src[n.start+1:n.end-1], s)
	case int(n.end-n.start) != len(s)+2:
		return false
	}
	return string(v.d.src[n.start+1:n.end-1]) == s
}

func (v Value) text() (s []byte, flags uint8, ok bool) {
	if v.d == nil {
		return nil, 0, false
	}
	n := v.node()
	if n.kind != String {
		return nil, 0, false
	}
	return v.d.src[n.start+1 : n.end-1 : n.end-1], n.flags, true
}

// Bool returns the value of true or false. ok is false if v is neither.
func (v Value) Bool() (val, ok bool) {
	k := v.Kind()
	return k == True, k == True || k == False
}
