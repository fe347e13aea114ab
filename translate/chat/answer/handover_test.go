package answer

import (
	"strings"
	"testing"

	"penstock/translate/sse"
)

func appendData(t *testing.T, s *Stream, data string) string {
	t.Helper()
	out, err := s.Append(nil, sse.Event{Data: []byte(data)})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestRestart checks that a stream that the client has seen retains its id, time and roles when
// another engine continues it.
func TestRestart(t *testing.T) {
	var s Stream
	s.Reset(&WriteOptions{Model: "m", ID: "ours", Created: 7, N: 2, IncludeUsage: true})
	announced := appendData(t, &s, `{"id":"a","created":1,"model":"x","choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":90,"completion_tokens":0}}`)
	if !strings.Contains(announced, `"id":"a","created":1`) || s.HasStarted() {
		t.Fatalf("started = %v, want false and the first engine's id: %s", s.HasStarted(), announced)
	}
	s.PrepareForNextEngine()
	first := appendData(t, &s, `{"id":"b","created":2,"model":"y","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"}},{"index":1,"delta":{"role":"assistant","content":"Ho"}}]}`)
	if !strings.Contains(first, `"id":"a","created":1,"model":"m"`) || strings.Count(first, `"role"`) != 1 || !s.HasStarted() {
		t.Errorf("the other engine's first chunk is %s", first)
	}
	end := appendData(t, &s, `{"model":"y","choices":[{"index":0,"delta":{},"finish_reason":"stop"},{"index":1,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`)
	if !strings.Contains(end, `"id":"a"`) || !strings.Contains(end, `"created":1`) {
		t.Errorf("its last chunk is %s", end)
	}
	if u := s.Usage(); u.Prompt != 5 || u.Completion != 2 || u.Resumed != 0 {
		t.Errorf("got the usage %+v, want 5 prompt and 2 completion tokens", u)
	}
}

// TestRestart_Unannounced checks that a stream that has sent only keep-alives uses the second
// engine's id.
func TestRestart_Unannounced(t *testing.T) {
	var s Stream
	s.Reset(&WriteOptions{Model: "m", ID: "ours", Created: 7})
	s.PrepareForNextEngine()
	if first := appendData(t, &s, `{"id":"b","created":2,"model":"y","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"}}]}`); !strings.Contains(first, `"id":"b","created":2,"model":"m"`) || !strings.Contains(first, `"role"`) {
		t.Errorf("the first chunk is %s", first)
	}
}

// TestStripTimings checks that timings before the end are counted, but not sent to a client that
// did not request them.
func TestStripTimings(t *testing.T) {
	var s Stream
	s.Reset(&WriteOptions{Model: "m", ID: "ours", StripTimings: true})
	out := appendData(t, &s, `{"id":"a","created":1,"model":"x","choices":[{"index":0,"delta":{"content":"Hi"}}],"timings":{"cache_n":3,"prompt_n":4,"predicted_n":5}}`)
	if u := s.Usage(); strings.Contains(out, "timings") || !u.Known || u.Prompt != 7 || u.Completion != 5 {
		t.Errorf("got the usage %+v, want 7 prompt and 5 completion tokens without timings: %s", u, out)
	}
	out = appendData(t, &s, `{"id":"a","created":1,"model":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"timings":{"cache_n":3,"prompt_n":4,"predicted_n":6}}`)
	if !strings.Contains(out, `"predicted_n":6`) {
		t.Errorf("the end: %s", out)
	}
}

// TestResume checks that the usage of a resumed answer counts the first engine's prompt and the
// output of both engines.
func TestResume(t *testing.T) {
	for name, c := range map[string]struct{ each, want string }{
		"counted by both":    {`,"usage":{"prompt_tokens":90,"completion_tokens":3}`, `"usage":{"prompt_tokens":90,"completion_tokens":8,"total_tokens":98,"penstock_resumed":1}`},
		"counted by the end": {``, `"usage":{"prompt_tokens":91,"completion_tokens":7,"total_tokens":98,"penstock_resumed":1}`},
	} {
		var s Stream
		s.Reset(&WriteOptions{Model: "m", ID: "ours", IncludeUsage: true, PromptTokens: 50})
		for _, text := range []string{"Hi", " there"} {
			appendData(t, &s, `{"id":"a","created":1,"model":"x","choices":[{"index":0,"delta":{"content":"`+text+`"}}]`+c.each+`}`)
		}
		s.PrepareForNextEngine()
		out := appendData(t, &s, `{"id":"b","created":2,"model":"x","choices":[{"index":0,"delta":{"role":"assistant","content":"!"}}]}`)
		out += appendData(t, &s, `{"id":"b","created":2,"model":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
		out += appendData(t, &s, `{"id":"b","created":2,"model":"x","choices":[],"usage":{"prompt_tokens":93,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":64}}}`)
		tail, err := s.Finish(nil)
		if out += string(tail); err != nil || !strings.Contains(out, c.want) || strings.Count(out, "penstock_resumed") != 1 {
			t.Errorf("%s: error %v, want %q and one penstock_resumed: %s", name, err, c.want, out)
		}
		if strings.Contains(out, `"b"`) || strings.Contains(out, "role") {
			t.Errorf("%s: the other engine shows: %s", name, out)
		}
		if u := s.Usage(); u.ResumedPrompt != 93 || u.Cached != 0 {
			t.Errorf("%s: got the usage %+v, want 93 resumed prompt tokens", name, u)
		}
	}
}
