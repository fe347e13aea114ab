package jsonx

import (
	"bytes"
	"slices"
	"testing"
)

func TestEdits(t *testing.T) {
	type apply = func(e *Edits, root Value)
	del := func(names ...string) apply {
		return func(e *Edits, root Value) {
			for _, name := range names {
				e.Delete(root.Get(name))
			}
		}
	}
	all := func(fs ...apply) apply {
		return func(e *Edits, root Value) {
			for _, f := range fs {
				f(e, root)
			}
		}
	}
	set := func(name, with string) apply {
		return func(e *Edits, root Value) { e.Set(root.Get(name), []byte(with)) }
	}
	add := func(with string) apply {
		return func(e *Edits, root Value) { e.Add(root, []byte(with)) }
	}
	const abc = ` { "a" : 1 , "b" : [2] ,"c":{"d":3}} `
	for _, c := range []struct {
		name, src string
		do        apply
		want      string
	}{
		{"nothing", abc, all(), abc},
		{"set", abc, set("b", `"x"`), ` { "a" : 1 , "b" : "x" ,"c":{"d":3}} `},
		{"set all, unordered", abc, all(set("c", "C"), set("a", "A"), set("b", "B")), ` { "a" : A , "b" : B ,"c":C} `},
		{"set twice", abc, all(set("a", "A"), set("a", "B")), ` { "a" : A , "b" : [2] ,"c":{"d":3}} `},
		{"delete first", abc, del("a"), ` { "b" : [2] ,"c":{"d":3}} `},
		{"delete middle", abc, del("b"), ` { "a" : 1  ,"c":{"d":3}} `},
		{"delete last", abc, del("c"), ` { "a" : 1 , "b" : [2] } `},
		{"delete first two", abc, del("b", "a"), ` { "c":{"d":3}} `},
		{"delete last two", abc, del("b", "c"), ` { "a" : 1  } `},
		{"delete outer two", abc, del("a", "c"), ` { "b" : [2] } `},
		{"delete all", abc, del("c", "b", "a"), ` { } `},
		{"delete twice", abc, del("b", "b", "a", "a"), ` { "c":{"d":3}} `},
		{"add", abc, add(`"e":5`), ` { "a" : 1 , "b" : [2] ,"c":{"d":3},"e":5} `},
		{"add two, delete last", abc, all(add(`"e":5`), del("c"), add(`"f":6`)), ` { "a" : 1 , "b" : [2] ,"e":5,"f":6} `},
		{"add two, delete all", abc, all(add(`"e":5`), del("a", "b", "c"), add(`"f":6`)), ` { "e":5,"f":6} `},
		{"add to empty", `{ }`, all(add(`"e":5`), add(`"f":6`)), `{"e":5,"f":6 }`},
		{"add to empty array", `[]`, all(add(`5`), add(`6`)), `[5,6]`},
		{"rename", abc, func(e *Edits, root Value) {
			e.Rename(root.Get("b"), []byte("long name"))
			e.Rename(root.Get("c").Get("d"), []byte(""))
			e.Rename(root.Get("a"), []byte("x"))
			e.Set(root.Get("a"), []byte("2"))
		}, ` { "x" : 2 , "long name" : [2] ,"c":{"":3}} `},
		{"delete a renamed one", abc, func(e *Edits, root Value) {
			e.Rename(root.Get("b"), []byte("x"))
			e.Delete(root.Get("b"))
		}, ` { "a" : 1  ,"c":{"d":3}} `},
		{"nested in a deleted one", abc, func(e *Edits, root Value) {
			c := root.Get("c")
			e.Delete(c.Get("d"))
			e.Add(c, []byte(`"x":1`))
			e.Set(c.Get("d"), []byte("4"))
			e.Delete(c)
		}, ` { "a" : 1 , "b" : [2] } `},
		{"nested between deletes", abc, func(e *Edits, root Value) {
			e.Delete(root.Get("a"))
			e.Delete(root.Get("b").Index(0))
			e.Delete(root.Get("c").Get("d"))
			e.Add(root.Get("c"), []byte(`"x":1`))
		}, ` { "b" : [] ,"c":{"x":1}} `},
		{"set and delete of an element", `[1,2,3]`, func(e *Edits, root Value) {
			e.Set(root.Index(0), []byte("x"))
			e.Delete(root.Index(0))
			e.Set(root.Index(2), []byte("y"))
			e.Delete(root.Index(2))
		}, `[2]`},
		{"insert", `[1,2]`, func(e *Edits, root Value) {
			e.Set(root.Index(0), []byte("x"))
			e.Insert(1, []byte("a,"))
			e.Insert(1, []byte("b,"))
		}, `[a,b,x,2]`},
		{"root", `1`, func(e *Edits, root Value) { e.Set(root, []byte("2")) }, `2`},
		{"empty with", `[1]`, func(e *Edits, root Value) { e.Replace(1, 2, nil) }, `[]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := mustParse(t, c.src).Root()
			var e Edits
			c.do(&e, root)
			src := []byte(c.src)
			got := e.Append([]byte(">"), src)
			if string(got) != ">"+c.want {
				t.Errorf("got  %s\nwant >%s", got, c.want)
			}
			if joined := bytes.Join(e.Segments(nil, src), nil); string(joined) != c.want || e.Size(len(src)) != len(c.want) {
				t.Errorf("segments %s, size %d", joined, e.Size(len(src)))
			}
			if string(src) != c.src {
				t.Error("the source was changed")
			}
			e.Reset()
			if e.Len() != 0 || string(e.Append(nil, src)) != c.src {
				t.Error("Reset keeps changes")
			}
		})
	}
}

// TestEditsShift checks that Shift predicts the new position of unchanged bytes.
func TestEditsShift(t *testing.T) {
	const src = ` { "a" : 1 , "b" : [2, 22] ,"c":{"d":3}, "e":"kept"} `
	root := mustParse(t, src).Root()
	for name, do := range map[string]func(e *Edits){
		"nothing": func(*Edits) {},
		"longer":  func(e *Edits) { e.Set(root.Get("a"), []byte("[1,1,1]")) },
		"shorter": func(e *Edits) { e.Set(root.Get("b"), []byte("2")) },
		"deleted": func(e *Edits) { e.Delete(root.Get("a")); e.Delete(root.Get("c")) },
		"added":   func(e *Edits) { e.Add(root.Get("c"), []byte(`"x":1`)); e.Add(root, []byte(`"y":2`)) },
		"all": func(e *Edits) {
			e.Delete(root.Get("a"))
			e.Add(root.Get("b"), []byte("3"))
			e.Set(root.Get("c"), nil)
			e.Insert(root.Get("e").Start(), []byte("null,"))
		},
	} {
		var e Edits
		do(&e)
		v := root.Get("e")
		got := e.Append(nil, []byte(src))[v.Start()+e.Shift(v.Start()):]
		if !bytes.HasPrefix(got, v.Raw()) {
			t.Errorf("%s: got %s at the shifted position, want %s", name, got, v.Raw())
		}
	}
}

func TestEditsPanics(t *testing.T) {
	root := mustParse(t, `[1,2,3]`).Root()
	for name, f := range map[string]func(e *Edits){
		"overlap": func(e *Edits) { e.Replace(0, 3, nil); e.Replace(2, 5, nil); e.Append(nil, make([]byte, 9)) },
		"root":    func(e *Edits) { e.Delete(root) },
		"absent":  func(e *Edits) { e.Set(Value{}, nil) },
		"range":   func(e *Edits) { e.Replace(3, 2, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f(new(Edits))
		})
	}
}

// branch is a node of a JSON tree that a test can change. Tests compare this tree with the result
// of the same changes in Edits.
type branch struct {
	text     string // the text of a scalar or of a replaced value
	kind     Kind
	name     string // the name in quotes
	children []*branch
	deleted  bool
	set      bool
	extra    []string
}

func buildBranch(v Value, all map[int32]*branch) *branch {
	b := &branch{kind: v.Kind(), text: string(v.Raw())}
	all[v.i] = b
	for it := v.Iter(); it.Next(); {
		c := buildBranch(it.Value(), all)
		if v.IsObject() {
			c.name = `"` + string(it.Key().Raw()) + `":`
		}
		b.children = append(b.children, c)
	}
	return b
}

func (b *branch) render(dst []byte) []byte {
	dst = append(dst, b.name...)
	if b.set || b.kind < Array {
		return append(dst, b.text...)
	}
	open, end := byte('['), byte(']')
	if b.kind == Object {
		open, end = '{', '}'
	}
	dst = append(dst, open)
	n := 0
	comma := func() {
		if n > 0 {
			dst = append(dst, ',')
		}
		n++
	}
	for _, c := range b.children {
		if !c.deleted {
			comma()
			dst = c.render(dst)
		}
	}
	for _, x := range b.extra {
		comma()
		dst = append(dst, x...)
	}
	return append(dst, end)
}

func FuzzEdits(f *testing.F) {
	f.Add([]byte(` {"a": [1 , 2,{} , [ ]],"b":{"c":null , "d":[]}, "e":"x" } `), []byte{1, 1, 1, 2, 1, 3, 2, 0, 2, 0, 0, 5})
	f.Add([]byte(`[1,2,3,4,5]`), []byte{1, 1, 1, 2, 1, 5, 2, 0, 1, 3, 1, 4})
	f.Add([]byte(`{}`), []byte{2, 0, 2, 0})
	f.Fuzz(func(t *testing.T, src, ops []byte) {
		var d Doc
		if len(src) > 1<<12 || d.Parse(src, Options{Record: 64}) != nil {
			return
		}
		before := slices.Clone(src)
		all := map[int32]*branch{}
		model := buildBranch(d.Root(), all)
		var at []int32
		for i := range all {
			at = append(at, i)
		}
		slices.Sort(at)
		var e Edits
		for ; len(ops) >= 2; ops = ops[2:] {
			i := at[int(ops[1])%len(at)]
			v, b := Value{&d, i}, all[i]
			switch ops[0] % 3 {
			case 0:
				e.Set(v, []byte(`"set"`))
				b.set, b.text = true, `"set"`
			case 1:
				if i != 0 {
					e.Delete(v)
					b.deleted = true
				}
			case 2:
				if v.IsArray() || v.IsObject() {
					x := `[0]`
					if v.IsObject() {
						x = `"new":[0]`
					}
					e.Add(v, []byte(x))
					b.extra = append(b.extra, x)
				}
			}
		}
		out := e.Append(nil, src)
		if !bytes.Equal(src, before) {
			t.Fatal("the source was changed")
		}
		if joined := bytes.Join(e.Segments(nil, src), nil); !bytes.Equal(joined, out) || e.Size(len(src)) != len(out) {
			t.Fatalf("%q in segments, size %d, but %q appended", joined, e.Size(len(src)), out)
		}
		var after Doc
		if err := after.Parse(out, Options{Record: 64}); err != nil {
			t.Fatalf("%q became %q, which does not parse: %v", src, out, err)
		}
		got := buildBranch(after.Root(), map[int32]*branch{}).render(nil)
		if want := model.render(nil); !bytes.Equal(got, want) {
			t.Fatalf("%q became %q: got %s, want %s", src, out, got, want)
		}
	})
}
