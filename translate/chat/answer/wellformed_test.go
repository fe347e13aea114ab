package answer

import (
	"bytes"
	"strings"
	"testing"

	"penstock/config/testkit/golden"
)

// checkEvents checks that a client's stream is well-formed. It may contain comments, events with
// one data line that contains a JSON object, and at most one usage chunk. [DONE] may occur only at
// the end.
func checkEvents(t *testing.T, out []byte) {
	t.Helper()
	checkUsageEvents(t, out, false)
}

// checkUsageEvents does the same as checkEvents. If continuous is true, every chunk may contain
// usage.
func checkUsageEvents(t *testing.T, out []byte, continuous bool) {
	t.Helper()
	if bytes.HasPrefix(out, []byte("!! ")) {
		return // relay failed, so the text may quote the engine
	}
	if i := bytes.Index(out, []byte("\n!! ")); i >= 0 {
		out = out[:i+1]
	}
	if len(out) == 0 {
		return
	}
	text, ok := strings.CutSuffix(string(out), "\n\n")
	if !ok {
		t.Fatalf("does not end with a blank line: %q", out)
	}
	done, usages := false, 0
	for event := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(event, ": ") && !strings.Contains(event, "\n") {
			continue
		}
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok || strings.ContainsAny(data, "\r\n") {
			t.Fatalf("not an event of one data line: %q", event)
		}
		if done {
			t.Fatalf("event behind [DONE]: %q", event)
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		var chunk map[string]any // a struct would read "usAge" as usage
		if err := golden.Unmarshal([]byte(data), &chunk); err != nil || chunk == nil {
			t.Fatalf("data is not a JSON object: %v: %q", err, data)
		}
		if chunk["usage"] != nil && chunk["error"] == nil && !continuous {
			choices, ok := chunk["choices"].([]any)
			if usages++; usages > 1 || !ok || len(choices) > 0 {
				t.Fatalf("usage twice, or beside choices: %q", data)
			}
		}
	}
}

// checkAssembled checks that an assembled or plain completion has the members that the SDKs' types
// require.
func checkAssembled(t *testing.T, out []byte) {
	t.Helper()
	if bytes.HasPrefix(out, []byte("!! ")) {
		return
	}
	var c map[string]any // a struct would read "iD" as id
	if err := golden.Unmarshal(out, &c); err != nil {
		t.Fatalf("not a completion: %v: %q", err, out)
	}
	choices, _ := c["choices"].([]any)
	for _, name := range []string{"id", "object", "created", "model"} {
		if _, ok := c[name]; !ok || len(choices) == 0 {
			t.Fatalf("%s or choices are missing: %q", name, out)
		}
	}
	for _, choice := range choices {
		message, ok := choice.(map[string]any)["message"].(map[string]any)
		if !ok {
			t.Fatalf("choice without a message: %q", out)
		}
		calls, _ := message["tool_calls"].([]any)
		ids := map[any]bool{}
		for _, call := range calls {
			call, _ := call.(map[string]any)
			function, _ := call["function"].(map[string]any)
			for _, v := range []any{call["id"], call["type"], function["name"], function["arguments"]} {
				if _, ok := v.(string); !ok {
					t.Fatalf("incomplete tool call: %q", out)
				}
			}
			if call["id"] == "" || ids[call["id"]] {
				t.Fatalf("id of a tool call missing or given twice: %q", out)
			}
			ids[call["id"]] = true
		}
	}
}
