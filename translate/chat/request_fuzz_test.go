package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"penstock/translate/apierr"
)

// Together, fuzzTargets cause every kind of change that AppendEngineRequest makes.
var fuzzTargets = []*EngineFormat{
	{Served: "served"},
	{Served: `s"é`, Stream: true, TokenMember: "max_tokens", ContinuousUsage: true},
	{
		Served: "m", TokenMember: "max_completion_tokens",
		Reasoning: &ReasoningFormat{
			Words: []string{"low", "high"},
			Off:   []Member{{"chat_template_kwargs", []byte(`{"enable_thinking":false}`)}},
			On:    []Member{{"chat_template_kwargs", []byte(`{"enable_thinking":true}`)}, {"think", []byte(`1`)}},
		},
	},
	{Served: "m", Reasoning: &ReasoningFormat{}},
}

// Together, fuzzForms rewrite every member that some engines do not read, in every form.
var fuzzForms = []*EngineFormat{
	{
		Served: "m", ToolChoice: ToolChoiceWords, ResponseFormat: ResponseSchemas, NullContent: NullEmpty, JoinTurns: true, DeveloperAsSystem: true,
		Reasoning: &ReasoningFormat{Words: EngineEfforts, Refused: NewEffortSet("high"), History: NameReasoning},
	},
	{Served: "m", ToolChoice: ToolChoiceIgnored, ResponseFormat: ResponseValue, NullContent: NullEmptyWithoutCalls, JoinTurns: true},
}

// FuzzForms checks that every format results in a valid request, that nothing is added to the
// client's request, and that no message loses text.
func FuzzForms(f *testing.F) {
	for _, c := range ruleCases {
		if len(c.body) < 2000 {
			f.Add([]byte(c.body))
		}
	}
	for _, messages := range []string{
		`{"role":"user","content":"a"},{"content":[{"type":"text","text":"b"} ],"role":"user"},{"role":"user"}`,
		`{"role":"developer","content":"a"},{"role":"system","content":"b"},{"role":"assistant","content":[{"type":"refusal","refusal":"c"}]},{"role":"assistant","content":"d"}`,
		`{"role":"user","content":[{"type":"image_url","image_url":"https://a.b/c.png"}]},{"role":"user","content":"a"},{"role":"assistant","reasoning":"b","content":"c"}`,
	} {
		f.Add([]byte(`{"model":"m","messages":[` + messages + `],"tools":[{"type":"function","function":{"name":"f"}}],` +
			`"tool_choice":{"type":"function","function":{"name":"f"}},"response_format":{"type":"json_object"},"reasoning_effort":"high"}`))
	}
	var r, again Request
	f.Fuzz(func(t *testing.T, body []byte) {
		if r.Decode(body) != nil {
			return
		}
		for _, target := range fuzzForms {
			out := r.AppendEngineRequest(nil, target)
			segments, _ := r.AppendSegments(nil, nil, target)
			if !bytes.Equal(bytes.Join(segments, nil), out) {
				t.Fatalf("segments differ from %s", out)
			}
			if target.ResponseFormat == ResponseValue && r.schema { // TGI's form
				if !json.Valid(out) {
					t.Fatalf("not JSON: %s", out)
				}
				continue
			}
			if err := again.Decode(out); err != nil {
				t.Fatalf("refused again: %v\n%s", err, out)
			}
			tools := r.Tools().Exists() && IsGiven(r.members[memberToolChoiceIndex])
			if again.Prompt.Bytes != r.Prompt.Bytes && len(r.Prompt.malformed) == 0 && len(r.Prompt.reasoning.list) == 0 && !tools ||
				len(again.Prompt.Images) != len(r.Prompt.Images) || again.Prompt.messageCount > r.Prompt.messageCount {
				t.Fatalf("another request: %s\nof %s", out, body)
			}
		}
	})
}

// changeable lists the members that AppendEngineRequest may change, add or remove.
var changeable = []string{
	"model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "top_k", "seed", "top_logprobs", "n",
	"reasoning", "reasoning_effort", "include_reasoning", "chat_template_kwargs", "think",
	"n_predict", "num_predict", "max_new_tokens", "max_output_tokens", "max_predict", "options",
}

func FuzzRequestDecode(f *testing.F) {
	for _, c := range ruleCases {
		if len(c.body) < 2000 {
			f.Add([]byte(c.body))
		}
	}
	f.Add(chatBody(1 << 10))
	limits := &ModelRules{
		ContextLength: 1000, MaxOutputLength: 100, Efforts: []string{"none", "low"}, LowerEffort: true,
		InputModalities: []string{"text", "image"}, Vision: &VisionLimits{MaxPixels: 100, MaxTokens: 10},
	}
	var r, again Request
	f.Fuzz(func(t *testing.T, body []byte) {
		kept := bytes.Clone(body)
		err := r.Decode(body)
		if err == nil {
			err = r.CheckRules(limits)
		}
		if !bytes.Equal(kept, body) {
			t.Fatal("the body has changed")
		}
		if err != nil {
			var e *apierr.Error
			if !errors.As(err, &e) || e.Status != 400 || e.Code == "" || e.Message == "" {
				t.Fatalf("got %T: %v, want a 400 with a code and a message", err, err)
			}
			return
		}
		for _, target := range fuzzTargets {
			out := r.AppendEngineRequest(nil, target)
			segments, _ := r.AppendSegments(nil, nil, target)
			if !bytes.Equal(bytes.Join(segments, nil), out) {
				t.Fatalf("segments differ from %s", out)
			}
			requireOnlyIntended(t, body, out, &r, target)
			if err := again.Decode(out); err != nil {
				t.Fatalf("refused again: %v\n%s", err, out)
			}
			if again.Tokens.Max != r.Tokens.TokenLimit() || !again.IncludeUsage && again.Stream || again.Stream != (r.Stream || target.Stream) ||
				again.Prompt.Bytes != r.Prompt.Bytes && len(r.Prompt.malformed) == 0 && !r.ToolUse.allowed.limited || len(again.Prompt.Images) != len(r.Prompt.Images) || again.N != r.N {
				t.Fatalf("another request: %s", out)
			}
			if n, grown := changedImages(&r); n > 0 {
				if got, want := len(again.Messages().Raw()), len(r.Messages().Raw())+grown; got != want {
					t.Fatalf("the messages are %d bytes long, want %d: %s", got, want, out)
				}
			} else if len(r.Prompt.malformed) == 0 && !bytes.Equal(again.Messages().Raw(), r.Messages().Raw()) {
				t.Fatalf("the messages have changed: %s", out)
			}
			if target.Reasoning == nil && again.Reasoning.Effort != r.Reasoning.Effort {
				t.Fatalf("effort %q became %q", r.Reasoning.Effort, again.Reasoning.Effort)
			}
		}
	})
}

// changedImages returns how many images AppendEngineRequest changes, and by how many bytes they
// grow.
func changedImages(r *Request) (n, grown int) {
	for i := range r.Prompt.Images {
		switch m := &r.Prompt.Images[i]; {
		case !m.isObject:
			n, grown = n+1, grown+len(`{"url":}`)
		case m.detail.Exists():
			n, grown = n+1, grown+len(engineDetail(m.detail))+len(`""`)-len(m.detail.Raw())
		}
	}
	return n, grown
}

// requireOnlyIntended checks, with the standard library's decoder, that the bodies differ only as
// intended.
func requireOnlyIntended(t *testing.T, body, out []byte, r *Request, target *EngineFormat) {
	t.Helper()
	var before, after map[string]json.RawMessage
	if err := json.Unmarshal(body, &before); err != nil {
		t.Fatalf("encoding/json refuses the client's body: %v", err)
	}
	if err := json.Unmarshal(out, &after); err != nil {
		t.Fatalf("encoding/json refuses the body for the engine: %v\n%s", err, out)
	}
	var served string
	if err := json.Unmarshal(after["model"], &served); err != nil || served != target.Served {
		t.Fatalf("model is %s", after["model"])
	}
	if n, _ := changedImages(r); n > 0 || len(r.Prompt.malformed) > 0 {
		delete(before, "messages")
		delete(after, "messages")
	}
	if r.ToolUse.allowed.limited {
		delete(before, "tools")
		delete(after, "tools")
		delete(before, "tool_choice")
		delete(after, "tool_choice")
	}
	if r.ToolUse.choiceIsAny { // AppendEngineRequest has replaced the choice with "required"
		delete(before, "tool_choice")
		delete(after, "tool_choice")
	}
	for name := range before {
		if slices.Contains(changeable, name) {
			delete(before, name)
		}
	}
	for name := range after {
		if slices.Contains(changeable, name) {
			delete(after, name)
		}
	}
	if len(before) != len(after) {
		t.Fatalf("%d other members became %d\n%s", len(before), len(after), out)
	}
	for name, value := range before {
		if !bytes.Equal(after[name], value) {
			t.Fatalf("%q has changed\n%s", name, out)
		}
	}
}

func FuzzImageURL(f *testing.F) {
	for _, s := range []string{
		webpURL, "https://user@example.com:80/x?y#z", "https://[::1]/", "https://0x7f.1", "data:image/png;base64,iVBORw0KGgo=",
		dataURL("image/jpeg", jpegOf(f, 2, 2)[:60]), dataURL("image/png", pngOf(f, 2, 2, 0)),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, url []byte) {
		var m Image
		if m.readURL(url) != nil {
			return
		}
		if (m.Host == nil) == (m.Type == "") || m.Pixels() < 0 || m.estimateTokens() <= 0 {
			t.Fatalf("%q: got %+v, want a host or a type, and a size", url, m)
		}
		if m.Host != nil && (!isHostName(m.Host) || isLiteralHost(m.Host)) {
			t.Fatalf("%q: got the host %q, want a valid name", url, m.Host)
		}
	})
}
