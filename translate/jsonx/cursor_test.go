package jsonx

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzCursor checks that every document that a Cursor accepts is valid, and that Cursor and Doc
// read the same members.
func FuzzCursor(f *testing.F) {
	for _, s := range cursorSources {
		f.Add([]byte(s.src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		c := NewCursor(src)
		raw := c.ReadValue()
		var d Doc
		err := d.Parse(src, Options{Paired: true})
		switch {
		case !c.IsAccepted():
			return
		case err != nil:
			t.Fatalf("a cursor accepts %q: %v", src, err)
		case !bytes.Equal(raw, d.Root().Raw()):
			t.Fatalf("%q: a cursor reads %q", src, raw)
		case !d.Root().IsObject():
			return
		}
		c = NewCursor(src)
		name, ok := c.FirstMember()
		for it := d.Root().Iter(); it.Next(); name, ok = c.NextMember() {
			if !ok || !bytes.Equal(name, it.Key().Name()) {
				t.Fatalf("%q: name %q (%v), want %q", src, name, ok, it.Key().Name())
			}
			if v := c.ReadValue(); !bytes.Equal(v, it.Value().Raw()) {
				t.Fatalf("%q: value %q, want %q", src, v, it.Value().Raw())
			}
			if c.Offset() != it.Value().End() {
				t.Fatalf("%q: at %d after %q, which ends at %d", src, c.Offset(), name, it.Value().End())
			}
		}
		if ok || !c.IsAccepted() {
			t.Fatalf("%q: not at the end", src)
		}
	})
}

var cursorSources = []struct {
	src  string
	read bool
}{
	{`{}`, true},
	{` { } `, true},
	{`{"a":1,"b":[true,false,null,-1.5e3],"c":{"d":"\n\u00e9é"}}`, true},
	{"{\n \"a_long_name_of_a_member\" : \"a longer text of more than one block of eight bytes\" ,\t\"b\" : [ ] }\r\n", true},
	{`[1,[2,[3]]]`, true},
	{`"text"`, true},
	{`0`, true},
	{``, false},
	{`{`, false},
	{`{"a"`, false},
	{`{"a":`, false},
	{`{"a":1`, false},
	{`{"a":1,}`, false},
	{`{,}`, false},
	{`{"a":1 "b":2}`, false},
	{`{"a":01}`, false},
	{`{"a":nul}`, false},
	{`{"a":1}}`, false},
	{`[1,]`, false},
	{`[,]`, false},
	{`[1 2]`, false},
	{"{\"a\":\"\x00\"}", false},
	{"{\"a\":\"\xff\"}", false},
	{`{"a":"\ud800"}`, false}, // half a surrogate pair
	{`{"\u0061":1}`, false},   // valid, but only a Doc accepts it
	{`{"é":1}`, false},
}

func TestCursor(t *testing.T) {
	for _, s := range cursorSources {
		c := NewCursor([]byte(s.src))
		c.ReadValue()
		if c.IsAccepted() != s.read {
			t.Errorf("%q: read %v, want %v", s.src, c.IsAccepted(), s.read)
		}
	}
	deep := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	long := func(n int) []byte { return []byte("[0" + strings.Repeat(",0", n-1) + "]") }
	for _, s := range []struct {
		src  []byte
		read bool
	}{{deep(maxCursorDepth), true}, {deep(maxCursorDepth + 1), false}, {long(MaxMembers), true}, {long(MaxMembers + 1), false}} {
		c := NewCursor(s.src)
		c.ReadValue()
		if c.IsAccepted() != s.read {
			t.Errorf("%.20q of %d bytes: read %v, want %v", s.src, len(s.src), c.IsAccepted(), s.read)
		}
	}
}
