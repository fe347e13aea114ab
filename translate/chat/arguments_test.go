package chat

import (
	"encoding/json"
	"strings"
	"testing"

	"penstock/translate/jsonx"
)

// TestArgumentsObject checks that the engine receives one JSON object, whatever the client's string
// contains.
func TestArgumentsObject(t *testing.T) {
	t.Parallel()
	deep := `{"a":` + strings.Repeat("[", jsonx.DefaultMaxDepth) + strings.Repeat("]", jsonx.DefaultMaxDepth) + `}`
	many := `{` + strings.Repeat(`"a":1,`, jsonx.DefaultMaxNodes/2) + `"b":1}`
	for name, c := range map[string]struct {
		text    string
		wrapped bool
	}{
		"an object":                    {`{"a":[1]}`, false},
		"nothing":                      {` `, false},
		"an array":                     {`[1]`, true},
		"two objects":                  {`{"a":1}{"b":2}`, true},
		"deep":                         {deep, true},
		"deep, and out of the request": {deep + `}]}],"priority":-9,"x":[{"content":[{"input":{}`, true},
		"many":                         {many, true},
		"many, and out of the request": {many + `}]}],"priority":-9,"x":[{"content":[{"input":{}`, true},
		"half a pair":                  {`{"a":"\ud800"}`, false},
		"half a pair in a key":         {`{"\ude00":1,"b":"\ud83d\ude00"}`, false},
		"half a pair, and cut":         {`{"a":"\ud800","b`, true},
	} {
		quoted, err := json.Marshal(c.text)
		if err != nil {
			t.Fatal(err)
		}
		var (
			d    jsonx.Doc
			args ToolArguments
			got  map[string]any
		)
		if err := d.Parse(quoted, jsonx.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(args.Object(d.Root()), &got); err != nil {
			t.Errorf("%s: Unmarshal = %v, want success", name, err)
		}
		if text, wrapped := got["malformed_arguments"]; wrapped != c.wrapped || wrapped && text != c.text {
			t.Errorf("%s: wrapped %v, want %v: %.100v", name, wrapped, c.wrapped, text)
		}
	}
}
