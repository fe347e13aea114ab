package chat

import (
	"bytes"
	"encoding/json"
	"strconv"

	"penstock/translate/jsonx"
)

// An engine compiles a JSON schema before it generates, and other requests wait meanwhile. One enum
// with 200,000 members occupies llama.cpp for minutes. The total size of a schema is therefore
// limited, wherever in a request the schema occurs.

// schemaBound limits the total size of all schemas in one member of a request.
type schemaBound struct{ listed int }

const (
	mostListed = 4096 // elements in all lists, mainly enums; the same limit as for guided_choice
	// mostToolsListed is the same limit for the schemas of all tools together: each tool may have
	// dozens of parameters, most with a short list. No single list may be longer than mostListed.
	mostToolsListed = 4 * mostListed
	// leastSchema is the minimum length of a text that can exceed any of the limits.
	leastSchema = 2 * mostListed
	schemaDepth = jsonx.DefaultMaxDepth + 1 // number of levels that are followed: all that a request may have
)

// exceeded says how the schemas in v exceed b. It returns an empty string if they do not. For short
// schemas it costs one comparison.
func (b *schemaBound) exceeded(v jsonx.Value) string {
	raw := v.Raw()
	if len(raw) <= leastSchema {
		return ""
	}
	if v.IsString() { // engines also accept a schema as a text
		raw = v.AppendText(nil)
		var d jsonx.Doc
		if d.Parse(raw, jsonx.Options{Record: 1}) != nil {
			return "must be a JSON schema, or at most " + strconv.Itoa(leastSchema>>10) + " KiB long"
		}
	}
	if plainlyWithin(raw) {
		return ""
	}
	var c schemaCount
	c.scan(raw)
	switch {
	case c.longest > mostListed:
		return "must hold at most " + strconv.Itoa(mostListed) + " elements in a list of a schema"
	case c.listed > b.listed:
		return "must hold at most " + strconv.Itoa(b.listed) + " elements in all lists of its schemas together"
	case c.patterns > longestRegex:
		return "must hold at most " + strconv.Itoa(longestRegex>>10) + " KiB of patterns"
	}
	return ""
}

// plainlyWithin reports whether a text has fewer commas and lists than a schema may have elements,
// and no patterns. This is the case for nearly every text. The check costs a tenth of a scan.
func plainlyWithin(raw []byte) bool {
	return bytes.Count(raw, []byte{','})+bytes.Count(raw, []byte{'['}) <= mostListed &&
		!bytes.Contains(raw, []byte(`"pattern`)) && !bytes.Contains(raw, []byte(`"regex`)) &&
		!bytes.Contains(raw, []byte(`\u006`)) && !bytes.Contains(raw, []byte(`\u007`)) // an escaped letter of these names
}

// container is the kind of a level in a schema.
type container uint8

const (
	object        container = iota
	patternObject           // its names are regular expressions
	list
	requiredList // a list of names, which costs an engine next to nothing
)

// schemaCount holds what a scan of schemas has counted.
type schemaCount struct {
	listed   int // elements in lists; an empty list counts as one
	longest  int // elements in the longest list
	patterns int // bytes in regular expressions
}

// schemaLevel is a list or an object that a scan is inside.
type schemaLevel struct {
	container
	elements int
}

// scan counts s, which must be valid JSON.
func (c *schemaCount) scan(s []byte) {
	var (
		levels [schemaDepth]schemaLevel
		depth  int
		key    string // of the member whose value comes next, if a scan counts it
	)
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '{':
			depth = min(depth+1, schemaDepth-1)
			levels[depth] = schemaLevel{container: object}
			if key == "patternProperties" {
				levels[depth].container = patternObject
			}
			key = ""
		case '[':
			depth = min(depth+1, schemaDepth-1)
			levels[depth] = schemaLevel{container: list, elements: 1}
			if key == "required" {
				levels[depth].container = requiredList
			}
			key = ""
		case '}', ']':
			if l := &levels[depth]; l.container == list {
				c.listed += l.elements
				c.longest = max(c.longest, l.elements)
			}
			depth = max(0, depth-1)
		case ',':
			levels[depth].elements++
			key = ""
		case '"':
			text := s[i+1 : endOfString(s, i+1)]
			i += len(text) + 1
			switch {
			case levels[depth].container <= patternObject && isName(s[i+1:]):
				key = schemaKey(text)
				if levels[depth].container == patternObject {
					c.patterns += len(text)
				}
			case key == "pattern" || key == "regex":
				c.patterns += len(text)
			}
		}
	}
}

// endOfString returns the offset of the closing quote of the string whose contents start at i.
func endOfString(s []byte, i int) int {
	for end := i; ; end++ {
		end += bytes.IndexByte(s[end:], '"')
		escape := end
		for escape > i && s[escape-1] == '\\' {
			escape--
		}
		if (end-escape)%2 == 0 {
			return end
		}
	}
}

// isName reports whether the string before rest is a member's name.
func isName(rest []byte) bool {
	if len(rest) > 0 && rest[0] != ':' {
		rest = bytes.TrimLeft(rest, " \t\r\n")
	}
	return len(rest) > 0 && rest[0] == ':'
}

// schemaKey returns the unescaped name of a member if a scan counts it, and "" otherwise.
func schemaKey(name []byte) string {
	const longest = len("patternProperties")
	if bytes.IndexByte(name, '\\') >= 0 {
		if len(name) > len(`\u0000`)*longest {
			return ""
		}
		var text string
		if json.Unmarshal([]byte(`"`+string(name)+`"`), &text) != nil {
			return ""
		}
		name = []byte(text)
	}
	switch string(name) {
	case "required":
		return "required"
	case "pattern":
		return "pattern"
	case "regex":
		return "regex"
	case "patternProperties":
		return "patternProperties"
	}
	return ""
}
