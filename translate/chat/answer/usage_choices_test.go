package answer

import (
	"encoding/json"
	"strings"
	"testing"

	"penstock/translate"
	"penstock/translate/sse"
)

// TestUsageOfSeveralChoices checks the usage of answers with more than one choice. llama.cpp sends
// the counts of each choice after the choice has ended. Other engines send the counts of all
// choices at the end. Some of these engines also send each choice's counts while the choice is
// being generated.
func TestUsageOfSeveralChoices(t *testing.T) {
	t.Parallel()
	const (
		begin0 = `{"id":"c","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`
		begin1 = `{"id":"c","created":1,"model":"m","choices":[{"index":1,"delta":{"content":"b"},"finish_reason":null}]}`
		end0   = `{"id":"c","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
		end1   = `{"id":"c","created":1,"model":"m","choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}`
	)
	usage := func(p, c string) string {
		return `"usage":{"prompt_tokens":` + p + `,"completion_tokens":` + c + `,"total_tokens":0}}`
	}
	alone := func(p, c string) string { return `{"id":"c","created":1,"model":"m","choices":[],` + usage(p, c) }
	with := func(event, p, c string) string { return strings.TrimSuffix(event, "}") + "," + usage(p, c) }
	for name, c := range map[string]struct {
		events string
		n      int
		want   [3]int
	}{
		"each behind its end":        {begin0 + "\n" + begin1 + "\n" + end0 + "\n" + alone("22", "4") + "\n" + end1 + "\n" + alone("22", "7"), 2, [3]int{22, 11, 33}},
		"all at the end":             {begin0 + "\n" + begin1 + "\n" + end0 + "\n" + end1 + "\n" + alone("22", "11"), 2, [3]int{22, 11, 33}},
		"in the end of each":         {begin0 + "\n" + begin1 + "\n" + with(end1, "22", "7") + "\n" + with(end0, "22", "4"), 2, [3]int{22, 11, 33}},
		"as each grows, and all":     {with(begin0, "22", "1") + "\n" + with(begin1, "22", "1") + "\n" + with(end1, "22", "7") + "\n" + with(end0, "22", "4") + "\n" + alone("22", "11"), 2, [3]int{22, 11, 33}},
		"one choice":                 {begin0 + "\n" + end0 + "\n" + alone("22", "4"), 1, [3]int{22, 4, 26}},
		"one choice, as it grows":    {with(begin0, "22", "1") + "\n" + with(end0, "22", "4"), 1, [3]int{22, 4, 26}},
		"one choice, its end twice":  {with(begin0, "22", "1") + "\n" + with(end0, "22", "4") + "\n" + with(end0, "22", "4"), 1, [3]int{22, 4, 26}},
		"one choice, and once again": {with(begin0, "22", "1") + "\n" + with(end0, "22", "4") + "\n" + alone("22", "4"), 1, [3]int{22, 4, 26}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := &WriteOptions{ID: "i", Model: "m", N: c.n, IncludeUsage: true}
			var stream Stream
			var whole Assembler
			stream.Reset(options)
			whole.Reset()
			var sent []byte
			for e := range strings.SplitSeq(c.events, "\n") {
				var err error
				if sent, err = stream.Append(sent, sse.Event{Data: []byte(e)}); err == nil {
					err = whole.AddEvent(sse.Event{Data: []byte(e)})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			check := func(what string, u translate.Usage) {
				if got := [3]int{u.Prompt, u.Completion, u.Total}; got != c.want || !u.Known {
					t.Errorf("%s: %+v, want %v", what, u, c.want)
				}
			}
			check("stream", stream.Usage())
			check("whole", whole.Usage())

			sent, err := stream.Finish(sent)
			if err != nil {
				t.Fatal(err)
			}
			events := strings.Split(strings.TrimSuffix(string(sent), "\n\ndata: [DONE]\n\n"), "\n\n")
			completion, err := whole.AppendCompletion(nil, options)
			if err != nil {
				t.Fatal(err)
			}
			for what, text := range map[string]string{"usage chunk": strings.TrimPrefix(events[len(events)-1], "data: "), "completion": string(completion)} {
				var told struct {
					Usage struct {
						Prompt     int `json:"prompt_tokens"`
						Completion int `json:"completion_tokens"`
					}
				}
				if err := json.Unmarshal([]byte(text), &told); err != nil || told.Usage.Prompt != c.want[0] || told.Usage.Completion != c.want[1] {
					t.Errorf("%s: error %v, got %s, want the usage %v", what, err, text, c.want)
				}
			}
		})
	}
}
