package client

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"

	"penstock/bench/result"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

func readStream(d *Dialect, stream string) (*Reply, contentKinds) {
	p := &Reply{doc: new(jsonx.Doc)}
	p.reset(true)
	var all contentKinds
	for r := sse.NewReader(strings.NewReader(stream), maxEventBytes); ; {
		ev, err := r.NextEvent()
		if err != nil {
			break
		}
		all |= d.event(p, ev)
	}
	d.end(p)
	return p, all
}

func TestStreams(t *testing.T) {
	const (
		messages = `data: {"type":"message_start","message":{"usage":{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":1}}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"text"}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi \"you\""}}

data: {"type":"content_block_stop","index":0}

`
		stop = `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}

data: {"type":"message_stop"}

`
		responses = `data: {"type":"response.created","sequence_number":0}

data: {"type":"response.output_item.added","sequence_number":1,"item":{"type":"function_call","call_id":"c","name":"f"}}

data: {"type":"response.function_call_arguments.delta","sequence_number":2,"delta":"{\"a\":"}

`
		completed = `data: {"type":"response.completed","sequence_number":9,"response":{"status":"completed","usage":{"input_tokens":5,"output_tokens":6,"input_tokens_details":{"cached_tokens":2}}}}

`
	)
	for name, c := range map[string]struct {
		dialect, stream string
		want            Reply
		pieces          contentKinds
		faults          string
	}{
		"chat": {"chat", `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{"reasoning_content":"hm"},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{"content":"a\u00fc"},"finish_reason":"stop"}]}

data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}}

data: [DONE]

`, Reply{ended: true, finish: "stop", in: 1, out: 2, cached: 1, Text: []byte("aü")}, contentText | contentReasoning, ""},
		"chat error":         {"chat", "data: {\"error\":{\"message\":\"secret\",\"code\":\"upstream failed\",\"type\":\"api_error\"}}\n\n", Reply{failed: true, code: "api_error", in: -1, out: -1, cached: -1}, 0, ""},
		"chat after end":     {"chat", "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", Reply{ended: true, finish: "stop", in: -1, out: -1, cached: -1, Text: []byte("x")}, contentText, result.FaultAfterEnd},
		"chat tool":          {"chat", "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"i\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n", Reply{ended: true, finish: "tool_calls", in: -1, out: -1, cached: -1}, contentToolCall, result.FaultToolJSON},
		"chat tool cut":      {"chat", "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\"}}]},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n", Reply{ended: true, finish: "length", in: -1, out: -1, cached: -1}, contentToolCall, ""},
		"transcript":         {"transcription", "data: {\"type\":\"transcript.text.delta\",\"delta\":\"a\"}\n\ndata: {\"type\":\"transcript.text.done\",\"text\":\"a\",\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}\n\n", Reply{ended: true, finish: "stop", in: 3, out: 1, cached: -1, Text: []byte("a")}, contentText, ""},
		"transcript at once": {"transcription", "data: {\"type\":\"transcript.text.done\",\"text\":\"ab\"}\n\ndata: [DONE]\n\n", Reply{ended: true, finish: "stop", in: -1, out: -1, cached: -1, Text: []byte("ab")}, contentText, ""},
		"transcript chunks":  {"transcription", "data: {\"object\":\"transcription.chunk\",\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", Reply{ended: true, finish: "stop", in: -1, out: -1, cached: -1, Text: []byte("ab")}, contentText, ""},
		"transcript error":   {"transcription", "data: {\"error\":{\"message\":\"x\",\"type\":\"api_error\"}}\n\n", Reply{failed: true, code: "api_error", in: -1, out: -1, cached: -1}, 0, ""},
		"transcript both":    {"transcription", "data: {\"type\":\"transcript.text.delta\",\"delta\":\"a\",\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: {\"type\":\"transcript.text.done\",\"text\":\"a\",\"choices\":[{\"index\":0,\"delta\":{}}]}\n\n", Reply{ended: true, finish: "stop", in: -1, out: -1, cached: -1, Text: []byte("a")}, contentText, ""},
		"transcript cut":     {"transcription", "data: {\"type\":\"transcript.text.delta\",\"delta\":\"a\"}\n\n", Reply{in: -1, out: -1, cached: -1, Text: []byte("a")}, contentText, ""},
		"transcript goes on": {"transcription", "data: {\"type\":\"transcript.text.done\",\"text\":\"a\"}\n\ndata: {\"type\":\"transcript.text.delta\",\"delta\":\"b\"}\n\n", Reply{ended: true, finish: "stop", in: -1, out: -1, cached: -1, Text: []byte("ab")}, contentText, result.FaultAfterEnd},
		"messages done":      {"messages", messages + stop + "data: [DONE]\n\n", Reply{ended: true, finish: "end_turn", in: 7, out: 9, cached: 4, Text: []byte(`hi "you"`)}, contentText, result.FaultUnparsed},
		"messages":           {"messages", messages + stop, Reply{ended: true, finish: "end_turn", in: 7, out: 9, cached: 4, Text: []byte(`hi "you"`)}, contentText, ""},
		"messages cut":       {"messages", messages, Reply{in: 7, out: 1, cached: 4, Text: []byte(`hi "you"`)}, contentText, ""},
		"messages order":     {"messages", stop, Reply{ended: true, finish: "end_turn", in: -1, out: 9, cached: -1}, 0, result.FaultOrder},
		"responses":          {"responses", strings.Replace(responses, `{\"a\":`, `{}`, 1) + completed, Reply{ended: true, finish: "completed", in: 5, out: 6, cached: 2}, contentToolCall, ""},
		"responses tool":     {"responses", responses + completed, Reply{ended: true, finish: "completed", in: 5, out: 6, cached: 2}, contentToolCall, result.FaultToolJSON},
		"responses numbers":  {"responses", "data: {\"type\":\"response.created\",\"sequence_number\":10}\n\n" + completed, Reply{ended: true, finish: "completed", in: 5, out: 6, cached: 2}, 0, result.FaultOrder},
		"responses failed":   {"responses", "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\"}}}\n\n", Reply{failed: true, code: "server_error", in: -1, out: -1, cached: -1}, 0, result.FaultOrder},
		"no json":            {"completions", "data: {\"choices\":\n\n", Reply{in: -1, out: -1, cached: -1}, 0, result.FaultUnparsed},
	} {
		got, all := readStream(FindDialect(c.dialect), c.stream)
		if got.ended != c.want.ended || got.finish != c.want.finish || got.failed != c.want.failed || got.code != c.want.code ||
			got.in != c.want.in || got.out != c.want.out || got.cached != c.want.cached || string(got.Text) != string(c.want.Text) || all != c.pieces {
			t.Errorf("%s: got %+v with %v", name, got, all)
		}
		if faults := strings.Join(got.faults.Names(), " "); faults != c.faults {
			t.Errorf("%s: faults %q, want %q", name, faults, c.faults)
		}
	}
}

// FuzzStreams reads arbitrary bytes in each dialect, as a stream and as an unstreamed response.
func FuzzStreams(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":9}]}}]}\n\ndata: [DONE]\n\n"))
	f.Add([]byte("data: {\"type\":\"content_block_delta\",\"delta\":{\"partial_json\":\"{\"}}\n\n"))
	f.Add([]byte(`{"output":[{"type":"message","content":[{"text":"a"}]}],"status":"completed"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, d := range dialects {
			if d.Streams {
				p, _ := readStream(d, string(text))
				for _, w := range []string{p.code, p.finish} {
					if len(w) > 64 || strings.ContainsAny(w, " \n<>\"") {
						t.Fatalf("%s: %q is no word", d.Name, w)
					}
				}
			}
			p := &Reply{doc: new(jsonx.Doc)}
			p.reset(true)
			if d.readResponse != nil {
				d.readResponse(p, text)
			}
			if head := new(audioStartFinder); head.addPiece(text) && len(text) == 0 {
				t.Fatal("nothing is sound")
			}
		}
	})
}

// FuzzChunks checks that the client decodes every chunked body that net/http accepts, and with the
// same result.
func FuzzChunks(f *testing.F) {
	f.Add([]byte("3\r\nabc\r\n0\r\n\r\n"))
	f.Add([]byte("2;x=y\r\nab\r\n1\nc\n0\r\nTrailer: 1\r\n\r\n"))
	f.Add([]byte("ffffffffffffffffff\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		b := responseBody{br: bufio.NewReaderSize(bytes.NewReader(text), 4096), chunked: true}
		got, err := io.ReadAll(&b)
		want, wantErr := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(text)))
		if err == nil && wantErr == nil && !bytes.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// TestBodies checks that every dialect's body is JSON that contains the model and the token limit.
func TestBodies(t *testing.T) {
	long := Message{Role: "user", Text: []byte("say \"hi\"\n"), Images: [][]byte{[]byte("data:image/jpeg;base64,AAAA")}}
	history := []Message{
		{Role: "system", Text: []byte("be kind")},
		long,
		{Role: "assistant", Calls: []ToolCall{{[]byte("id"), []byte("f"), []byte(`{"a":1}`)}}},
		{Role: "user", Results: []ToolResult{{[]byte("id"), []byte("result")}}},
	}
	for _, d := range dialects {
		if d.Mime != "" {
			continue
		}
		q := &Request{D: d, Model: "m", Stream: d.Streams, Messages: history, OutWanted: 5, Tools: AppendTools(nil, d, 2), Extra: []byte(`,"temperature":0`)}
		text := d.Body(nil, q)
		var doc jsonx.Doc
		if err := doc.Parse(text, jsonx.Options{Record: 10}); err != nil {
			t.Errorf("%s: %v, want JSON: %s", d.Name, err, text)
			continue
		}
		if root := doc.Root(); !root.Get("model").EqualText("m") || !root.Get("temperature").Exists() || d.Streams && !root.Get("stream").Exists() {
			t.Errorf("%s: body = %s, want model m, a temperature and the stream member", d.Name, text)
		}
		for _, want := range []string{`\"hi\"\n`, `"result"`} {
			if d.Name != "completions" && d.Tokens && !bytes.Contains(text, []byte(want)) {
				t.Errorf("%s: no %s in %s", d.Name, want, text)
			}
		}
	}
	q := &Request{D: FindDialect("transcription"), Model: "m", Audio: ToneWAV(0.1)}
	r, err := http.NewRequest(http.MethodPost, "/", bytes.NewReader(q.D.Body(nil, q)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", q.D.Mime)
	if file, _, err := r.FormFile("file"); err != nil || r.FormValue("model") != "m" {
		t.Errorf("multipart body: %v", err)
	} else if sound, _ := io.ReadAll(file); wavSeconds(sound) != 0.1 {
		t.Errorf("sound of %v s, want 0.1", wavSeconds(sound))
	}
}

// wavSeconds returns the length of a WAV file, or 0 if b is not a WAV file.
func wavSeconds(b []byte) float64 {
	if len(b) < 12 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WAVE" {
		return 0
	}
	rate := uint32(0)
	for b = b[12:]; len(b) >= 8; {
		kind, size := string(b[:4]), binary.LittleEndian.Uint32(b[4:])
		b = b[8:]
		switch {
		case kind == "fmt " && len(b) >= 12:
			rate = binary.LittleEndian.Uint32(b[8:])
		case kind == "data" && rate > 0:
			return float64(min(uint64(size), uint64(len(b)))) / float64(rate)
		}
		skip := uint64(size) + uint64(size&1)
		if skip > uint64(len(b)) {
			return 0
		}
		b = b[skip:]
	}
	return 0
}
