package forward

import "testing"

// TestLongestPrompt checks that the longest prompt in a list must fit into an engine's context,
// rather than the sum of the prompts.
func TestLongestPrompt(t *testing.T) {
	for _, c := range []struct {
		prompt string
		want   int
	}{
		{`"twelve bytes"`, 3}, // 14 bytes with the quotes
		{`["twelve bytes","and then twenty more bytes"]`, 7},
		{`[1,22,333,4444]`, 4},
		{`[[1,2],[11111,2,3]]`, 3},
		{`""`, 0},
	} {
		var r Request
		if err := r.DecodeCompletion([]byte(`{"model":"m","prompt":` + c.prompt + `}`)); err != nil {
			t.Fatal(err)
		}
		if got := r.LongestPrompt(0); got != c.want {
			t.Errorf("%s: got %d, want %d", c.prompt, got, c.want)
		}
	}
}
