package responses

import (
	"bytes"
	"strings"
	"testing"

	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/sse"
)

// Typical chunks from engines, about 200 bytes each.
var streamCases = []struct{ name, data string }{
	{"text", `{"id":"chatcmpl-9b0a2e54c1f04d0c8a6d5d0c4f2f8a11","object":"chat.completion.chunk","created":1795227007,"model":"org/served-7b","choices":[{"index":0,"delta":{"content":" harbour"},"logprobs":null,"finish_reason":null}]}`},
	{"text/usage", `{"id":"chatcmpl-9b0a2e54c1f04d0c8a6d5d0c4f2f8a11","object":"chat.completion.chunk","created":1795227007,"model":"org/served-7b","choices":[{"index":0,"delta":{"content":" harbour"},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":28,"total_tokens":41,"completion_tokens":13}}`},
	{"call", `{"choices":[{"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"c"}}]}}],"created":1795227008,"id":"chatcmpl-7pP2X2WEv86nmj7ncJ6e6BKrac2wrKbC","model":"org/served-7b","system_fingerprint":"b11669-Debian","object":"chat.completion.chunk"}`},
	{"reasoning", `{"id":"chatcmpl-695","object":"chat.completion.chunk","created":1795227029,"model":"org/served-7b","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"content":"","reasoning":" hm"},"finish_reason":null}]}`},
}

func BenchmarkStream(b *testing.B) {
	for _, c := range streamCases {
		b.Run(c.name, func(b *testing.B) {
			a := newStream(b, nil)
			ev := sse.Event{Data: []byte(c.data)}
			var dst []byte
			n := 0
			b.ReportAllocs()
			b.SetBytes(int64(len(c.data)))
			for b.Loop() {
				if n++; n%1000 == 0 { // starts another answer, because the size of an answer is limited
					a.Reset(&testIdentity)
				}
				var err error
				if dst, err = a.Append(dst[:0], ev); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// benchRequest is a request that an agent sends in the middle of its work, about 24 KB.
var benchRequest = []byte(`{"model":"model","instructions":"` + strings.Repeat("Be brief. ", 500) + `","tools":[` +
	strings.Repeat(`{"type":"function","name":"run","description":"`+strings.Repeat("Runs. ", 50)+`","parameters":{"type":"object","properties":{"command":{"type":"string"}}},"strict":false},`, 9) +
	`{"type":"web_search"}],"input":[` +
	strings.Repeat(`{"role":"user","content":[{"type":"input_text","text":"`+strings.Repeat("Look there. ", 40)+`"}]},`+
		`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"`+strings.Repeat("x", 200)+`"},`+
		`{"type":"function_call","id":"fc_1","call_id":"c1","name":"run","arguments":"{\"command\":\"ls\"}"},`+
		`{"type":"function_call_output","call_id":"c1","output":"`+strings.Repeat("a.txt ", 60)+`"},`, 10) +
	`{"role":"user","content":"And now?"}],"stream":true,"store":false}`)

func BenchmarkRequest(b *testing.B) {
	var r Request
	var e RequestInfo
	var c chat.Request
	var dst []byte
	b.ReportAllocs()
	b.SetBytes(int64(len(benchRequest)))
	for b.Loop() {
		var err error
		if dst, err = r.Decode(dst[:0], benchRequest, &c, &e, dialects.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendCompletion(b *testing.B) {
	body := []byte(`{"choices":[{"finish_reason":"stop","index":0,"message":{"role":"assistant","content":"The harbour opens before it meets the valley changes every hour."}}],"created":1795227007,"model":"org/served-7b","object":"chat.completion","usage":{"completion_tokens":13,"prompt_tokens":28,"total_tokens":41},"id":"chatcmpl-1"}`)
	a := newStream(b, nil)
	var c answer.ChatCompletion
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		a.Reset(&testIdentity)
		if err := c.Parse(body); err != nil {
			b.Fatal(err)
		}
		var err error
		if dst, err = a.AppendCompletion(dst[:0], &c); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStreams measures a whole stream of 100 deltas with its start and its end.
func BenchmarkStreams(b *testing.B) {
	src := []byte("data: " + strings.Repeat(streamCases[0].data+"\n\ndata: ", 100) +
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
	a := newStream(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		a.Reset(&testIdentity)
		if _, err := relay(a, bytes.NewReader(src)); err != nil {
			b.Fatal(err)
		}
	}
}
