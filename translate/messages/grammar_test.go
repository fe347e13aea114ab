package messages

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"penstock/config/testkit/golden"
)

// message is a Messages answer as a client reads it.
type message struct {
	ID           string           `json:"id"`
	Type         string           `json:"type"`
	Role         string           `json:"role"`
	Model        string           `json:"model"`
	Content      []map[string]any `json:"content"`
	StopReason   *string          `json:"stop_reason"`
	StopSequence *string          `json:"stop_sequence"`
	Usage        map[string]int   `json:"usage"`
}

type streamEvent struct {
	Type    string         `json:"type"`
	Message *message       `json:"message"`
	Index   *int           `json:"index"`
	Block   map[string]any `json:"content_block"`
	Delta   map[string]any `json:"delta"`
	Usage   map[string]int `json:"usage"`
	Error   map[string]any `json:"error"`
}

// eventsOf parses a stream without the edge's parser. Each event must have a name, one line of JSON
// with the same type, and a blank line.
func eventsOf(t testing.TB, out []byte) (events []streamEvent) {
	t.Helper()
	if len(out) > 0 && !bytes.HasSuffix(out, []byte("\n\n")) {
		t.Fatalf("the stream does not end with a blank line: %q", tail(out))
	}
	for _, text := range bytes.SplitAfter(out, []byte("\n\n")) {
		if len(text) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimSuffix(string(text), "\n\n"), "\n")
		if len(lines) != 2 || !strings.HasPrefix(lines[0], "event: ") || !strings.HasPrefix(lines[1], "data: ") {
			t.Fatalf("an event that is not a name and a line of data: %q", text)
		}
		var ev streamEvent
		d := json.NewDecoder(strings.NewReader(lines[1][len("data: "):]))
		if err := d.Decode(&ev); err != nil || d.More() {
			t.Fatalf("an event that is not JSON: %q: %v", text, err)
		}
		if ev.Type != lines[0][len("event: "):] {
			t.Fatalf("an event of type %q with the name %q", ev.Type, lines[0])
		}
		events = append(events, ev)
	}
	return events
}

func tail(b []byte) []byte { return b[max(0, len(b)-100):] }

// checkGrammar checks the order of events. message_start comes first. At most one block is open at
// a time, the indexes count from 0, and deltas have the block's kind. The stream ends with
// message_delta and message_stop, or with error. checkGrammar reports whether the stream is
// complete.
func checkGrammar(t testing.TB, out []byte) bool {
	t.Helper()
	events := eventsOf(t, out)
	started, open, next, last := false, "", 0, ""
	deltas := map[string][]string{
		"text": {"text_delta"}, "redacted_thinking": {"none"}, "tool_use": {"input_json_delta"}, "thinking": {"thinking_delta", "signature_delta"},
	}
	for i, ev := range events {
		if last == "message_stop" || last == "error" {
			t.Fatalf("event %d, %s, comes behind the end", i, ev.Type)
		}
		if ev.Type == "ping" {
			continue
		}
		if ev.Type != "message_start" && ev.Type != "error" && !started {
			t.Fatalf("event %d, %s, comes before message_start", i, ev.Type)
		}
		if last == "message_delta" && ev.Type != "message_stop" {
			t.Fatalf("%s follows message_delta", ev.Type)
		}
		switch ev.Type {
		case "message_start":
			m := ev.Message
			if started || m == nil || m.ID == "" || m.Type != "message" || m.Role != "assistant" || m.Model == "" || m.Content == nil || len(m.Content) > 0 || m.StopReason != nil || m.Usage == nil {
				t.Fatalf("a wrong message_start: %+v", m)
			}
			started = true
		case "content_block_start":
			if open != "" || ev.Index == nil || *ev.Index != next {
				t.Fatalf("event %d opens block %v, want %d, while %q is open", i, ev.Index, next, open)
			}
			open, _ = ev.Block["type"].(string)
			if deltas[open] == nil {
				t.Fatalf("a block of type %q", open)
			}
			if open == "tool_use" && (ev.Block["id"] == "" || ev.Block["name"] == "" || ev.Block["input"] == nil) {
				t.Fatalf("a wrong tool_use: %v", ev.Block)
			}
		case "content_block_delta":
			kind, _ := ev.Delta["type"].(string)
			if ev.Index == nil || *ev.Index != next || !slices.Contains(deltas[open], kind) {
				t.Fatalf("event %d is a %s for block %v; open is %d, %q", i, kind, ev.Index, next, open)
			}
		case "content_block_stop":
			if open == "" || ev.Index == nil || *ev.Index != next {
				t.Fatalf("event %d ends block %v; open is %d, %q", i, ev.Index, next, open)
			}
			open, next = "", next+1
		case "message_delta":
			if open != "" || ev.Delta["stop_reason"] == nil || ev.Usage == nil {
				t.Fatalf("a wrong message_delta while %q is open: %v", open, ev.Delta)
			}
		case "message_stop":
			if last != "message_delta" {
				t.Fatalf("message_stop follows %s", last)
			}
		case "error":
			if ev.Error["type"] == nil || ev.Error["message"] == nil {
				t.Fatalf("a wrong error: %v", ev.Error)
			}
		default:
			t.Fatalf("an event of the unknown type %q", ev.Type)
		}
		last = ev.Type
	}
	if last != "message_stop" && last != "error" {
		t.Fatalf("the stream ends with %q", last)
	}
	return last == "message_stop"
}

// collect assembles the message from a stream, as an SDK does.
func collect(t testing.TB, out []byte) []byte {
	t.Helper()
	var (
		m    message
		args string
	)
	for _, ev := range eventsOf(t, out) {
		switch ev.Type {
		case "message_start":
			m = *ev.Message
		case "content_block_start":
			m.Content = append(m.Content, ev.Block)
			args = ""
		case "content_block_delta":
			b := m.Content[len(m.Content)-1]
			for from, to := range map[string]string{"text": "text", "thinking": "thinking", "signature": "signature"} {
				if s, ok := ev.Delta[from].(string); ok {
					b[to] = b[to].(string) + s
				}
			}
			s, _ := ev.Delta["partial_json"].(string)
			args += s
		case "content_block_stop":
			if b := m.Content[len(m.Content)-1]; b["type"] == "tool_use" {
				var input any
				if golden.Unmarshal([]byte(args), &input) != nil {
					input = args
				}
				b["input"] = input
			}
		case "message_delta":
			reason, _ := ev.Delta["stop_reason"].(string)
			m.StopReason = &reason
			for _, b := range m.Content {
				if _, object := b["input"].(map[string]any); !object && b["type"] == "tool_use" && reason == "max_tokens" {
					b["input"] = map[string]any{}
				}
			}
			if s, ok := ev.Delta["stop_sequence"].(string); ok {
				m.StopSequence = &s
			}
			maps.Copy(m.Usage, ev.Usage)
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// normalizeMessage parses a whole answer. It discards the positions of texts among tool calls,
// because only a stream can express them.
func normalizeMessage(t testing.TB, body []byte) message {
	t.Helper()
	var m message
	if err := golden.Unmarshal(body, &m); err != nil {
		t.Fatalf("Unmarshal = %v, want success: %s", err, body)
	}
	joined := map[string]map[string]any{}
	var calls []map[string]any
	for _, b := range m.Content {
		kind := b["type"].(string)
		switch old := joined[kind]; {
		case kind == "tool_use":
			calls = append(calls, b)
		case old == nil:
			joined[kind] = b
		default:
			old[kind] = old[kind].(string) + b[kind].(string)
		}
	}
	m.Content = nil
	for _, kind := range []string{"thinking", "text"} {
		if b := joined[kind]; b != nil {
			m.Content = append(m.Content, b)
		}
	}
	m.Content = append(m.Content, calls...)
	return m
}
