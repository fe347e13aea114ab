package answer

import (
	"strings"
	"testing"
)

// TestLogprobsOfWholeAnswer checks that the client receives the log probabilities of the text, even
// if the model reasoned or called tools. It must never receive those of other tokens.
func TestLogprobsOfWholeAnswer(t *testing.T) {
	for name, c := range map[string]struct{ message, tokens, want string }{
		"text alone":              {`"content":"ab"`, `a b`, `a b`},
		"reasoned":                {`"reasoning_content":"x y","content":"ab"`, `x y </think> a b`, `a b`},
		"reasoned the same":       {`"reasoning_content":"ab","content":"ab"`, `a b </think> a b`, `a b`},
		"a mark without a text":   {`"reasoning_content":"x","content":"ab"`, `x - a b -`, `a b`},
		"called a tool":           {`"content":"ab","tool_calls":[{"id":"i","type":"function","function":{"name":"f","arguments":"{}"}}]`, `a b <tool> {}`, `a b`},
		"within a token":          {`"reasoning_content":"x","content":"ab"`, `x xab`, ``},
		"no token of it":          {`"reasoning_content":"x","content":"q"`, `x y`, ``},
		"no text":                 {`"reasoning_content":"x","content":""`, `x`, ``},
		"a character in two":      {`"reasoning_content":"x","content":"é"`, `x #195 #169`, `#195 #169`},
		"not within another text": {`"reasoning_content":"aaaa","content":"a"`, `aaaa aa a`, `a`},
	} {
		t.Run(name, func(t *testing.T) {
			tokens := func(list string) string {
				var out []string
				for token := range strings.FieldsSeq(list) {
					element := `{"token":"` + strings.TrimPrefix(token, "-") + `","logprob":-1}`
					if code, is := strings.CutPrefix(token, "#"); is {
						element = `{"token":"\ufffd","bytes":[` + code + `],"logprob":-1}`
					}
					out = append(out, element)
				}
				return strings.Join(out, ",")
			}
			var completion ChatCompletion
			body := `{"choices":[{"index":0,"message":{` + c.message + `},"logprobs":{"content":[` + tokens(c.tokens) + `]},"finish_reason":"stop"}]}`
			if err := completion.Parse([]byte(body)); err != nil {
				t.Fatal(err)
			}
			var r Reader
			r.Reset("id", 0)
			if err := r.ReadCompletion(&completion); err != nil {
				t.Fatal(err)
			}
			if got, want := string(r.Logprobs), tokens(c.want); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}
