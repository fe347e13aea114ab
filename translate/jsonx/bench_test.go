package jsonx

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"penstock/config/testkit/raced"
)

const prose = "Explain how a penstock gate regulates the flow of water to the turbine, and why a surge tank is needed when it closes quickly. "

const code = "func main() {\n\tfmt.Println(\"hello, \\\"world\\\"\")\n\tfor i := range 10 {\n\t\tgo run(i)\n\t}\n}\n\n"

func chatBody(messages ...string) []byte {
	var b strings.Builder
	b.WriteString(`{"model": "llama-3.3-70b", "messages": [{"role": "system", "content": "You are a helpful assistant."}`)
	for i, m := range messages {
		role := [2]string{"user", "assistant"}[i%2]
		fmt.Fprintf(&b, `, {"role": %q, "content": %s}`, role, AppendStringS(nil, m))
	}
	b.WriteString(`], "temperature": 0.7, "top_p": 0.95, "max_tokens": 512, "stream": true, "stream_options": {"include_usage": true}}`)
	return []byte(b.String())
}

func toolBody() []byte {
	var b strings.Builder
	b.WriteString(`{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[`)
	for i := range 40 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"function","function":{"name":"tool_%d","description":"Reads a file and returns its lines.","parameters":`+
			`{"type":"object","properties":{"path":{"type":"string","description":"The path"},"lines":{"type":"array","items":{"type":"integer","minimum":0}}},"required":["path"]}}}`, i)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func repeat(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

var bodies = []struct {
	name string
	src  []byte
}{
	{"chat1KB", chatBody(strings.Repeat(prose, 6)[:700])},
	{"chat100KB/prose", chatBody(repeat(strings.Repeat(prose, 8), 96)...)},
	{"chat100KB/code", chatBody(repeat(strings.Repeat(code, 12), 76)...)},
	{"chat100KB/chinese", chatBody(repeat(strings.Repeat("压力钢管的闸门调节流向水轮机的水流，快速关闭时需要调压井。", 12), 96)...)},
	{"chat100KB/german", chatBody(repeat(strings.Repeat("Die Klappe über der Turbine schließt für gewöhnlich langsam, läßt aber überschüssiges Wasser ab. ", 10), 96)...)},
	{"chat100KB/russian", chatBody(repeat(strings.Repeat("Объясни, как затвор напорного трубопровода регулирует поток воды к турбине. ", 8), 92)...)},
	{"image1MB", []byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
		base64.StdEncoding.EncodeToString(make([]byte, 786_000)) + `"}}]}]}`)},
	{"tools12KB", toolBody()},
	{"chunk", []byte(`{"id":"chatcmpl-8f2a0c7d","object":"chat.completion.chunk","created":1733443200,"model":"meta-llama/Llama-3.3-70B-Instruct","choices":[{"index":0,"delta":{"content":" water"},"logprobs":null,"finish_reason":null}]}`)},
}

func BenchmarkParse(b *testing.B) {
	for _, body := range bodies {
		b.Run(body.name, func(b *testing.B) {
			b.SetBytes(int64(len(body.src)))
			b.ReportAllocs()
			var d Doc
			for b.Loop() {
				if err := d.Parse(body.src, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncodingJSONValid(b *testing.B) {
	for _, body := range bodies {
		b.Run(body.name, func(b *testing.B) {
			b.SetBytes(int64(len(body.src)))
			for b.Loop() {
				if !json.Valid(body.src) {
					b.Fatal("invalid")
				}
			}
		})
	}
}

func BenchmarkFields(b *testing.B) {
	var d Doc
	if err := d.Parse(bodies[0].src, Options{}); err != nil {
		b.Fatal(err)
	}
	b.Run("chat/40names", func(b *testing.B) {
		b.ReportAllocs()
		out := make([]Value, len(chatNames))
		for b.Loop() {
			if d.Root().Fields(chatNames, out) != nil {
				b.Fatal("error")
			}
		}
	})
	b.Run("chat/40names/indexed", func(b *testing.B) {
		b.ReportAllocs()
		out := make([]Value, len(chatNames))
		names := NewNameIndex(chatNames...)
		for b.Loop() {
			if names.Fields(d.Root(), out) != nil {
				b.Fatal("error")
			}
		}
	})
	b.Run("message/6names", func(b *testing.B) {
		b.ReportAllocs()
		names := []string{"role", "content", "name", "tool_calls", "tool_call_id", "reasoning"}
		out := make([]Value, len(names))
		m := d.Root().Get("messages").Index(0)
		for b.Loop() {
			if m.Fields(names, out) != nil {
				b.Fatal("error")
			}
		}
	})
}

func BenchmarkEdits(b *testing.B) {
	var d Doc
	src := bodies[0].src
	if err := d.Parse(src, Options{}); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	var e Edits
	var dst []byte
	usage := []byte(`"stream_options":{"include_usage":true}`)
	served := []byte(`"meta-llama/Llama-3.3-70B-Instruct"`)
	for b.Loop() {
		e.Reset()
		e.Set(d.Root().Get("model"), served)
		e.Delete(d.Root().Get("stream_options"))
		e.Add(d.Root(), usage)
		dst = e.Append(dst[:0], src)
	}
}

func BenchmarkAppendString(b *testing.B) {
	for _, c := range []struct{ name, s string }{
		{"token", " water"},
		{"prose1KB", strings.Repeat(prose, 8)},
		{"code1KB", strings.Repeat(code, 12)},
		{"chinese1KB", strings.Repeat("压力钢管的闸门调节流向水轮机的水流，", 20)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.s)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				dst = AppendStringS(dst[:0], c.s)
			}
		})
	}
}

func BenchmarkNumbers(b *testing.B) {
	for _, src := range []string{"512", "0.7", "1.0", "1733443200.123456789"} {
		v := mustParse(b, src).Root()
		b.Run("Int/"+src, func(b *testing.B) {
			for b.Loop() {
				v.Int()
			}
		})
		b.Run("Float/"+src, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v.Float()
			}
		})
	}
}

// TestAllocs checks that a Doc that has parsed a body does not allocate for another body of the
// same size.
func TestAllocs(t *testing.T) {
	if raced.Enabled {
		t.Skip("the race detector allocates")
	}
	var (
		d   Doc
		e   Edits
		buf []byte
		seg [][]byte
		out = make([]Value, len(chatNames))

		names  = NewNameIndex(chatNames...)
		x      = []byte(`"x"`)
		stream = []byte(`"stream":true`)
	)
	odd := []byte(`{"m\u006fdel":"a\nb","messages":[{"n":12345678901234567890123456789012345678901234567890.5}],"ü":1}`)
	for _, src := range append([][]byte{odd}, bodies[0].src, bodies[6].src, bodies[7].src) {
		got := testing.AllocsPerRun(100, func() {
			if err := d.Parse(src, Options{}); err != nil {
				t.Fatal(err)
			}
			root := d.Root()
			if err := root.Fields(chatNames, out); err != nil {
				t.Fatal(err)
			}
			if err := names.Fields(root, out); err != nil {
				t.Fatal(err)
			}
			buf = out[0].AppendText(buf[:0])
			buf = AppendString(buf, src)
			buf = AppendStringS(buf, prose)
			for it := root.Iter(); it.Next(); {
				it.Key().EqualFold("stream")
				it.Value().EqualText("x")
				buf = it.Key().AppendTo(buf)
			}
			m := root.Get("messages").Index(0)
			if f, ok := m.Get("n").Float(); ok && f < 1 {
				t.Fatal("Float")
			}
			m.Get("n").Int()
			e.Reset()
			e.Set(out[0], x)
			if root.Get("messages").Exists() {
				e.Delete(root.Get("messages"))
			}
			e.Add(root, stream)
			buf = e.Append(buf[:0], src)
			seg = e.Segments(seg[:0], src)
			d.Reset()
		})
		if got != 0 {
			t.Errorf("%.40s: got %v allocations, want 0", src, got)
		}
	}
}
