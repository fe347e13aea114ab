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

// schema is what is read of the JSON Schema of the configuration.
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
	meanings := exampleMeanings(read(t, "config/example.yaml"))
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(root.Properties)) {
		fmt.Fprintf(&b, "## %s\n\n", name)
		if s := root.Properties[name]; s.Properties != nil && meaning(s, meanings[name]) != "" { // others have a row
			fmt.Fprintf(&b, "%s\n\n", meaning(s, meanings[name]))
		}
		b.WriteString(row("setting", "value", "default", "meaning") + "| --- | --- | --- | --- |\n")
		writeSettings(t, &b, root.Properties[name], name, false, meanings)
		b.WriteString("\n")
	}
	page(t, "config/reference.md", "Settings",
		"Every setting, by its path in the file; `[]` stands for each entry of a list. A value may be `${VAR}` everywhere. [example.yaml](example.yaml) shows them in place,\n"+
			"[README.md](README.md) tells how the file is read. Those of `engines` are in a profile's own words: [the bundled ones](../upstreams/README.md#one-by-one).", b.String())
}

// writeSettings writes the rows of the settings at path and below it. Each must have a meaning.
func writeSettings(t *testing.T, b *strings.Builder, s *schema, path string, required bool, meanings map[string]string) {
	t.Helper()
	if s.Properties == nil || slices.Contains(kinds(s), "true or false") {
		must := ""
		if required {
			must = "(has to be given)"
		} else if d := defaultOf(s); d != nil {
			must = fmt.Sprintf("`%v`", d)
		}
		said := meaning(s, meanings[path])
		if said == "" {
			t.Errorf("%s: nobody says what it is: give its field a comment", path)
		}
		if broken.MatchString(said) {
			t.Errorf("%s: %q names Go code or is no whole sentence", path, said)
		}
		b.WriteString(row("`"+path+"`", strings.Join(kinds(s), ", "), must, said))
	}
	for _, part := range append([]*schema{s}, s.AnyOf...) {
		list := ""
		if part.Items != nil {
			part, list = part.Items, "[]"
		}
		for _, name := range slices.Sorted(maps.Keys(part.Properties)) {
			writeSettings(t, b, part.Properties[name], path+list+"."+name, slices.Contains(part.Required, name), meanings)
		}
	}
}

// broken is what no meaning may have: a reference to a name of Go's, a call of a function, an end
// that waits for more, or nothing but a word that leads to another row.
var broken = regexp.MustCompile(`\b(see|default:?) [A-Z][a-z]+[A-Z]\w*|\w\(\)|[;:,]$|^likewise$`)

// kinds are the forms that a value may have, in words.
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
	case strings.HasPrefix(s.Pattern, `\$`), s.Const != nil: // a variable, or the 0 of a duration
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

// meaning is what is said of a setting: in the example, or in the schema.
func meaning(s *schema, example string) string {
	if example != "" {
		return example
	}
	return s.Description
}

var (
	exampleKey = regexp.MustCompile(`^( *)(#?)(- )?(\w+):(?:\s|$)(.*)$`)
	remark     = regexp.MustCompile(`(?:^|\s)# (.*)$`)
)

// exampleMeanings are the remarks of the example, by the path of their setting: behind it, or in the
// lines above it.
func exampleMeanings(text string) map[string]string {
	meanings := map[string]string{}
	type level struct {
		indent int
		path   string
	}
	var levels []level
	var above []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		m := exampleKey.FindStringSubmatch(line)
		if m == nil {
			if words, ok := strings.CutPrefix(strings.TrimSpace(line), "# "); ok {
				above = append(above, words)
			} else {
				above = nil
			}
			continue
		}
		indent := len(m[1]) + len(m[3])
		for len(levels) > 0 && levels[len(levels)-1].indent >= indent {
			levels = levels[:len(levels)-1]
		}
		path := m[4]
		if len(levels) > 0 {
			parent := levels[len(levels)-1]
			path = parent.path + "." + m[4]
			if slices.Contains([]string{"keys", "issuers", "engines", "upstreams", "models"}, parent.path) {
				path = parent.path + "[]." + m[4]
			}
		}
		levels = append(levels, level{indent, path})
		said := strings.Join(above, " ")
		if r := remark.FindStringSubmatch(m[5]); r != nil {
			said = r[1]
		}
		if said != "" && meanings[path] == "" {
			meanings[path] = said
		}
		above = nil
	}
	return meanings
}
