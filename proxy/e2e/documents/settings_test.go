package documents

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// schema contains the members of the configuration's JSON Schema that the test reads.
type schema struct {
	Type        any
	Description string
	Default     any
	Const       any
	Enum        []any
	Pattern     string
	Properties  map[string]*schema
	Items       *schema
	AnyOf       []*schema
	Required    []string
}

func TestReferenceSettings(t *testing.T) {
	t.Parallel()
	var root schema
	if err := json.Unmarshal([]byte(read(t, "config/schema.json")), &root); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(root.Properties)) {
		fmt.Fprintf(&b, "## %s\n\n", name)
		// Settings below a list have separate rows.
		if s := root.Properties[name]; s.Properties != nil && s.Description != "" {
			fmt.Fprintf(&b, "%s\n\n", s.Description)
		}
		b.WriteString(row("setting", "value", "default", "meaning") + "| --- | --- | --- | --- |\n")
		writeSettings(t, &b, root.Properties[name], name, false)
		b.WriteString("\n")
	}
	page(t, "config/reference.md", "Settings",
		"Every setting, by its path in the file; `[]` stands for each entry of a list. A value may be `${VAR}` everywhere. [example.yaml](example.yaml) shows them in place,\n"+
			"[README.md](README.md) tells how the file is read. Those of `engines` are in a profile's own words: [the bundled ones](../upstreams/README.md#one-by-one).", b.String())
}

// writeSettings writes the rows for the settings at path and below. Each setting must have a
// description.
func writeSettings(t *testing.T, b *strings.Builder, s *schema, path string, required bool) {
	t.Helper()
	if s.Properties == nil || slices.Contains(kinds(s), "true or false") {
		must := ""
		if required {
			must = "(has to be given)"
		} else if d := defaultOf(s); d != nil {
			must = fmt.Sprintf("`%v`", d)
		} else if zero := zeroMeans.FindStringSubmatch(s.Description); zero != nil {
			must = "`" + zero[1] + "`"
		}
		if !sentences.MatchString(s.Description) {
			t.Errorf("%s: %q is not a full sentence: its field's comment explains it to an operator", path, s.Description)
		}
		b.WriteString(row("`"+path+"`", strings.Join(kinds(s), ", "), must, s.Description))
	}
	for _, part := range append([]*schema{s}, s.AnyOf...) {
		list := ""
		if part.Items != nil {
			part, list = part.Items, "[]"
		}
		for _, name := range slices.Sorted(maps.Keys(part.Properties)) {
			writeSettings(t, b, part.Properties[name], path+list+"."+name, slices.Contains(part.Required, name))
		}
	}
}

// zeroMeans matches text that explains the value 0 of a setting. If a description explains 0 and
// the schema has no default, the default is 0: the schema omits defaults that are 0.
var zeroMeans = regexp.MustCompile(`(?:^|\. )(0s?)(?::| sets )`)

// sentences matches every valid description. A description must not start with a Go name, such as
// "ClientCA".
var sentences = regexp.MustCompile(`^([A-Z][a-z]*|[A-Z:]+|5xx)[ ,].*\.$`)

func kinds(s *schema) (words []string) {
	add := func(word string) {
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	for _, v := range s.Enum {
		add(fmt.Sprintf("`%v`", v))
	}
	for _, part := range s.AnyOf {
		for _, word := range kinds(part) {
			add(word)
		}
	}
	if len(words) > 0 {
		return words
	}
	switch types := fmt.Sprint(s.Type); {
	case strings.HasPrefix(s.Pattern, `\$`), s.Const != nil: // a variable, or the duration 0
	case strings.Contains(s.Pattern, "ns|us"):
		add("duration")
	case strings.Contains(s.Pattern, "KMGT"):
		add("size")
	case strings.Contains(s.Pattern, "%"):
		add("percent")
	case s.Items != nil && len(kinds(s.Items)) > 0:
		add("list of " + strings.Join(kinds(s.Items), ", "))
	case strings.Contains(types, "array"):
		add("list")
	case strings.Contains(types, "object"):
		add("mapping")
	case strings.Contains(types, "boolean"):
		add("true or false")
	case strings.Contains(types, "number"), types == "integer":
		add("number")
	case strings.Contains(types, "string"):
		add("text")
	}
	return words
}

func defaultOf(s *schema) any {
	if s.Default != nil {
		return s.Default
	}
	for _, part := range s.AnyOf {
		if part.Default != nil {
			return part.Default
		}
	}
	return nil
}
