package toolcall

import "testing"

func TestAppendID(t *testing.T) {
	seen := map[string]bool{}
	for _, id := range []string{"", "chatcmpl-376", "chatcmpl-377"} {
		for choice := range 3 {
			for position := range 3 {
				got := string(AppendGeneratedID(nil, id, choice, position))
				if seen[got] || len(got) != len("call_")+16 || got != string(AppendGeneratedID(nil, id, choice, position)) {
					t.Errorf("id %q for %q, %d, %d", got, id, choice, position)
				}
				seen[got] = true
			}
		}
	}
}
