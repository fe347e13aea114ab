package chat

import (
	"bytes"
	"encoding/json"
	"strconv"

	"penstock/translate/jsonx"
)

// An engine compiles a JSON schema before it starts to generate, and other requests must wait. An
// enum with 200,000 members blocks llama.cpp for minutes. The edge therefore limits the total size
// of a schema.

// schemaBound limits the total size of all schemas in one member of a request.
type schemaBound struct{ maxListed int }

const (
	maxListElements = 4096 // elements in all lists, mainly enums; the same limit as for guided_choice
	// A tool may have dozens of parameters, most of which have a short list. No single list may be
	// longer than maxListElements.
	maxToolListElements = 4 * maxListElements
	// minScannedSchema is the length up to which a text cannot exceed any of the limits.
	minScannedSchema = 2 * maxListElements
	maxSchemaDepth   = jsonx.DefaultMaxDepth + 1 // maximum number of scanned levels
)

// violation returns the limit that the schemas in v exceed, or "". A short schema costs only one
// comparison.
func (b *schemaBound) violation(v jsonx.Value) string {
	raw := v.Raw()
	if len(raw) <= minScannedSchema {
		return ""
	}
	if v.IsString() { // engines also accept a schema as a string
		raw = v.AppendText(nil)
		var d jsonx.Doc
		if d.Parse(raw, jsonx.Options{Record: 1}) != nil {
			return "must be a JSON schema, or at most " + strconv.Itoa(minScannedSchema>>10) + " KiB long"
		}
	}
	if isObviouslyWithin(raw) {
		return ""
	}
	var c schemaCount
	c.scan(raw)
	switch {
	case c.longest > maxListElements:
		return "must hold at most " + strconv.Itoa(maxListElements) + " elements in a list of a schema"
	case c.listed > b.maxListed:
		return "must hold at most " + strconv.Itoa(b.maxListed) + " elements in all lists of its schemas together"
	case c.patterns > maxRegexBytes:
		return "must hold at most " + strconv.Itoa(maxRegexBytes>>10) + " KiB of patterns"
	}
	return ""
}

// isObviouslyWithin reports whether a text is obviously within the limits. This is true of nearly
// every text. The check costs a tenth of a scan.
func isObviouslyWithin(raw []byte) bool {
	return bytes.Count(raw, []byte{','})+bytes.Count(raw, []byte{'['}) <= maxListElements &&
		!bytes.Contains(raw, []byte(`"pattern`)) && !bytes.Contains(raw, []byte(`"regex`)) &&
		// These names could also be written with escaped letters, such as \u0070.
		!bytes.Contains(raw, []byte(`\u006`)) && !bytes.Contains(raw, []byte(`\u007`))
}

type schemaContainer uint8

const (
	containerObject        schemaContainer = iota
	containerPatternObject                 // an object whose names are regular expressions
	containerList
	containerRequiredList // a list of names, which costs an engine very little
)

type schemaCount struct {
	listed   int // elements in lists; an empty list counts as one element
	longest  int
	patterns int // bytes in regular expressions
}

type schemaLevel struct {
	schemaContainer
	elements int
}

// scan counts s, which must be valid JSON.
func (c *schemaCount) scan(s []byte) {
	var (
		levels [maxSchemaDepth]schemaLevel
		depth  int
		key    string
	)
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '{':
			depth = min(depth+1, maxSchemaDepth-1)
			levels[depth] = schemaLevel{schemaContainer: containerObject}
			if key == "patternProperties" {
				levels[depth].schemaContainer = containerPatternObject
			}
			key = ""
		case '[':
			depth = min(depth+1, maxSchemaDepth-1)
			levels[depth] = schemaLevel{schemaContainer: containerList, elements: 1}
			if key == "required" {
				levels[depth].schemaContainer = containerRequiredList
			}
			key = ""
		case '}', ']':
			if l := &levels[depth]; l.schemaContainer == containerList {
				c.listed += l.elements
				c.longest = max(c.longest, l.elements)
			}
			depth = max(0, depth-1)
		case ',':
			levels[depth].elements++
			key = ""
		case '"':
			text := s[i+1 : stringEnd(s, i+1)]
			i += len(text) + 1
			switch {
			case levels[depth].schemaContainer <= containerPatternObject && isMemberName(s[i+1:]):
				key = schemaMemberName(text)
				if levels[depth].schemaContainer == containerPatternObject {
					c.patterns += len(text)
				}
			case key == "pattern" || key == "regex":
				c.patterns += len(text)
			}
		}
	}
}

func stringEnd(s []byte, i int) int {
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

func isMemberName(rest []byte) bool {
	if len(rest) > 0 && rest[0] != ':' {
		rest = bytes.TrimLeft(rest, " \t\r\n")
	}
	return len(rest) > 0 && rest[0] == ':'
}

// schemaMemberName returns the decoded name of a member if the scan needs it. Otherwise it returns "".
func schemaMemberName(name []byte) string {
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
