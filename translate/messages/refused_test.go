package messages

import (
	"bytes"
	"encoding/base64"
	"errors"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/dialects"
)

// TestRequestsRefused checks that every error is reported with its path. It does not repeat the
// cases that have an archive in testdata/request.
func TestRequestsRefused(t *testing.T) {
	t.Parallel()
	const (
		content = `"messages":[{"role":"user","content":[%]}]`
		result  = `"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a",%}]}]`
		said    = `"messages":[{"role":"assistant","content":%}]`
		users   = `"messages":[{"role":"user","content":"x"}],%`
		system  = `"messages":[{"role":"user","content":"x"},{"role":"system",%}]`
		tool    = `"messages":[{"role":"user","content":"x"}],"tools":[%]`

		edits      = `"messages":[{"role":"user","content":"x"}],"context_management":{"edits":[{"type":"not known yet","keep":5},%]}`
		thinking   = `"messages":[{"role":"user","content":"x"}],"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":{"type":"all"}},{"type":"clear_thinking_20251015","keep":%}]}`
		toolUses   = `"messages":[{"role":"user","content":"x"}],"context_management":{"edits":[{"type":"clear_tool_uses_20250919","trigger":{"type":"tool_uses","value":0},"keep":null,"clear_at_least":{"type":"input_tokens","value":5},"exclude_tools":["f"],"clear_tool_inputs":true},{"type":"clear_tool_uses_20250919",%}]}`
		compaction = `"messages":[{"role":"user","content":"x"}],"context_management":{"edits":[{"type":"compact_20260112","trigger":{"type":"input_tokens","value":50000},"instructions":"short","pause_after_compaction":true},{"type":"compact_20260112",%}]}`
	)
	for _, c := range []struct{ in, with, want string }{
		{content, `{"type":5}`, "messages[0].content[0].type invalid_type"},
		{content, `{"type":"text"}`, "messages[0].content[0].text missing_parameter"},
		{content, `{"type":"text","text":5}`, "messages[0].content[0].text invalid_type"},
		{content, `{"type":"text","text":"a","Text":"b"}`, "messages[0].content[0].text duplicate_member"},
		{content, `{"type":"image","source":"x"}`, "messages[0].content[0].source invalid_type"},
		{content, `{"type":"image","source":{"data":"x"}}`, "messages[0].content[0].source.type missing_parameter"},
		{content, `{"type":"image","source":{"type":"base64","data":"aGk="}}`, "messages[0].content[0].source.media_type missing_parameter"},
		{content, `{"type":"image","source":{"type":"base64","media_type":"image/png","data":""}}`, "messages[0].content[0].source.data invalid_value"},
		{content, `{"type":"image","source":{"type":"url"}}`, "messages[0].content[0].source.url missing_parameter"},
		{content, `{"type":"image","source":{"type":"url","type":"base64"}}`, "messages[0].content[0].source.type duplicate_member"},
		{content, `{"type":"document"}`, "messages[0].content[0].source missing_parameter"},
		{content, `{"type":"document","title":5,"source":{"type":"text","data":"x"}}`, "messages[0].content[0].title invalid_type"},
		{content, `{"type":"document","context":5,"source":{"type":"text","data":"x"}}`, "messages[0].content[0].context invalid_type"},
		{content, `{"type":"document","source":{"type":"text"}}`, "messages[0].content[0].source.data missing_parameter"},
		{content, `{"type":"document","source":{"type":"content","content":5}}`, "messages[0].content[0].source.content invalid_type"},
		{content, `{"type":"document","source":{"type":"content","content":[{"type":"text"}]}}`, "messages[0].content[0].source.content[0].text missing_parameter"},
		{content, `{"type":"search_result","title":5}`, "messages[0].content[0].title invalid_type"},
		{content, `{"type":"search_result","source":5}`, "messages[0].content[0].source invalid_type"},
		{content, `{"type":"search_result","source":"s","content":[5]}`, "messages[0].content[0].content[0] invalid_type"},
		{content, `{"type":"tool_reference"}`, "messages[0].content[0].tool_name missing_parameter"},
		{content, `{"type":"tool_reference","tool_name":""}`, "messages[0].content[0].tool_name invalid_value"},
		{content, `{"type":"tool_result","tool_use_id":""}`, "messages[0].content[0].tool_use_id invalid_value"},
		{content, `{"type":"tool_result","tool_use_id":5}`, "messages[0].content[0].tool_use_id invalid_type"},
		{content, `{"type":"server_tool_use","id":"a","name":"f","input":{}},{"type":"text","text":""}`, "messages invalid_value"},
		{content, `{"type":"compaction","content":null}`, "messages invalid_value"},
		{said, `[{"type":"web_search_tool_result","tool_use_id":"a","content":[]},{"type":"thinking","thinking":"x","signature":""}]`, "messages invalid_value"},
		{result, `"content":5`, "messages[0].content[0].content invalid_type"},
		{result, `"content":[5]`, "messages[0].content[0].content[0] invalid_type"},
		{result, `"content":[{"type":"tool_use","id":"a","name":"f"}]`, "messages[0].content[0].content[0].type invalid_value"},
		{result, `"content":[{"type":"nonsense"}]`, "messages[0].content[0].content[0].type invalid_value"},
		{result, `"is_error":"no"`, "messages[0].content[0].is_error invalid_type"},
		{said, `null`, "messages[0].content missing_parameter"},
		{said, `5`, "messages[0].content invalid_type"},
		{said, `[5]`, "messages[0].content[0] invalid_type"},
		{said, `[{"type":"text"}]`, "messages[0].content[0].text missing_parameter"},
		{said, `[{"type":"nonsense"}]`, "messages[0].content[0].type invalid_value"},
		{said, `[{"type":"tool_use","id":"","name":"f"}]`, "messages[0].content[0].id invalid_value"},
		{said, `[{"type":"tool_use","id":"a","name":""}]`, "messages[0].content[0].name invalid_value"},
		{users, `"system":[{"type":"text"}]`, "system[0].text missing_parameter"},
		{users, `"system":[{"type":"text","text":5}]`, "system[0].text invalid_type"},
		{users, `"system":[5]`, "system[0] invalid_type"},
		{users, `"tool_choice":{"type":"tool","name":"f"}`, "tool_choice invalid_value"},
		{users, `"bootstrap_host":"x"`, "bootstrap_host unsupported_parameter"},
		{system, `"content":5`, "messages[1].content invalid_type"},
		{system, `"content":null`, "messages[1].content missing_parameter"},
		{system, `"content":[{"type":"image"}]`, "messages[1].content[0].type invalid_value"},
		{users, `"stop_sequences":5`, "stop_sequences invalid_type"},
		{users, `"tools":5`, "tools invalid_type"},
		{users, `"tool_choice":{}`, "tool_choice.type missing_parameter"},
		{users, `"tool_choice":{"type":"auto","type":"any"}`, "tool_choice.type duplicate_member"},
		{users, `"tool_choice":{"type":"auto","disable_parallel_tool_use":1}`, "tool_choice.disable_parallel_tool_use invalid_type"},
		{users, `"output_config":5`, "output_config invalid_type"},
		{users, `"output_config":{"effort":"low","effort":"high"}`, "output_config.effort duplicate_member"},
		{users, `"output_config":{"effort":5}`, "output_config.effort invalid_type"},
		{users, `"output_config":{"format":5}`, "output_config.format invalid_type"},
		{users, `"output_config":{"format":{}}`, "output_config.format.type missing_parameter"},
		{users, `"output_config":{"format":{"type":"json_schema","schema":{},"schema":{}}}`, "output_config.format.schema duplicate_member"},
		{users, `"output_config":{"format":{"type":"json_schema","schema":5}}`, "output_config.format.schema invalid_type"},
		{users, `"thinking":5`, "thinking invalid_type"},
		{users, `"thinking":{}`, "thinking.type missing_parameter"},
		{users, `"thinking":{"type":"enabled","type":"disabled"}`, "thinking.type duplicate_member"},
		{users, `"thinking":{"type":"enabled","display":5}`, "thinking.display invalid_type"},
		{users, `"top_p":"x"`, "top_p invalid_type"},
		{users, `"context_management":5`, "context_management invalid_type"},
		{users, `"context_management":[]`, "context_management invalid_type"},
		{users, `"context_management":{"edits":{}}`, "context_management.edits invalid_type"},
		{users, `"context_management":{"edits":[],"edits":[]}`, "context_management.edits duplicate_member"},
		{edits, `5`, "context_management.edits[1] invalid_type"},
		{edits, `{}`, "context_management.edits[1].type missing_parameter"},
		{edits, `{"type":5}`, "context_management.edits[1].type invalid_type"},
		{thinking, `"some"`, "context_management.edits[1].keep invalid_value"},
		{thinking, `5`, "context_management.edits[1].keep invalid_type"},
		{thinking, `{}`, "context_management.edits[1].keep.type missing_parameter"},
		{thinking, `{"type":"tool_uses","value":1}`, "context_management.edits[1].keep.type invalid_value"},
		{thinking, `{"type":"thinking_turns"}`, "context_management.edits[1].keep.value missing_parameter"},
		{thinking, `{"type":"thinking_turns","value":"x"}`, "context_management.edits[1].keep.value invalid_type"},
		{thinking, `{"type":"thinking_turns","value":0}`, "context_management.edits[1].keep.value invalid_value"},
		{thinking, `{"type":"thinking_turns","value":-1}`, "context_management.edits[1].keep.value invalid_value"},
		{thinking, `{"type":"thinking_turns","value":1.5}`, "context_management.edits[1].keep.value invalid_value"},
		{toolUses, `"trigger":"now"`, "context_management.edits[1].trigger invalid_type"},
		{toolUses, `"trigger":{"type":"minutes","value":1}`, "context_management.edits[1].trigger.type invalid_value"},
		{toolUses, `"trigger":{"type":"input_tokens","value":null}`, "context_management.edits[1].trigger.value missing_parameter"},
		{toolUses, `"trigger":{"type":"tool_uses","type":"tool_uses","value":1}`, "context_management.edits[1].trigger.type duplicate_member"},
		{toolUses, `"keep":{"type":"thinking_turns","value":1}`, "context_management.edits[1].keep.type invalid_value"},
		{toolUses, `"clear_at_least":{"type":"tool_uses","value":1}`, "context_management.edits[1].clear_at_least.type invalid_value"},
		{toolUses, `"exclude_tools":"f"`, "context_management.edits[1].exclude_tools invalid_type"},
		{toolUses, `"exclude_tools":["f",5]`, "context_management.edits[1].exclude_tools[1] invalid_type"},
		{toolUses, `"clear_tool_inputs":"f"`, "context_management.edits[1].clear_tool_inputs invalid_type"},
		{toolUses, `"clear_tool_inputs":[null]`, "context_management.edits[1].clear_tool_inputs[0] invalid_type"},
		{compaction, `"trigger":{"type":"tool_uses","value":1}`, "context_management.edits[1].trigger.type invalid_value"},
		{compaction, `"instructions":5`, "context_management.edits[1].instructions invalid_type"},
		{compaction, `"pause_after_compaction":"no"`, "context_management.edits[1].pause_after_compaction invalid_type"},
		{users, `"system":"x","system":"y"`, "system duplicate_member"},
		{tool, `5`, "tools[0] invalid_type"},
		{tool, `{}`, "tools[0].name missing_parameter"},
		{tool, `{"name":""}`, "tools[0].name invalid_value"},
		{tool, `{"name":"f","Name":"g"}`, "tools[0].name duplicate_member"},
		{tool, `{"name":"f","type":5}`, "tools[0].type invalid_type"},
		{tool, `{"name":"f","description":5}`, "tools[0].description invalid_type"},
		{tool, `{"name":"f","input_schema":5}`, "tools[0].input_schema invalid_type"},
		{tool, `{"name":"f","input_schema":{"type":"string"}}`, "tools[0].input_schema.type invalid_value"},
		{tool, `{"name":"f","input_schema":{"type":["object","null"]}}`, "tools[0].input_schema.type invalid_value"},
		{tool, `{"name":"f","strict":"yes"}`, "tools[0].strict invalid_type"},
	} {
		body := `{"model":"m","max_tokens":9,` + strings.Replace(c.in, "%", c.with, 1) + `}`
		for _, inPlace := range []bool{false, true} {
			var (
				r Request
				e *apierr.Error
			)
			o := dialects.Options{Refuse: chat.NewRefusedMembers("bootstrap_*"), InPlace: func([]byte) bool { return inPlace }}
			_, err := r.Decode(nil, []byte(body), new(chat.Request), new(RequestInfo), o)
			if !errors.As(err, &e) || e.Status != 400 || e.Param+" "+e.Code != c.want {
				t.Errorf("%s: %v, want %s", body, err, c.want)
			}
		}
	}
	if _, err := new(Request).Decode(nil, nil, new(chat.Request), new(RequestInfo), dialects.Options{}); err == nil || !strings.Contains(err.Error(), apierr.CodeInvalidJSON) {
		t.Errorf("an empty body: %v", err)
	}
}

// TestReuse checks that no data from one call appears in the next call that uses the same memory.
func TestReuse(t *testing.T) {
	t.Parallel()
	var (
		r    Request
		c    chat.Request
		info RequestInfo
		s    Stream
	)
	for _, body := range seeds(t, "request", "request") {
		var (
			fresh     Request
			freshChat chat.Request
			freshInfo RequestInfo
		)
		want, wantErr := fresh.Decode(nil, body, &freshChat, &freshInfo, dialects.Options{})
		got, err := r.Decode(nil, body, &c, &info, dialects.Options{})
		if !bytes.Equal(got, want) || !bytes.Equal(textOf(err), textOf(wantErr)) || err == nil && c.Prefilled != freshChat.Prefilled {
			t.Errorf("%s\nbecomes %s, %v\nwant    %s, %v", body, got, err, want, wantErr)
		}
		if d := cmp.Diff(freshInfo.stopSequences, info.stopSequences); d != "" || freshInfo.thinking != info.thinking || len(freshInfo.images) != len(info.images) {
			t.Errorf("%s: the reused info differs (-want +got):\n%s", body, d)
		}
	}
	e := &echo{RequestInfo{thinking: thinkingShown, stopSequences: []string{"END"}}, dialects.AnswerIdentity{Model: "public", ID: "msg_1"}}
	for _, upstream := range seeds(t, "answer", "upstream-response") {
		var fresh Stream
		got, _ := relayStream(&s, e, upstream)
		if want, _ := relayStream(&fresh, e, upstream); !bytes.Equal(got, want) || s.Usage() != fresh.Usage() {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestHalfSurrogatesInHistory checks that lone surrogates are replaced in the texts of a
// conversation, including the strings and keys of an input. Lone surrogates anywhere else are
// rejected.
func TestHalfSurrogatesInHistory(t *testing.T) {
	const half = `\ud83d`
	history := `{"model":"m","max_tokens":9,"system":[{"type":"text","text":"` + half + `"}],"messages":[{"role":"user","content":"` + half + `"},` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"f","input":{"name":"` + half + `","list":["` + half + `"],"` + half + `":1}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"i","content":[{"type":"text","text":"` + half + `"}]}]}]}`
	var r Request
	var c chat.Request
	out, err := r.Decode(nil, []byte(history), &c, new(RequestInfo), dialects.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(out), `\ufffd`); n != 6 || strings.Contains(string(out), half) {
		t.Errorf("got %d replacements, want 6: %s", n, out)
	}
	if _, err := r.Decode(nil, []byte(history), &c, new(RequestInfo), dialects.Options{Strict: true}); err == nil {
		t.Error("a strict edge takes it")
	}
	for _, member := range []string{
		`"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"` + half + `","input":{}}]}]`,
		`"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"f","input":{},"` + half + `":1}]}]`,
		`"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{"a":"` + half + `"}}]`,
	} {
		if _, err := r.Decode(nil, []byte(`{"model":"m","max_tokens":9,`+member+`}`), &c, new(RequestInfo), dialects.Options{}); err == nil {
			t.Errorf("%s is taken", member)
		}
	}
}

// TestOnlyServerTools checks that a request is rejected if all its tools run on the vendor's
// servers or need a screen.
func TestOnlyServerTools(t *testing.T) {
	for _, tool := range []string{
		`{"type":"web_search_20250305","name":"web_search"}`,
		`{"type":"web_search_20250305"},{"type":"computer_20250124","name":"computer"}`,
	} {
		var r Request
		var c chat.Request
		_, err := r.Decode(nil, []byte(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}],"tools":[`+tool+`]}`), &c, new(RequestInfo), dialects.Options{})
		var e *apierr.Error
		if !errors.As(err, &e) || e.Param != "tools" || !strings.Contains(e.Message, "server tools") {
			t.Errorf("%s: got %v, want an error about server tools", tool, err)
		}
	}
}

// TestImageRefusals checks which errors say that an image could not be processed. Agents respond
// to such an error by removing all images from the conversation. The request must therefore be
// acceptable with a different image or without images.
func TestImageRefusals(t *testing.T) {
	const block = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + pixel + `"}}`
	blind := chat.ModelRules{InputModalities: []string{"text"}}
	small := chat.ModelRules{Vision: &chat.VisionLimits{MaxPixels: 1}, ImageHosts: []string{"images.example"}}
	for _, c := range []struct {
		name, content string
		rules         *chat.ModelRules
		removes       bool
	}{
		{"taken", block, &chat.ModelRules{}, false},
		{"no images", block, &blind, true},
		{"too large", strings.Replace(block, pixel, base64.StdEncoding.EncodeToString(largePNG(t)), 1), &small, true},
		{"a GIF", strings.Replace(block, "image/png", "image/gif", 1), nil, true},
		{"GIF data", strings.Replace(block, pixel, "R0lGODlhAQABAAAAACw=", 1), nil, true},
		{"no header", strings.Replace(block, pixel, "iVBORw0KGgo=", 1), nil, true},
		{"too many", strings.Repeat(block+",", chat.MaxImages) + block, nil, true},
		{"no base64", strings.Replace(block, pixel, "%", 1), nil, false},
		{"another host", `{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}`, &small, false},
		{"no URL", `{"type":"image","source":{"type":"url","url":"ftp://example.com/a.png"}}`, nil, true},
		{"a private host", `{"type":"image","source":{"type":"url","url":"https://localhost/a.png"}}`, nil, false},
		{"a file", `{"type":"image","source":{"type":"file","file_id":"x"}}`, nil, false},
		{"a PDF", `{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":""}}`, nil, false},
	} {
		var (
			r    Request
			into chat.Request
			info RequestInfo
		)
		_, err := r.Decode(nil, []byte(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[`+c.content+`]}]}`), &into, &info, dialects.Options{})
		if err == nil && c.rules != nil {
			err = info.RelocateError(into.CheckRules(c.rules))
		}
		var e *apierr.Error
		if !errors.As(err, &e) {
			if c.rules == nil || c.removes {
				t.Errorf("%s: got the error %v, want success", c.name, err)
			}
			continue
		}
		if got := MapError(e).Message; strings.HasSuffix(got, ". "+imageRejectedMessage) != c.removes {
			t.Errorf("%s: got the message %s, want the added sentence: %v", c.name, got, c.removes)
		}
	}
}

func largePNG(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestPDFs checks that a PDF reaches a model that takes files, and that the error for any other
// model contains the words that make agents remove the PDF.
func TestPDFs(t *testing.T) {
	const path, words = "messages[0].content[0].source.data", "Could not process PDF"
	for _, c := range []struct {
		name  string
		data  string
		rules chat.ModelRules
		code  string
	}{
		{"taken", "JVBERi0=", chat.ModelRules{InputModalities: []string{"text", "file"}}, ""},
		{"no files", "JVBERi0=", chat.ModelRules{InputModalities: []string{"text", "image"}}, apierr.CodeUnsupportedParameter},
		{"nobody knows what is taken", "JVBERi0=", chat.ModelRules{}, apierr.CodeUnsupportedParameter},
		{"strict", "JVBERi0=", chat.ModelRules{InputModalities: []string{"text", "file"}, Strict: true}, apierr.CodeUnsupportedParameter},
		{"no base64", "%", chat.ModelRules{InputModalities: []string{"text", "file"}}, apierr.CodeInvalidValue},
	} {
		var (
			r    Request
			into chat.Request
			info RequestInfo
		)
		_, err := r.Decode(nil, []byte(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","source":`+
			`{"type":"base64","media_type":"application/pdf","data":"`+c.data+`"}}]}]}`), &into, &info, dialects.Options{Strict: c.rules.Strict})
		if err == nil {
			err = info.RelocateError(into.CheckRules(&c.rules))
		}
		var e *apierr.Error
		switch {
		case c.code == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.code != "" && (!errors.As(err, &e) || e.Code != c.code || e.Param != path || !strings.Contains(e.Message, words)):
			t.Errorf("%s: %v, want %s at %s with the words %q", c.name, err, c.code, path, words)
		}
	}
}
