//go:build !race

package chat

import "testing"

// TestRequestAllocs checks that the methods from Decode to Segments do not allocate in a reused
// Request.
func TestRequestAllocs(t *testing.T) {
	limits := &ModelRules{
		ContextLength: 131072, MaxOutputLength: 64, Efforts: []string{"none", "low"}, LowerEffort: true,
		Features: []string{FeatureTools, FeatureReasoning}, Refuse: NewRefusedMembers("bootstrap_*", "kv_transfer_params"),
		ReasoningHistory: ReasoningHistoryLoop,
	}
	target := &EngineFormat{
		Served: "org/llama", Stream: true, TokenMember: "max_tokens", ContinuousUsage: true,
		Reasoning: &ReasoningFormat{On: []Member{{"think", []byte(`true`)}}, History: NameReasoning},
	}
	bodies := map[string][]byte{
		"1KB":   chatBody(1 << 10),
		"100KB": chatBody(100 << 10),
		"tools": []byte(bodyWith(`"max_completion_tokens":100,"reasoning":{"effort":"high"},"include_reasoning":false,` +
			`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"tool_choice":"auto","stop":["a"]`)),
		"history": []byte(callBody(`{"id":"i","type":"function","function":{"name":"f","arguments":"{\"a\":\"b\"}"}}`)),
		"thought": []byte(`{"model":"a",` + `"messages":[{"role":"assistant","content":"b","reasoning":"c"},{"role":"user","content":"d"},` +
			`{"role":"assistant","content":"e","reasoning_content":"f"},{"role":"assistant","content":"e","reasoning":"f"}]}`),
		"escapes": []byte(`{"model":"a\/b",` + helloMessages + `,"x\u0020":1}`),
		"url":     []byte(partBody(`{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}`)),
	}
	var r Request
	var segments [][]byte
	var scratch, out []byte
	for name, body := range bodies {
		want := 0.0
		if name == "escapes" {
			want = 3 // the escaped name is decoded for the comparison
		}
		got := testing.AllocsPerRun(100, func() {
			if err := r.Decode(body); err != nil {
				t.Fatal(err)
			}
			if err := r.CheckRules(limits); err != nil {
				t.Fatal(err)
			}
			segments, scratch = r.AppendSegments(segments[:0], scratch[:0], target)
			out = r.AppendEngineRequest(out[:0], target)
			r.Prompt.EstimateTokens(4)
			r.Reset()
		})
		if got > want {
			t.Errorf("%s: got %v allocations, want at most %v", name, got, want)
		}
	}
}
