package messages

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"penstock/translate/chat"
	"penstock/translate/dialects"
)

const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="

// drawMessage draws a message of a conversation. If inPlace is true, the message may be a system
// message.
func drawMessage(t *rapid.T, inPlace bool) map[string]any {
	text := func() map[string]any {
		b := map[string]any{"type": "text", "text": rapid.StringN(0, 8, -1).Draw(t, "text")}
		if rapid.Bool().Draw(t, "cached") {
			b["cache_control"] = map[string]any{"type": "ephemeral"}
		}
		return b
	}
	image := func() map[string]any {
		return map[string]any{"type": "image", "source": map[string]any{"type": "base64", "media_type": "image/png", "data": pixel}}
	}
	call := func() map[string]any {
		return map[string]any{"type": "tool_use", "id": rapid.StringN(1, 4, -1).Draw(t, "id"), "name": "f", "input": map[string]any{"a": rapid.String().Draw(t, "a")}}
	}
	result := func() map[string]any {
		b := map[string]any{"type": "tool_result", "tool_use_id": "i", "is_error": rapid.Bool().Draw(t, "failed")}
		switch rapid.IntRange(0, 2).Draw(t, "result") {
		case 0:
			b["content"] = rapid.String().Draw(t, "content")
		case 1:
			b["content"] = []any{text(), image(), text()}
		}
		return b
	}
	thinking := func() map[string]any { return map[string]any{"type": "thinking", "thinking": "t", "signature": "s"} }
	kinds := map[string][]func() map[string]any{
		"user":      {text, text, image, result},
		"assistant": {text, call, thinking},
		"system":    {text},
	}
	roles := []string{"user", "assistant"}
	if inPlace {
		roles = append(roles, "system")
	}
	role := rapid.SampledFrom(roles).Draw(t, "role")
	if rapid.Bool().Draw(t, "plain") {
		return map[string]any{"role": role, "content": rapid.String().Draw(t, "content")}
	}
	blocks := []any{}
	for range rapid.IntRange(0, 4).Draw(t, "blocks") {
		blocks = append(blocks, rapid.SampledFrom(kinds[role]).Draw(t, "kind")())
	}
	return map[string]any{"role": role, "content": blocks}
}

// TestPrefixStable checks that the serialized messages of a turn are a byte prefix of the next
// turn's messages. Otherwise engines would process the whole conversation again. If inPlace is
// false, the test draws no system text in the middle of the conversation.
func TestPrefixStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inPlace := rapid.Bool().Draw(t, "in place")
		turns := []any{map[string]any{"role": "user", "content": "begin"}}
		for range rapid.IntRange(1, 5).Draw(t, "turns") {
			turns = append(turns, drawMessage(t, inPlace))
		}
		var before []byte
		for n := 1; n <= len(turns); n++ {
			body, err := json.Marshal(map[string]any{"model": "m", "max_tokens": n, "system": "s", "messages": turns[:n], "metadata": map[string]any{"user_id": n}})
			if err != nil {
				t.Fatal(err)
			}
			var (
				r Request
				c chat.Request
			)
			if _, err := r.Decode(nil, body, &c, new(RequestInfo), dialects.Options{InPlace: func([]byte) bool { return inPlace }}); err != nil {
				t.Fatalf("Decode = %v, want success: %s", err, body)
			}
			raw := c.Messages().Raw()
			now := bytes.Clone(raw[:len(raw)-1])
			if !bytes.HasPrefix(now, before) {
				t.Fatalf("turn %d does not begin as the one before did:\n%s\n%s", n, before, now)
			}
			before = now
		}
	})
}
