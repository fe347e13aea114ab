//go:build !race

package responses

import (
	"testing"

	"penstock/translate/dialects"
	"penstock/translate/sse"
)

// An event allocates nothing, however many events there are, except when the text that is kept for
// the last events grows.
func TestStreamAllocs(t *testing.T) {
	for _, c := range streamCases {
		a := newStream(t, nil)
		dst, ev := make([]byte, 0, 4<<10), sse.Event{Data: []byte(c.data)}
		run := func(events int) {
			a.Reset(&testIdentity)
			for range events {
				var err error
				if dst, err = a.Append(dst[:0], ev); err != nil {
					t.Fatal(err)
				}
			}
		}
		run(10_000)
		// One growing buffer doubles a dozen times.
		if got := testing.AllocsPerRun(3, func() { run(10_000) }); got > 30 {
			t.Errorf("%s: %v allocations for 10,000 events", c.name, got)
		}
	}
}

// A reused request allocates memory only for what the answer keeps and for the assistant's turns.
func TestRequestAllocs(t *testing.T) {
	var r Request
	tr, err := translateBody(benchRequest, dialects.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 0, 64<<10)
	got := testing.AllocsPerRun(100, func() {
		if dst, err = r.Decode(dst[:0], benchRequest, &tr.chat, &tr.answer.RequestInfo, dialects.Options{}); err != nil {
			t.Fatal(err)
		}
	})
	if got > 1 {
		t.Errorf("got %v allocations, want at most 1", got)
	}
}
