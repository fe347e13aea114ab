package responses

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/dialects"
)

// TestRequestsRefused checks that every error is reported with its path. It does not repeat the
// cases that have an archive in testdata/request.
func TestRequestsRefused(t *testing.T) {
	t.Parallel()
	const (
		input = `"input":[%]`
		part  = `"input":[{"role":"user","content":[%]}]`
		tool  = `"input":"x","tools":[%]`
		one   = `"input":"x","tools":[{"type":"function","name":"f"}],"tool_choice":%`
		other = `"input":"x",%`
	)
	for _, c := range []struct{ in, with, want string }{
		{input, `5`, "input[0] invalid_type"},
		{input, `{"type":5}`, "input[0].type invalid_type"},
		{input, `{"type":"message","type":"reasoning"}`, "input[0].type duplicate_member"},
		{input, `{"type":"message","role":5,"content":"x"}`, "input[0].role invalid_type"},
		{input, `{"type":"function_call","call_id":5,"name":"f","arguments":"{}"}`, "input[0].call_id invalid_type"},
		{input, `{"type":"function_call","call_id":"c","name":"","arguments":"{}"}`, "input[0].name invalid_value"},
		{input, `{"type":"function_call","call_id":"c","name":"` + strings.Repeat("n", 257) + `","arguments":"{}"}`, "input[0].name invalid_value"},
		{input, `{"type":"function_call","call_id":"c","name":"f","arguments":null}`, "input[0].arguments missing_parameter"},
		{input, `{"type":"function_call_output","call_id":"c","output":5}`, "input[0].output invalid_type"},
		{part, `5`, "input[0].content[0] invalid_type"},
		{part, `{"text":"x"}`, "input[0].content[0].type missing_parameter"},
		{part, `{"type":"input_text","text":"x","text":"y"}`, "input[0].content[0].text duplicate_member"},
		{part, `{"type":"refusal"}`, "input[0].content[0].refusal missing_parameter"},
		{part, `{"type":"input_image","image_url":5}`, "input[0].content[0].image_url invalid_type"},
		{part, `{"type":"input_image","image_url":"https://example.com/a","detail":5}`, "input[0].content[0].detail invalid_type"},
		{part, `{"type":"input_image","image_url":null,"file_id":null}`, "input[0].content[0].image_url missing_parameter"},
		{tool, `5`, "tools[0] invalid_type"},
		{tool, `{"type":5}`, "tools[0].type invalid_type"},
		{tool, `{"type":"function","name":"f","name":"g"}`, "tools[0].name duplicate_member"},
		{tool, `{"type":"function","name":""}`, "tools[0].name invalid_value"},
		{tool, `{"type":"function","name":"f","description":5}`, "tools[0].description invalid_type"},
		{tool, `{"type":"function","name":"f","parameters":5}`, "tools[0].parameters invalid_type"},
		{tool, `{"type":"function","name":"f","strict":"yes"}`, "tools[0].strict invalid_type"},
		{tool, `{"type":"custom","name":"g","format":{"type":"bogus"}}`, "tools[0].format.type invalid_value"},
		{tool, `{"type":"custom","name":"g","format":{"type":"grammar","syntax":"lark"}}`, "tools[0].format.definition missing_parameter"},
		{tool, `{"type":"namespace","name":"n","tools":[{"type":"web_search"}]}`, "tools unsupported_parameter"},
		{one, `5`, "tool_choice invalid_type"},
		{one, `{}`, "tool_choice.type missing_parameter"},
		{one, `{"type":5}`, "tool_choice.type invalid_type"},
		{one, `{"type":"function","type":"x"}`, "tool_choice.type duplicate_member"},
		{one, `{"type":"function"}`, "tool_choice.name missing_parameter"},
		{one, `{"type":"allowed_tools"}`, "tool_choice.tools missing_parameter"},
		{one, `{"type":"allowed_tools","mode":5}`, "tool_choice.mode invalid_type"},
		{one, `{"type":"allowed_tools","mode":"auto"}`, "tool_choice.tools missing_parameter"},
		{one, `{"type":"allowed_tools","mode":"auto","tools":5}`, "tool_choice.tools invalid_type"},
		{one, `{"type":"allowed_tools","mode":"auto","tools":[5]}`, "tool_choice.tools[0] invalid_type"},
		{one, `{"type":"allowed_tools","mode":"auto","tools":[{"name":"f"}]}`, "tool_choice.tools[0].type missing_parameter"},
		{one, `{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f","name":"g"}]}`, "tool_choice.tools[0].name duplicate_member"},
		{one, `{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"g"}]}`, "tool_choice.tools[0].name invalid_value"},
		{other, `"temperature":"x"`, "temperature invalid_type"},
		{other, `"parallel_tool_calls":1`, "parallel_tool_calls invalid_type"},
		{other, `"max_output_tokens":"9"`, "max_output_tokens invalid_type"},
		{other, `"max_output_tokens":-1`, "max_output_tokens invalid_value"},
		{other, `"max_output_tokens":1.5`, "max_output_tokens invalid_value"},
		{other, `"max_tool_calls":"1"`, "max_tool_calls invalid_type"},
		{other, `"safety_identifier":5`, "safety_identifier invalid_type"},
		{other, `"text":{"verbosity":5}`, "text.verbosity invalid_type"},
		{other, `"text":{"format":5}`, "text.format invalid_type"},
		{other, `"text":{"format":{}}`, "text.format.type missing_parameter"},
		{other, `"text":{"format":{"type":"json_schema","name":"n","schema":{},"schema":{}}}`, "text.format.schema duplicate_member"},
		{other, `"text":{"format":{"type":"json_schema","name":"n","schema":{},"strict":1}}`, "text.format.strict invalid_type"},
		{other, `"text":{"format":{"type":"json_schema","name":"n","schema":{},"description":1}}`, "text.format.description invalid_type"},
		{other, `"text":{"format":{"type":"text"},"format":{}}`, "text.format duplicate_member"},
		{other, `"reasoning":{"effort":5}`, "reasoning.effort invalid_type"},
		{other, `"reasoning":{"summary":5}`, "reasoning.summary invalid_type"},
		{other, `"reasoning":{"effort":"low","effort":"high"}`, "reasoning.effort duplicate_member"},
		{other, `"background":"no"`, "background invalid_type"},
		{other, `"store":1`, "store invalid_type"},
		{other, `"generate":"no"`, "generate invalid_type"},
	} {
		body := `{"model":"m",` + strings.Replace(c.in, "%", c.with, 1) + `}`
		_, err := translateBody([]byte(body), dialects.Options{})
		var e *apierr.Error
		if !errors.As(err, &e) || e.Status != 400 || e.Param+" "+e.Code != c.want {
			t.Errorf("%s: %v, want %s", body, err, c.want)
		}
	}
}

// TestRelocateError checks that errors about the chat request use the terms of Responses.
func TestRelocateError(t *testing.T) {
	t.Parallel()
	tr, err := translateBody([]byte(`{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"x"},{"type":"input_image","image_url":"https://example.com/a.png"}]}]}`), dialects.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{
		"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens", "reasoning_effort": "reasoning.effort",
		"messages": "input", "response_format.json_schema.name": "text.format", "model": "model", "": "",
		"messages[0].content[1].image_url.url": "input[0].content[1].image_url", "messages[0].content[1].image_url.detail": "input[0].content[1].detail",
		"messages[0].content[2].image_url.url": "messages[0].content[2].image_url.url",
	} {
		var e *apierr.Error
		if err := tr.answer.RequestInfo.RelocateError(apierr.Invalid(from, "code", "%s is wrong.", from)); !errors.As(err, &e) || e.Param != want || e.Message != want+" is wrong." {
			t.Errorf("%s: %v, want %s", from, err, want)
		}
	}
	if err := tr.answer.RequestInfo.RelocateError(translate.ErrNoFinish); !errors.Is(err, translate.ErrNoFinish) {
		t.Errorf("another error: %v", err)
	}
}

// TestModelName checks that calls are routed by the decoded name.
func TestModelName(t *testing.T) {
	t.Parallel()
	var r Request
	for in, want := range map[string]string{`"m"`: "m", `"\u006d\/n"`: "m/n"} {
		if err := r.check([]byte(`{"model":`+in+`,"input":"x"}`), &dialects.Options{}); err != nil || string(r.model) != want {
			t.Errorf("the model %s became %q, %v, want %q", in, r.model, err, want)
		}
	}
	if err := r.check(nil, &dialects.Options{}); err == nil || !strings.Contains(err.Error(), apierr.CodeInvalidJSON) {
		t.Errorf("an empty body: %v", err)
	}
}

// TestReuse checks that no data from one call appears in the next call that uses the same memory.
func TestReuse(t *testing.T) {
	t.Parallel()
	var (
		r Request
		c chat.Request
		a Stream
	)
	for name, body := range archiveSections(t, "request", "request.json") {
		fresh, wantErr := translateBody(body, dialects.Options{})
		got, err := r.Decode(nil, body, &c, &a.RequestInfo, dialects.Options{})
		switch {
		case err != nil || wantErr != nil:
			if err == nil || wantErr == nil || err.Error() != wantErr.Error() {
				t.Errorf("%s: %v, want %v", name, err, wantErr)
			}
		case !bytes.Equal(got, fresh.body), !bytes.Equal(a.RequestInfo.members, fresh.answer.RequestInfo.members), len(a.RequestInfo.images) != len(fresh.answer.RequestInfo.images):
			t.Errorf("%s: becomes %s\n%s\nwant %s\n%s", name, got, a.RequestInfo.members, fresh.body, fresh.answer.RequestInfo.members)
		}
	}
	for name, upstream := range archiveSections(t, "answer", "upstream") {
		fresh := newStream(t, nil)
		a.RequestInfo.reset() // as the next request does
		a.RequestInfo.members = append(a.RequestInfo.members, fresh.RequestInfo.members...)
		a.Reset(&testIdentity)
		got, _ := relay(&a, bytes.NewReader(upstream))
		if want, _ := relay(fresh, bytes.NewReader(upstream)); !bytes.Equal(got, want) || a.Usage() != fresh.Usage() {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
	}
	a.Release()
	if len(a.RequestInfo.members)+len(a.identity.Model)+len(a.identity.ID) > 0 {
		t.Errorf("something is left: %s %s %s", a.RequestInfo.members, a.identity.Model, a.identity.ID)
	}
}

// TestHalfSurrogatesInHistory checks that lone surrogates are replaced in the texts of a
// conversation and rejected anywhere else.
func TestHalfSurrogatesInHistory(t *testing.T) {
	t.Parallel()
	const half = `\ud83d`
	history := `{"model":"m","instructions":"` + half + `","input":[{"role":"user","content":[{"type":"input_text","text":"` + half + `"}]},` +
		`{"type":"function_call","call_id":"i","name":"f","arguments":"{\"a\":\"` + half + `\"}"},{"type":"function_call_output","call_id":"i","output":"` + half + `"}]}`
	tr, err := translateBody([]byte(history), dialects.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(tr.body), `\ufffd`); n != 4 || strings.Contains(string(tr.body), half) {
		t.Errorf("got %d replacements, want 4: %s", n, tr.body)
	}
	if _, err := translateBody([]byte(history), dialects.Options{Strict: true}); err == nil {
		t.Error("a strict edge takes it")
	}
	for _, member := range []string{`"input":"x","metadata":{"a":"` + half + `"}`, `"input":[{"type":"function_call","call_id":"i","name":"` + half + `","arguments":""}]`} {
		if _, err := translateBody([]byte(`{"model":"m",`+member+`}`), dialects.Options{}); err == nil {
			t.Errorf("%s is taken", member)
		}
	}
}

// TestManyOutputParts checks that the time for a tool output grows with its length. If it grew with
// the square, this test would take minutes.
func TestManyOutputParts(t *testing.T) {
	const n = 40_000
	body := `{"model":"m","input":[{"role":"user","content":"x"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[` +
		strings.Repeat(`{"type":"input_text","text":""},`, n) + `{"type":"input_image","image_url":"https://a.b/c.png"}]}]}`
	var (
		r Request
		c chat.Request
		i RequestInfo
	)
	if _, err := r.Decode(nil, []byte(body), &c, &i, dialects.Options{}); err != nil {
		t.Fatal(err)
	}
}
