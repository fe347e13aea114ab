package jsonx

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

func mustParse(t testing.TB, src string) *Doc {
	t.Helper()
	d := new(Doc)
	if err := d.Parse([]byte(src), Options{}); err != nil {
		t.Fatalf("Parse(%.100q) = %v, want success", src, err)
	}
	return d
}

func TestParseAccepts(t *testing.T) {
	for _, src := range []string{
		`null`, `true`, `false`, `0`, `-0`, `1`, `-12.5e+3`, `1E5`, `0.0`, `1e999999`, ` "a" `, "\t\r\n {} \n",
		`[]`, `[ ]`, `{ }`, `[1,2 , 3]`, `{"a":1}`, `{ "a" : [ { } , [ ] , null ] , "b" : "" }`,
		`"\"\\\/\b\f\n\r\t\u00e9\uD83D\ude00"`, `"\ud800"`, `"\udc00\ud800x"`, `"ünï漢字😀"`, "\"\u007f\u0080\uffff\U0010ffff\"",
		`"1234567"`, `"12345678"`, `"123456789"`, `{"a":1,"a":2}`, `""`,
	} {
		if err := new(Doc).Parse([]byte(src), Options{}); err != nil {
			t.Errorf("Parse(%s) = %v, want success", src, err)
		}
		if !json.Valid([]byte(src)) {
			t.Errorf("%s: the oracle disagrees", src)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		src    string
		offset int
		reason string
	}{
		{``, 0, reasonEnd},
		{"  ", 2, reasonEnd},
		{"\ufeff{}", 0, reasonBOM},
		{"\xff\xfe{\x00}\x00", 0, reasonBOM},
		{"\x00{\x00}", 0, reasonBOM},
		{"{\x00}\x00", 1, reasonName},
		{`NaN`, 0, reasonValue},
		{`[Infinity]`, 1, reasonValue},
		{`[\ufeff]`, 1, reasonValue},
		{"[\xef\xbb\xbf]", 1, reasonValue},
		{`// c`, 0, reasonValue},
		{`{"a":1} // c`, 8, reasonTrailing},
		{`{"a":1}{}`, 7, reasonTrailing},
		{`{} x`, 3, reasonTrailing},
		{`01`, 1, reasonNumber},
		{`-`, 1, reasonEnd},
		{`-a`, 1, reasonNumber},
		{`+1`, 0, reasonValue},
		{`.5`, 0, reasonValue},
		{`1.`, 2, reasonEnd},
		{`1.x`, 2, reasonNumber},
		{`1e`, 2, reasonEnd},
		{`1e+ `, 3, reasonNumber},
		{`0x10`, 1, reasonTrailing},
		{`tru`, 3, reasonEnd},
		{`trux`, 3, reasonLiteral},
		{`[nul]`, 4, reasonLiteral},
		{`falsey`, 5, reasonTrailing},
		{`"abc`, 4, reasonEnd},
		{`"abc\`, 5, reasonEnd},
		{`"abc\u12`, 8, reasonEnd},
		{`"\u12g4"`, 5, reasonEscape},
		{`"\x41"`, 2, reasonEscape},
		{"\"a\nb\"", 2, reasonControl},
		{"\"0123456789\x00\"", 11, reasonControl},
		{"\"a\x80\"", 2, reasonUTF8},
		{"\"\xc0\xaf\"", 1, reasonUTF8},
		{"\"\xe0\x80\x80\"", 1, reasonUTF8},
		{"\"\xed\xa0\x80\"", 1, reasonUTF8},
		{"\"\xf4\x90\x80\x80\"", 1, reasonUTF8},
		{"\"é\xe2\x82\"", 3, reasonUTF8},
		{"\"\xf0\x9f\x98", 1, reasonUTF8},
		{`'a'`, 0, reasonValue},
		{`{`, 1, reasonEnd},
		{`{a:1}`, 1, reasonName},
		{`{"a"}`, 4, reasonColon},
		{`{"a":}`, 5, reasonValue},
		{`{"a":1,}`, 7, reasonName},
		{`{"a":1,"b"`, 10, reasonEnd},
		{`{"a":1 "b":2}`, 7, reasonObject},
		{`{"a":1]`, 6, reasonObject},
		{`[`, 1, reasonEnd},
		{`[1`, 2, reasonEnd},
		{`[1,]`, 3, reasonValue},
		{`[,1]`, 1, reasonValue},
		{`[1 2]`, 3, reasonArray},
		{`[1}`, 2, reasonArray},
		{`]`, 0, reasonValue},
	} {
		var d Doc
		err := d.Parse([]byte(c.src), Options{})
		want := &SyntaxError{c.offset, c.reason}
		if !reflect.DeepEqual(err, error(want)) {
			t.Errorf("%q: got %v, want %v", c.src, err, want)
		}
		if json.Valid([]byte(c.src)) && utf8.ValidString(c.src) {
			t.Errorf("%q: the oracle accepts it", c.src)
		}
		if d.Root().Exists() {
			t.Errorf("%q: the document is not empty", c.src)
		}
	}
}

func TestParseLimits(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	members := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"k%d":%d`, i, i)
		}
		return "{" + strings.TrimPrefix(b.String(), ",") + "}"
	}
	deepMembers := strings.Repeat("[", 20) + members(MaxMembers+1) + strings.Repeat("]", 20)
	for _, c := range []struct {
		name, src string
		o         Options
		want      *LimitError
	}{
		{"depth", nested(64), Options{}, nil},
		{"too deep", nested(65), Options{}, &LimitError{64, LimitDepth, 64}},
		{"far too deep", strings.Repeat("[", 100_000), Options{}, &LimitError{64, LimitDepth, 64}},
		{"depth set", nested(3), Options{MaxDepth: 2}, &LimitError{2, LimitDepth, 2}},
		{"depth bounded", nested(1100), Options{MaxDepth: 5000}, &LimitError{1024, LimitDepth, 1024}},
		{"scalar", `1`, Options{MaxDepth: 1}, nil},
		{"members", members(MaxMembers), Options{}, nil},
		{"too many members", members(MaxMembers + 1), Options{}, &LimitError{len(members(MaxMembers)), LimitMembers, MaxMembers}},
		{"too many members, not recorded", deepMembers, Options{}, &LimitError{20 + len(members(MaxMembers)), LimitMembers, MaxMembers}},
		{"nodes", `[1,2,3]`, Options{MaxNodes: 4}, nil},
		{"too many nodes", `[1,2,3]`, Options{MaxNodes: 3}, &LimitError{5, LimitNodes, 3}},
		{"too many nodes, name", `{"a":1,"b":2}`, Options{MaxNodes: 3}, &LimitError{7, LimitNodes, 3}},
		{"nodes that are not recorded", `[[1,2,3]]`, Options{MaxNodes: 2, Record: 1}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := mustParse(t, `[1,2,3,4,5,6,7,8,9]`) // the tape is now larger than the limit below
			err := d.Parse([]byte(c.src), c.o)
			var got *LimitError
			if err != nil && !errors.As(err, &got) {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestErrorTexts(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&SyntaxError{3, reasonNumber}, "parse JSON: invalid number at byte 3"},
		{&LimitError{7, LimitMembers, 10}, "parse JSON: more than 10 members of one object at byte 7"},
		{&MemberError{"model", MemberDuplicate, 1}, `read JSON object: member "model" is given twice`},
		{&MemberError{"model", CaseVariant, 1}, `read JSON object: member "model" is spelt in another case`},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestRecord(t *testing.T) {
	var d Doc
	if err := d.Parse([]byte(`{"a":{"b":[1,{}]},"c":[],"d":[[2]],"e":5}`), Options{Record: 2}); err != nil {
		t.Fatal(err)
	}
	root := d.Root()
	b := root.Get("a").Get("b")
	if string(b.Raw()) != `[1,{}]` || b.HasRecordedChildren() || b.Len() != 0 || b.Kind() != Array {
		t.Errorf("b: %s recorded %v len %d", b.Raw(), b.HasRecordedChildren(), b.Len())
	}
	if c := root.Get("c"); !c.HasRecordedChildren() || c.Len() != 0 {
		t.Error("c: an empty container has nothing that is not recorded")
	}
	if e := root.Get("e"); string(e.Raw()) != "5" {
		t.Errorf("e = %s, want 5", e.Raw())
	}
	if got := root.Get("d").Index(0).Raw(); string(got) != "[2]" {
		t.Errorf("d[0] = %s, want [2]", got)
	}
}

func TestReset(t *testing.T) {
	d := mustParse(t, "["+strings.Repeat("1,", maxKeptNodes)+"1]")
	d.Reset()
	if d.src != nil || d.nodes != nil || d.Root().Exists() {
		t.Error("a huge tape is kept")
	}
	if err := d.Parse([]byte(`[1]`), Options{}); err != nil {
		t.Fatal(err)
	}
	d.Reset()
	if d.src != nil || cap(d.nodes) == 0 || d.Root().Exists() {
		t.Error("a small tape is dropped")
	}
}

// toAny converts v to the value that encoding/json decodes with UseNumber.
func toAny(v Value) any {
	switch v.Kind() {
	case Null:
		return nil
	case True, False:
		b, _ := v.Bool()
		return b
	case Number:
		return json.Number(v.Raw())
	case String:
		return string(v.AppendText(nil))
	case Array:
		a := []any{}
		for it := v.Iter(); it.Next(); {
			a = append(a, toAny(it.Value()))
		}
		return a
	case Object:
		m := map[string]any{}
		for it := v.Iter(); it.Next(); {
			k := string(it.Key().AppendTo(nil))
			if !it.Key().Equals(k) || !it.Key().EqualFold(strings.ToUpper(k)) && isASCII(k) {
				panic("Is or Fold disagree with AppendTo for " + k)
			}
			m[k] = toAny(it.Value())
		}
		return m
	}
	panic("invalid kind")
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// scanDocs is reused, because allocating documents costs more than the scans.
var scanDocs [2]Doc

// sameWithoutVectors checks that strings are scanned with the same result with and without vector
// code.
func sameWithoutVectors(t *testing.T, src []byte) {
	t.Helper()
	if !hasVectorText {
		return
	}
	texts := [][]byte{src}
	for _, n := range []int{31, 62, 63, 64, 100, 127} {
		pad := strings.Repeat("a", n)
		texts = append(texts, []byte(`["`+pad+string(src)+pad+`"]`))
	}
	with, without := &scanDocs[0], &scanDocs[1]
	for _, text := range texts {
		err := with.Parse(text, Options{Record: 64})
		hasVectorText = false
		werr := without.Parse(text, Options{Record: 64})
		hasVectorText = true
		if !reflect.DeepEqual(err, werr) || !slices.Equal(with.nodes, without.nodes) {
			t.Fatalf("%q: %v with vectors, %v without", text, err, werr)
		}
	}
}

// TestVectors puts every byte at every position in a block: in plain text, after an escape, and
// after one or two backslashes.
func TestVectors(t *testing.T) {
	for i := range 130 {
		for c := range 256 {
			for _, before := range []string{"", `\n`, `\n\`, `\n\\`, `\nabc\`} {
				text := bytes.Repeat([]byte("a"), 260)
				text[0], text[259] = '"', '"'
				copy(text[30+i:], before)
				text[30+i+len(before)] = byte(c)
				sameWithoutVectors(t, text)
			}
		}
	}
}

// TestVectorsOnRuns puts runs of backslashes of every length at every position in a block, both
// before bytes that may be escaped and before other bytes.
func TestVectorsOnRuns(t *testing.T) {
	for at := range 66 {
		for run := range 70 {
			for _, behind := range []string{`n`, `"`, `u0041`, `x`, "\x01", "ä"} {
				text := `"` + strings.Repeat("a", 20+at) + strings.Repeat(`\`, run) + behind + strings.Repeat("b", 200) + `\"c"`
				sameWithoutVectors(t, []byte(text))
			}
		}
	}
}

// TestVectorsAfterAString checks that the bytes after a string within a block do not affect the
// string.
func TestVectorsAfterAString(t *testing.T) {
	for n := 20; n < 160; n += 3 {
		for m := range 70 {
			for _, behind := range []string{"ä", `\n`, `\u0041`} {
				rest := strings.Repeat("b", m) + behind + strings.Repeat("c", 100)
				sameWithoutVectors(t, []byte(`["`+strings.Repeat("a", n)+`","`+rest+`"]`))
				sameWithoutVectors(t, []byte(`{"`+strings.Repeat("a", n)+`":"`+rest+`"}`))
			}
		}
	}
}

// TestVectorsOnCharacters puts multi-byte characters at every position in a block: whole,
// truncated, overlong and out of range.
func TestVectorsOnCharacters(t *testing.T) {
	bytesOf := func(first, second []byte, rest ...string) (out []string) {
		for _, a := range first {
			for _, b := range second {
				for _, r := range rest {
					out = append(out, string([]byte{a, b})+r)
				}
			}
		}
		return out
	}
	seconds := []byte{0x00, '"', '\\', 'a', 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xe0, 0xf0, 0xff}
	odd := bytesOf([]byte{0x80, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xf8, 0xff},
		seconds, "", "\x80", "\xbf", "\x80\x80", "\xbf\xbf", "\x80\x80\x80", "\x80a", "\xc3\xa4", "\x80\xc3\xa4")
	for _, around := range []string{"a", "ä", "水", "𝄞", `\n`} {
		for at := range 66 {
			pad := strings.Repeat("a", at)
			for i := at % 11; i < len(odd); i += 11 { // each sequence is tested at six offsets
				text := `"` + pad + strings.Repeat(around, 40) + odd[i] + strings.Repeat(around, 70) + `"`
				sameWithoutVectors(t, []byte(text))
			}
		}
	}
}

// compareWithEncodingJSON compares Parse with encoding/json.
func compareWithEncodingJSON(t *testing.T, src []byte) {
	t.Helper()
	sameWithoutVectors(t, src)
	var d Doc
	err := d.Parse(src, Options{Record: 64})
	var limit *LimitError
	if errors.As(err, &limit) {
		return
	}
	want := json.Valid(src) && utf8.Valid(src)
	if (err == nil) != want {
		t.Fatalf("Parse(%q) = %v, want success: %v", src, err, want)
	}
	var shallow Doc
	if serr := shallow.Parse(src, Options{Record: 1}); !reflect.DeepEqual(serr, err) {
		t.Fatalf("%q: %v when recorded, %v when not", src, err, serr)
	}
	if perr := new(Doc).Parse(src, Options{Paired: true}); (perr == nil) != (want && !hasLoneSurrogate(src)) {
		t.Fatalf("%q: %v with Paired", src, perr)
	}
	if err != nil {
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(src) {
			t.Fatalf("Parse(%q) = %#v, want a SyntaxError with an offset", src, err)
		}
		return
	}
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	var oracle any
	if err := dec.Decode(&oracle); err != nil {
		t.Fatal(err)
	}
	if got := toAny(d.Root()); !reflect.DeepEqual(got, oracle) {
		t.Fatalf("%q: got %#v, want %#v", src, got, oracle)
	}
	for i := range d.nodes {
		if d.nodes[i].kind == Number {
			checkNumber(t, Value{&d, int32(i)})
		}
	}
	// Offsets must be correct even if children are not recorded.
	a, b := d.Root().Iter(), shallow.Root().Iter()
	for a.Next() {
		if !b.Next() || !bytes.Equal(a.Value().Raw(), b.Value().Raw()) || !bytes.Equal(a.Key().Raw(), b.Key().Raw()) {
			t.Fatalf("%q: first level differs", src)
		}
	}
	if b.Next() {
		t.Fatalf("%q: first level differs", src)
	}
}

func checkNumber(t *testing.T, v Value) {
	t.Helper()
	raw := string(v.Raw())
	f, ok := v.Float()
	want, err := strconv.ParseFloat(raw, 64)
	if ok != (err == nil) || ok && f != want {
		t.Fatalf("Float(%s) = %v, %v, want %v", raw, f, ok, want)
	}
	if _, exp, _ := strings.Cut(strings.ToLower(raw), "e"); len(exp) > 4 {
		return
	}
	r, _ := new(big.Rat).SetString(raw)
	i, ok := v.Int()
	wantOK := r.IsInt() && r.Num().IsInt64()
	if ok != wantOK || ok && i != r.Num().Int64() {
		t.Fatalf("Int(%s) = %v, %v, want %v", raw, i, ok, wantOK)
	}
}

var anyEscape = regexp.MustCompile(`\\(u[0-9a-fA-F]{4}|.)`)

// hasLoneSurrogate reports whether a valid JSON text contains an escape for half a surrogate pair.
func hasLoneSurrogate(src []byte) bool {
	all := anyEscape.FindAllIndex(src, -1)
	code := func(i int) rune {
		if i == len(all) || src[all[i][0]+1] != 'u' {
			return 0
		}
		n, _ := strconv.ParseUint(string(src[all[i][0]+2:all[i][1]]), 16, 16)
		return rune(n)
	}
	for i := 0; i < len(all); i++ {
		if !utf16.IsSurrogate(code(i)) {
			continue
		}
		if i+1 == len(all) || all[i+1][0] != all[i][1] || utf16.DecodeRune(code(i), code(i+1)) == utf8.RuneError {
			return true
		}
		i++
	}
	return false
}

func TestParsePaired(t *testing.T) {
	for src, offset := range map[string]int{
		`"\ud83d\ude00"`: -1, `"\uD83D\uDE00"`: -1, `["\ud7ff\ue000"]`: -1, `"\\ud800"`: -1, `{"\ud83d\ude00":"\ud83d\ude00\ud83d\ude00"}`: -1,
		`"\ud800"`: 0, `[1,"\udc00"]`: 3, `"\ud800\ud800\udc00"`: 0, `"\ud83dx\ude00"`: 0, `"\ude00\ud83d"`: 0, `{"\uD800":1}`: 1, `"\ud800\n"`: 0, `"\ud800\u0041"`: 0,
		`[[[[[[[[[["\ud800"]]]]]]]]]]`: 10, // deeper than the recorded levels
	} {
		err := new(Doc).Parse([]byte(src), Options{Paired: true})
		var syntax *SyntaxError
		if offset < 0 && err != nil || offset >= 0 && (!errors.As(err, &syntax) || *syntax != SyntaxError{offset, reasonLoneSurrogate}) {
			t.Errorf("Parse(%s) = %v, want an error at %d", src, err, offset)
		}
		compareWithEncodingJSON(t, []byte(src))
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","messages":[{"role":"user","content":"hi \u00e9\ud83d\ude00\n"}],"temperature":0.7,"n":1e0}`,
		` [1,-0.5e-7,true,false,null,"",{}, [ ] ,{"a":{"a":[]}}] `, "\"漢字\xff\"", `"\ud800\u0041\udc00"`, `{"a":1,"\u0061":2}`,
		"\"\x1f\"", "\"12345678\x1f9\"", "\"\x7f\"", "\"\t\"", `"\u00Gg"`, `"\u00fG"`, `"\uABCDEF"`, `"\uD83D\uDE00\uDFFF"`, `"\x41"`, `"\`, `"\u12`, `"unended`, `""x`,
		"\"\xc0\x80\"", "\"\xc1\xbf\"", "\"\xe0\x9f\xbf\"", "\"\xe4\xb8A\"", "\"\xe4\xb8\"", "\"\xed\xa0\x80\"", "\"\xf0\x8f\xbf\xbf\"", "\"\xf0\x9f\x98A\"", "\"\xf4\x90\x80\x80\"", "\"\xf5\x80\x80\x80\"",
		"\"12345678\xed\xa0\x80\xe4\xb8\xad\xe4\xb8\xad\"", "\"\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\xf4\x8f\xbf\xbf\"", "\"\x80\"", "\"a\xff12345678\"",
		`01`, `-`, `1.`, `.5`, `1e`, `1e+`, `+1`, `-0`, `0x1`, `NaN`, `tru`, `nulll`, `[1,]`, `[,1]`, `{"a":1,}`, `{"a"}`, `{a:1}`, `{"a":1 "b":2}`, `[1}`, `[`, `{"a":`, ``, ` `, `1 2`, "1\v", "[\r\n\t 1]",
		`9223372036854775807`, `-9223372036854775808`, `1.50e1`, `100e-2`, `0e5`, "\ufeff1", `12345678901234567890123`, `0.000`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(compareWithEncodingJSON)
}

func FuzzString(f *testing.F) {
	for _, s := range []string{"", "plain", "\x00\x1f\"\\\b\f\n\r\t/<>&\u2028\x7f", "é漢😀\xff\xc3", "0123456789abcdef\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, s []byte) {
		marshaled, err := json.Marshal(string(s))
		if err != nil {
			t.Fatal(err)
		}
		var want string
		if err := json.Unmarshal(marshaled, &want); err != nil {
			t.Fatal(err)
		}
		got := AppendString([]byte("x"), s)[1:]
		if !utf8.Valid(got) {
			t.Fatalf("%q is not UTF-8", got)
		}
		d := mustParse(t, string(got))
		if text := d.Root().AppendText(nil); string(text) != want || !d.Root().EqualText(want) {
			t.Fatalf("%q: got %q, want %q", s, text, want)
		}
		compareWithEncodingJSON(t, got)
		if utf8.Valid(s) && len(got) > len(marshaled) {
			t.Fatalf("%q: more is escaped than by encoding/json: %s", s, got)
		}
		if d.Root().EqualText(want + "x") {
			t.Fatal("EqualText accepts a longer text")
		}
	})
}

// FuzzStringEnd checks that ValidateString and Parse accept the same strings, whatever text
// follows.
func FuzzStringEnd(f *testing.F) {
	for _, s := range []string{"", "plain", "0123456789abcdef0123456789abcdef", "a\\", `\\`, `\"`, `a"b`, `\ud83d\ude00`, `\ud83d`, `\uDE00x`, `\u12`, "\x1f", "é漢😀", "\xc3", "0123456789abcdef0123456789abc\n"} {
		f.Add([]byte(s), []byte(`},"x":1`))
	}
	f.Fuzz(func(t *testing.T, s, behind []byte) {
		alone := append(append([]byte{'"'}, s...), '"')
		var d Doc
		valid := d.Parse(alone, Options{Paired: true}) == nil && d.Root().IsString() && len(d.Root().Raw()) == len(alone)
		end, escaped := ValidateString(append(slices.Clone(alone), behind...), 1)
		if (end == len(alone)) != valid {
			t.Fatalf("%q before %q ends at %d of %d, but %v is said of it alone", alone, behind, end, len(alone), valid)
		}
		if valid && escaped != bytes.Contains(s, []byte{'\\'}) {
			t.Fatalf("%q: escaped is %v", alone, escaped)
		}
	})
}
