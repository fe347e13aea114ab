package answer

import (
	"bytes"
	"testing"

	"penstock/translate/sse"
)

// Typical chunks from engines, about 200 bytes each.
const (
	vllmChunk   = `{"id":"chatcmpl-9b0a2e54c1f04d0c8a6d5d0c4f2f8a11","object":"chat.completion.chunk","created":1795227007,"model":"org/served-7b","choices":[{"index":0,"delta":{"content":" harbour"},"logprobs":null,"finish_reason":null}]}`
	llamaChunk  = `{"choices":[{"finish_reason":null,"index":0,"delta":{"content":" harbour"}}],"created":1795227008,"id":"chatcmpl-zTv2vATrASxM4BDfc4enN11gROaknkgI","model":"org/served-7b","system_fingerprint":"b11669-Debian","object":"chat.completion.chunk"}`
	reasonChunk = `{"id":"chatcmpl-695","object":"chat.completion.chunk","created":1795227029,"model":"org/served-7b","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"content":"","reasoning":" hm"},"finish_reason":null}]}`
	callChunk   = `{"choices":[{"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"c"}}]}}],"created":1795227008,"id":"chatcmpl-7pP2X2WEv86nmj7ncJ6e6BKrac2wrKbC","model":"org/served-7b","system_fingerprint":"b11669-Debian","object":"chat.completion.chunk"}`
	usageChunk  = `{"id":"chatcmpl-9b0a2e54c1f04d0c8a6d5d0c4f2f8a11","object":"chat.completion.chunk","created":1795227007,"model":"org/served-7b","choices":[{"index":0,"delta":{"content":" harbour"},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":28,"total_tokens":41,"completion_tokens":13}}`
)

var streamCases = []struct {
	name, data string
	answer     WriteOptions
}{
	{"vllm/same_model", vllmChunk, WriteOptions{Model: "org/served-7b"}},
	{"vllm/model", vllmChunk, WriteOptions{Model: "public"}},
	{"llamacpp/model", llamaChunk, WriteOptions{Model: "public"}},
	{"call", callChunk, WriteOptions{Model: "public"}},
	{"reasoning", reasonChunk, WriteOptions{Model: "public"}},
	{"reasoning/strip", reasonChunk, WriteOptions{Model: "public", StripReasoning: true}},
	{"usage/removed", usageChunk, WriteOptions{Model: "public"}},
	{"usage/wanted", usageChunk, WriteOptions{Model: "public", IncludeUsage: true}},
}

func BenchmarkStream(b *testing.B) {
	for _, c := range streamCases {
		b.Run(c.name, func(b *testing.B) {
			var s Stream
			s.Reset(&c.answer)
			ev := sse.Event{Data: []byte(c.data)}
			var dst []byte
			b.ReportAllocs()
			b.SetBytes(int64(len(c.data)))
			for b.Loop() {
				var err error
				if dst, err = s.Append(dst[:0], ev); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStreamChanging measures chunks that differ in more than their text, to which the
// template therefore does not apply.
func BenchmarkStreamChanging(b *testing.B) {
	var s Stream
	s.Reset(&WriteOptions{Model: "public"})
	events := [...]sse.Event{
		{Data: []byte(vllmChunk)},
		{Data: bytes.Replace([]byte(vllmChunk), []byte(`"index":0`), []byte(`"index":1`), 1)},
	}
	var dst []byte
	n := 0
	b.ReportAllocs()
	b.SetBytes(int64(len(vllmChunk)))
	for b.Loop() {
		var err error
		if dst, err = s.Append(dst[:0], events[n%2]); err != nil {
			b.Fatal(err)
		}
		n++
	}
}

func BenchmarkAssembler(b *testing.B) {
	ev := sse.Event{Data: []byte(vllmChunk)}
	var a Assembler
	n := 0
	b.ReportAllocs()
	b.SetBytes(int64(len(vllmChunk)))
	for b.Loop() {
		if n++; n%1000 == 0 {
			a.Reset()
		}
		if err := a.AddEvent(ev); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompletion(b *testing.B) {
	body := []byte(`{"choices":[{"finish_reason":"stop","index":0,"message":{"role":"assistant","content":"The harbour opens before it meets the valley changes every hour."}}],"created":1795227007,"model":"org/served-7b","system_fingerprint":"b11669-Debian","object":"chat.completion","usage":{"completion_tokens":13,"prompt_tokens":28,"total_tokens":41,"prompt_tokens_details":{"cached_tokens":0}},"id":"chatcmpl-1N7T9KlSl3imWboXqHmKPqdwhfGMrTtq"}`)
	var c ChatCompletion
	a := WriteOptions{Model: "public"}
	var dst []byte
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if err := c.Parse(body); err != nil {
			b.Fatal(err)
		}
		dst = c.Append(dst[:0], &a)
	}
}
