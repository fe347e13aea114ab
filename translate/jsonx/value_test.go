package jsonx

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestAbsent(t *testing.T) {
	var v Value
	if v.Exists() || v.Kind() != Invalid || v.Raw() != nil || v.Start() != 0 || v.End() != 0 || v.Len() != 0 ||
		v.Get("a").Exists() || v.Index(0).Exists() || v.IsNull() || v.EqualText("") || v.HasRecordedChildren() {
		t.Error("an absent value has something")
	}
	if _, ok := v.Int(); ok {
		t.Error("Int")
	}
	if _, ok := v.Float(); ok {
		t.Error("Float")
	}
	if _, ok := v.Bool(); ok {
		t.Error("Bool")
	}
	if _, ok := v.Text(); ok {
		t.Error("Text")
	}
	if got := v.AppendText([]byte("x")); string(got) != "x" {
		t.Error("AppendText")
	}
	out := []Value{{d: new(Doc)}}
	if err := v.Fields([]string{"a"}, out); err != nil || out[0].Exists() {
		t.Error("Fields")
	}
	for it := v.Iter(); it.Next(); {
		t.Error("Iter")
	}
}

func TestNavigation(t *testing.T) {
	d := mustParse(t, ` {"a": [10, {"b": "x\ny"}, [], null, true], "c\u0064": -1.5, "": false} `)
	root := d.Root()
	a := root.Get("a")
	if root.Len() != 3 || a.Len() != 5 || !a.IsArray() || !root.IsObject() {
		t.Errorf("got the lengths %d and %d, want 3 and 5", root.Len(), a.Len())
	}
	if got := string(a.Index(1).Get("b").AppendText(nil)); got != "x\ny" {
		t.Errorf("a[1].b = %q, want %q", got, "x\ny")
	}
	if _, ok := a.Index(1).Get("b").Text(); ok {
		t.Error("Text of an escaped string")
	}
	if !a.Index(1).Get("b").EqualText("x\ny") || a.Index(1).Get("b").EqualText("x\nz") {
		t.Error("EqualText")
	}
	if !a.Index(3).IsNull() || !a.Index(4).IsBool() || a.Index(5).Exists() || a.Index(-1).Exists() {
		t.Error("Index")
	}
	if f, ok := root.Get("cd").Float(); !ok || f != -1.5 {
		t.Error("cd")
	}
	if b, ok := root.Get("").Bool(); !ok || b {
		t.Error("empty name")
	}
	if root.Index(1).Kind() != Number || root.Start() != 1 || string(root.Raw()) != strings.TrimSpace(string(d.src)) {
		t.Error("root")
	}
	for it := a.Iter(); it.Next(); {
		if it.Key().Raw() != nil || it.Value() != a.Index(it.Index()) {
			t.Errorf("the iterator and Index disagree about element %d", it.Index())
		}
	}
	kinds := ""
	for it := a.Iter(); it.Next(); {
		kinds += it.Value().Kind().String() + " "
	}
	if kinds != "number object array null boolean " {
		t.Error(kinds)
	}
}

func TestInt(t *testing.T) {
	for _, c := range []struct {
		src  string
		want int64
		ok   bool
	}{
		{"0", 0, true},
		{"-0", 0, true},
		{"-0.0e5", 0, true},
		{"1.0", 1, true},
		{"1e2", 100, true},
		{"1.5e1", 15, true},
		{"1500e-2", 15, true},
		{"15e-1", 0, false},
		{"0.5", 0, false},
		{"9223372036854775807", 9223372036854775807, true},
		{"9223372036854775808", 0, false},
		{"-9223372036854775808", -9223372036854775808, true},
		{"-9223372036854775809", 0, false},
		{"18446744073709551615", 0, false},
		{"18446744073709551616", 0, false},
		{"1e18", 1e18, true},
		{"1e19", 0, false},
		{"1e999999999999999999999", 0, false},
		{"0e999999999999999999999", 0, true},
		{"0.000e-99999999999", 0, true},
		{"1e-999999999999999999999", 0, false},
		{"1" + strings.Repeat("0", 1_000_000) + "e-1000000", 1, true},
		{"1" + strings.Repeat("0", 1_000_000), 0, false},
		{"0." + strings.Repeat("0", 1_000_000) + "1e1000001", 1, true},
		{strings.Repeat("9", 1_000_000) + "e-1000000", 0, false},
		{`"1"`, 0, false},
	} {
		if got, ok := mustParse(t, c.src).Root().Int(); got != c.want || ok != c.ok {
			t.Errorf("Int of %.40s = %d, %v, want %d, %v", c.src, got, ok, c.want, c.ok)
		}
	}
}

func TestFloat(t *testing.T) {
	for _, c := range []struct {
		src  string
		want float64
		ok   bool
	}{
		{"0.7", 0.7, true},
		{"1e308", 1e308, true},
		{"1e309", 0, false},
		{"-1e999999", 0, false},
		{"1e-999999", 0, true},
		{strings.Repeat("9", 1_000_000), 0, false},
		{"0." + strings.Repeat("3", 1_000_000), 1.0 / 3, true},
		{"true", 0, false},
	} {
		if got, ok := mustParse(t, c.src).Root().Float(); got != c.want || ok != c.ok {
			t.Errorf("Float of %.40s = %g, %v, want %g, %v", c.src, got, ok, c.want, c.ok)
		}
	}
}

var chatNames = []string{
	"model", "messages", "stream", "stream_options", "temperature", "top_p", "max_tokens", "max_completion_tokens", "tools",
	"tool_choice", "parallel_tool_calls", "response_format", "stop", "seed", "n", "user", "metadata", "logit_bias", "logprobs",
	"top_logprobs", "presence_penalty", "frequency_penalty", "reasoning", "reasoning_effort", "include_reasoning", "store",
	"functions", "function_call", "modalities", "audio", "prediction", "service_tier", "web_search_options", "top_k", "min_p",
	"repetition_penalty", "previous_response_id", "chat_template_kwargs", "priority", "verbosity",
}

func TestFields(t *testing.T) {
	few := []string{"role", "content", "model"}
	for _, c := range []struct {
		name, src, bad string
		problem        MemberProblem
	}{
		{"plain", `{"other":1,"model":"m","other":2,"messages":[]}`, "", 0},
		{"not an object", `["model","model"]`, "", 0},
		{"empty", `{}`, "", 0},
		{"twice", `{"model":"a","x":1,"model":"a"}`, "model", MemberDuplicate},
		{"twice, escaped", `{"model":"a","mod\u0065l":"b"}`, "model", MemberDuplicate},
		{"escaped", `{"m\u006fdel":"a"}`, "", 0},
		{"case", `{"Model":"a"}`, "model", CaseVariant},
		{"case after", `{"model":"a","MODEL":"b"}`, "model", CaseVariant},
		{"case, escaped", `{"\u004dodel":"a"}`, "model", CaseVariant},
		{"neighbours", `{"models":1,"mode":2,"nodel":3,"":4,"\u0000model":5,"möbel":6}`, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := mustParse(t, c.src).Root()
			for _, names := range [][]string{few, chatNames} {
				out := make([]Value, len(names))
				err := root.Fields(names, out)
				if c.bad == "" {
					if err != nil {
						t.Fatal(err)
					}
					for i, name := range names {
						if want := root.Get(name); out[i] != want {
							t.Errorf("%s: %s, want %s", name, out[i].Raw(), want.Raw())
						}
					}
					continue
				}
				var member *MemberError
				if !errors.As(err, &member) || member.Name != c.bad || member.Problem != c.problem {
					t.Errorf("got %v, want the member %s: %s", err, c.bad, c.problem)
				}
			}
		})
	}
	t.Run("letters that Go folds", func(t *testing.T) {
		for _, src := range []string{`{"meſſages":1}`, `{"me\u017fsages":1}`} {
			var member *MemberError
			if err := mustParse(t, src).Root().Fields(chatNames, make([]Value, len(chatNames))); !errors.As(err, &member) || member.Name != "messages" {
				t.Errorf("%s: got %v, want the member messages", src, err)
			}
		}
		if err := mustParse(t, "{\"to\u212aen\":1}").Root().Fields([]string{"token"}, make([]Value, 1)); err == nil {
			t.Error("kelvin sign")
		}
	})
	t.Run("more than 64 names", func(t *testing.T) {
		names := append([]string{}, chatNames...)
		for i := range 40 {
			names = append(names, strings.Repeat("x", i+1))
		}
		out := make([]Value, len(names))
		if err := mustParse(t, `{"model":1,"xxx":2}`).Root().Fields(names, out); err != nil || !out[0].Exists() || !out[len(chatNames)+2].Exists() {
			t.Error("not found")
		}
	})
}

func FuzzFields(f *testing.F) {
	f.Add([]byte(`{"model":1,"Model":2,"\u006dodel":3,"messages":[],"n":1,"N":2}`))
	f.Add([]byte(`{"\u017fTREAM":1,"to\u212a":2,"":3,"user":[1],"stop":null}`))
	f.Add([]byte("{\"\u212a\":1,\"k\":2,\"ſ\":3}"))
	lists := [][]string{chatNames, {"k", "s", "model"}, {"n"}, {""}, append([]string{"", "k", "s"}, chatNames...)}
	f.Fuzz(func(t *testing.T, src []byte) {
		var d Doc
		if d.Parse(src, Options{}) != nil || !d.Root().IsObject() {
			return
		}
		for _, names := range lists {
			var want *MemberError
			values := make([]Value, len(names))
			for it := d.Root().Iter(); it.Next() && want == nil; {
				key := string(it.Key().AppendTo(nil))
				for i, name := range names {
					switch {
					case key == name && values[i].Exists():
						want = &MemberError{Name: name, Problem: MemberDuplicate}
					case key == name:
						values[i] = it.Value()
					case strings.EqualFold(key, name):
						want = &MemberError{Name: name, Problem: CaseVariant}
					}
				}
			}
			out := make([]Value, len(names))
			err := d.Root().Fields(names, out)
			again := make([]Value, len(names))
			if aerr := NewNameIndex(names...).Fields(d.Root(), again); !reflect.DeepEqual(aerr, err) || err == nil && !slices.Equal(again, out) {
				t.Fatalf("%q: %v by Names, %v by Fields", src, aerr, err)
			}
			var got *MemberError
			if err != nil && !errors.As(err, &got) {
				t.Fatal(err)
			}
			if (got == nil) != (want == nil) || got != nil && (got.Name != want.Name || got.Problem != want.Problem) {
				t.Fatalf("%q: got %v, want %v", src, got, want)
			}
			if want == nil {
				for i := range names {
					if out[i] != values[i] {
						t.Fatalf("%q: %s is %q, want %q", src, names[i], out[i].Raw(), values[i].Raw())
					}
				}
			}
		}
	})
}

func TestNamesIndex(t *testing.T) {
	n := NewNameIndex("stop", "tools", "n", "top_k")
	for name, want := range map[string]int{
		"stop": 0, "tools": 1, "n": 2, "top_k": 3, "STOP": 0, `st\u006fp`: 0, "\u212a": -1, "top_\u212a": 3, "": -1, "sto": -1, "stopp": -1, "toolt": -1,
	} {
		var d Doc
		if err := d.Parse([]byte(`{"`+name+`":1}`), Options{}); err != nil {
			t.Fatal(err)
		}
		it := d.Root().Iter()
		it.Next()
		if got := n.Index(it.Key()); got != want {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
	}
}

func TestPair(t *testing.T) {
	for src, want := range map[string]bool{
		`{"a":1,"b":[2]}`: true, `{"a":{"x":1},"b":2}`: true, `{"b":2,"a":1}`: false, `{"a":1}`: false, `{}`: false, `[]`: false, `1`: false,
		`{"a":1,"b":2,"c":3}`: false, `{"a":1,"a":2}`: false, `{"\u0061":1,"b":2}`: false, `{"A":1,"b":2}`: false,
	} {
		var d Doc
		if err := d.Parse([]byte(src), Options{}); err != nil {
			t.Fatal(err)
		}
		a, b, ok := d.Root().ReadTwoMembers("a", "b")
		if ok != want || ok && (a != d.Root().Get("a") || b != d.Root().Get("b")) {
			t.Errorf("%s: %s, %s, %v", src, a.Raw(), b.Raw(), ok)
		}
	}
	if _, _, ok := (Value{}).ReadTwoMembers("a", "b"); ok {
		t.Error("an absent value has members")
	}
}
