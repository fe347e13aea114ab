package responses

import (
	"testing"

	"penstock/translate/apierr"
	"penstock/translate/sse"
)

// TestEnds checks that nothing follows the end of a stream.
func TestEnds(t *testing.T) {
	t.Parallel()
	ends := sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}`)}
	for _, failed := range []bool{false, true} {
		a := newStream(t, nil)
		out, err := a.Append(nil, ends)
		if err == nil && failed {
			out = a.AppendFailure(out, apierr.InternalError(nil))
		} else if err == nil {
			out, err = a.Finish(out)
		}
		if err != nil {
			t.Fatal(err)
		}
		checkEvents(t, out, true)
		after, err := a.Append(nil, sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{"content":"y"}}]}`)})
		if err == nil {
			after, err = a.Finish(after)
		}
		if after = a.AppendFailure(after, apierr.InternalError(nil)); err != nil || len(after) > 0 {
			t.Errorf("failed %v, behind the end: %s, %v", failed, after, err)
		}
	}
}
