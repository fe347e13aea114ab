//go:build !race

package responses

import (
	"testing"

	"penstock/translate/dialects"
	"penstock/translate/sse"
)

// TestStreamAllocs checks that an event allocates no memory, except to store the text that the
// stream's final events repeat.
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
		// One buffer doubles about a dozen times.
		if got := testing.AllocsPerRun(3, func() { run(10_000) }); got > 30 {
			t.Errorf("%s: %v allocations for 10,000 events", c.name, got)
		}
	}
}

// TestRequestAllocs checks that a reused Request allocates memory only for the members that the
// answer repeats and for assistant turns.
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
