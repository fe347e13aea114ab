package chat

import (
	"fmt"
	"strings"
	"testing"

	"penstock/translate/jsonx"
)

// TestSchemaBounds checks that the total size of a schema is limited in every member and for every
// spelling.
func TestSchemaBounds(t *testing.T) {
	list := func(n int, element string) string { return "[" + strings.Repeat(element+",", n-1) + element + "]" }
	enum := func(n int) string { return `{"type":"string","enum":` + list(n, `"ab"`) + `}` }
	properties := func(n int, schema string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"p%d":%s`, i, schema)
		}
		return `{"type":"object","properties":{` + b.String()[1:] + `}}`
	}
	pattern := `{"type":"string","pattern":"` + strings.Repeat("a", 2000) + `"}`
	prose := strings.Repeat("the colour of a thing, in words: ", 10)
	for _, c := range []struct {
		name, schema string
		passes       bool
	}{
		{"few", enum(100), true},
		{"as many as may be", enum(maxListElements), true},
		{"one more", enum(maxListElements + 1), false},
		{"white space", `{"enum"` + "\n : \t" + list(maxListElements+1, ` "ab" `) + `}`, false},
		{"many", enum(60_000), false},
		{"an escaped name", `{"\u0065num":` + list(maxListElements+1, `"ab"`) + `}`, false},
		{"another case", `{"Enum":` + list(maxListElements+1, `"ab"`) + `}`, false},
		{"quotes in it", `{"enum":` + list(maxListElements+1, `"\"b\\"`) + `}`, false},
		{"wide characters in it", `{"enum":` + list(maxListElements+1, `"ä€😀"`) + `}`, false},
		{"in many properties", properties(50, enum(100)), false},
		{"alternatives", `{"anyOf":` + list(5000, `{"const":"a"}`) + `}`, false},
		{"alternatives of alternatives", `{"anyOf":` + list(2500, `{"oneOf":[{}]}`) + `}`, false},
		{"what is required", `{"required":` + list(20_000, `"name"`) + `}`, true},
		{"a property named enum", `{"properties":{"enum":` + properties(400, `{"description":"`+prose+`"}`) + `}}`, true},
		{"a property named pattern", `{"properties":{"pattern":{"description":"` + strings.Repeat(prose, 80) + `"}}}`, true},
		{"text about it", `{"description":"` + strings.Repeat(`\"enum\":[1,2,3],`, 9000) + `"}`, true},
		{"patterns", properties(8, pattern), true},
		{"more patterns", properties(9, pattern), false},
		{"an escaped pattern", properties(9, strings.Replace(pattern, "pattern", `p\u0061ttern`, 1)), false},
		{"patterns of names", `{"patternProperties":{` + strings.Repeat(`"`+strings.Repeat("a", 2000)+`":{},`, 9) + `"a":{}}}`, false},
		{"a long one", `{"description":"` + strings.Repeat("a", maxGrammarBytes) + `"}`, false},
	} {
		text := string(jsonx.AppendString(nil, []byte(c.schema)))
		for member, body := range map[string]string{
			"response_format":                   `{"type":"json_schema","json_schema":{"name":"a","schema":` + c.schema + `}}`,
			"guided_json":                       c.schema,
			"json_schema":                       c.schema,
			"structured_outputs.json":           text,
			"structured_outputs.structural_tag": `{"format":{"type":"json_schema","json_schema":` + c.schema + `}}`,
			"structural_tag":                    text,
			"text.format":                       `{"type":"json_schema","schema":` + c.schema + `}`,
			"output_config.format":              `{"type":"json_schema","schema":` + c.schema + `}`,
			"grammar.value":                     c.schema,
		} {
			request := `{"` + member + `":` + body + `}`
			if outer, inner, nested := strings.Cut(member, "."); nested {
				request = `{"` + outer + `":{"` + inner + `":` + body + `}}`
			}
			// The escapes make the string longer than the limit.
			if strings.HasPrefix(body, `"`) && len(body) > maxGrammarBytes {
				continue
			}
			check := func(request string) *InvalidMember {
				var d jsonx.Doc
				if err := d.Parse([]byte(request), jsonx.Options{}); err != nil {
					t.Fatal(err)
				}
				return CheckBounds(d.Root())
			}
			if e := check(request); (e == nil) != c.passes || e != nil && e.Param != member && e.Param != "grammar" {
				t.Errorf("%s in %s: got %v, want success: %v", c.name, member, e, c.passes)
			}
		}
	}
}

// TestToolSchemaBounds checks that the limit applies to the schemas of all tools in total, and that
// many tools fit.
func TestToolSchemaBounds(t *testing.T) {
	tools := func(n int, parameters string) string {
		tool := `{"type":"function","function":{"name":"a","description":"what it is for","parameters":` + parameters + `}}`
		return `{"tools":[` + strings.Repeat(tool+",", n-1) + tool + `]}`
	}
	usual := `{"type":"object","properties":{` + strings.Repeat(`"p":{"type":["string","null"],"description":"d","enum":["a","b","c"]},`, 10) + `"q":{}},"required":["p","q"]}`
	pattern := `{"properties":{"a":{"pattern":"` + strings.Repeat("a", 6000) + `"}}}`
	for _, c := range []struct {
		name, body string
		passes     bool
	}{
		{"many usual ones", tools(128, usual), true},
		{"an enumeration", tools(1, `{"enum":["a"`+strings.Repeat(`,"a"`, maxListElements)+`]}`), false},
		{"an enumeration in each", tools(100, `{"enum":["a"`+strings.Repeat(`,"a"`, 200)+`]}`), false},
		{"alternatives", tools(100, `{"anyOf":[{}`+strings.Repeat(`,{}`, 200)+`]}`), false},
		{"a pattern", tools(2, pattern), true},
		{"a pattern in each", tools(100, pattern), false},
	} {
		var d jsonx.Doc
		if err := d.Parse([]byte(c.body), jsonx.Options{}); err != nil {
			t.Fatal(err)
		}
		if e := CheckBounds(d.Root()); (e == nil) != c.passes || e != nil && e.Param != "tools" {
			t.Errorf("%s: got %v, want success: %v", c.name, e, c.passes)
		}
	}
}

// BenchmarkSchemaBounds measures the check of a request with many tools.
func BenchmarkSchemaBounds(b *testing.B) {
	tool := `{"type":"function","function":{"name":"a","description":"` + strings.Repeat("what it is for, and when not. ", 10) + `","parameters":{"type":"object","properties":{` +
		strings.Repeat(`"path":{"type":"string","description":"the absolute path of the file to read, not a relative one"},`, 4) + `"q":{"enum":["a","b"]}},"required":["p","q"]}}}`
	raw := `{"tools":[` + strings.Repeat(tool+",", 99) + tool + `]}`
	for name, text := range map[string]string{"plain": raw, "scan": strings.Replace(raw, `"q"`, `"pattern"`, 1)} {
		b.Run(name, func(b *testing.B) { benchmarkBounds(b, text) })
	}
}

func benchmarkBounds(b *testing.B, text string) {
	raw := []byte(text)
	var d jsonx.Doc
	if err := d.Parse(raw, jsonx.Options{}); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if CheckBounds(d.Root()) != nil {
			b.Fatal("refused")
		}
	}
}
