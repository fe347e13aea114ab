package call_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"penstock/proxy/request/internal/calltest"
)

// TestBrokenStreamsEnd checks streams whose engine dies or ends the stream too early. The stream
// breaks after any number of events, with and without resuming. The client must get exactly one
// event that ends the stream in the client's dialect.
func TestBrokenStreamsEnd(t *testing.T) {
	const head = `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[`
	all := []string{
		head + `{"index":0,"delta":{"role":"assistant","content":""}}]}`,
		head + `{"index":0,"delta":{"reasoning_content":"hm"}}]}`,
		delta("good "), delta("day"),
		head + `{"index":0,"delta":{},"finish_reason":"stop"}]}`,
		head + `],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}`,
		"[DONE]",
	}
	tests := []struct {
		path, body string
		ends       []string // prefixes; exactly one line must start with one of them
	}{
		{chatPath, chat(stream), []string{"data: [DONE]", `data: {"error":`}},
		{messagesPath, chat(`,"max_tokens":9,"stream":true`), []string{"event: message_stop", "event: error"}},
		{responsesPath, `{"model":"m","input":"hi","stream":true}`, []string{"event: response.completed", "event: response.failed"}},
	}
	for _, tt := range tests {
		for _, more := range []string{"", "    retry: {resume: 1}\n"} {
			for i := range 2 * (len(all) + 1) {
				// If aborted is false, the engine ends the stream cleanly.
				n, aborted := i/2, i%2 == 0
				t.Run(fmt.Sprintf("%s/resume %t/%d, aborted %t", tt.path, more != "", n, aborted), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						turn := calltest.SequenceHandler(events(aborted, all[:n]...), calltest.TextHandler("day"))
						a, b := enginePair(turn, turn)
						got := calltest.New(t, twoEngines("", more), a, b).Post(tt.path, tt.body)
						if got.Status != 200 {
							t.Fatalf("got %d %s, want a stream", got.Status, got.Body)
						}
						ends := 0
						for line := range strings.Lines(got.Body) {
							if slices.ContainsFunc(tt.ends, func(end string) bool { return strings.HasPrefix(line, end) }) {
								ends++
							}
						}
						if ends != 1 {
							t.Errorf("got %d events that end the stream, want 1:\n%s", ends, got.Body)
						}
					})
				})
			}
		}
	}
}
