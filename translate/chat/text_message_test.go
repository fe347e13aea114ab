package chat

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"penstock/translate/jsonx"
)

// TestTextMessages checks that messages in the usual form are decoded like all others.
func TestTextMessages(t *testing.T) {
	check := func(t rapid.TB, body string) {
		var d jsonx.Doc
		if d.Parse([]byte(body), parseOptions) != nil {
			return
		}
		var got, want Prompt
		for it := d.Root().Get("messages").Iter(); it.Next(); {
			e, f := got.decodeMessage(it.Index(), it.Value()), want.decodeMembers(it.Index(), it.Value())
			if !reflect.DeepEqual(e, f) || !reflect.DeepEqual(&got, &want) {
				t.Fatalf("%s, message %d: %v, %+v, want %v, %+v", body, it.Index(), e, got, f, want)
			}
			if e != nil {
				return
			}
		}
	}
	for _, c := range ruleCases {
		check(t, c.body)
	}
	names := []string{`"role"`, `"content"`, `"role"`, `"content"`, `"r\u006fle"`, `"Content"`, `"reasoning"`, `"tool_call_id"`, `"x"`}
	values := []string{
		`"user"`, `"assistant"`, `"tool"`, `"system"`, `"developer"`, `"us\u0065r"`, `"x"`, `"a text"`, `""`, `null`, `1`, `[]`,
		`[{"type":"text","text":"a"}]`,
	}
	member := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom(names).Draw(t, "name") + ":" + rapid.SampledFrom(values).Draw(t, "value")
	})
	rapid.Check(t, func(t *rapid.T) {
		body := `{"messages":[{"role":"tool","content":""}`
		for range rapid.IntRange(1, 6).Draw(t, "messages") {
			body += `,{`
			for i := range rapid.IntRange(0, 3).Draw(t, "members") {
				if i > 0 {
					body += `,`
				}
				body += member.Draw(t, "member")
			}
			body += `}`
		}
		check(t, body+`]}`)
	})
}
