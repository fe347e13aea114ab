package chat

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"
)

// chatBody returns a body of about size bytes, with parameters, a system prompt and a few turns.
func chatBody(size int) []byte {
	const head = `{"model":"llama-3.3-70b","messages":[{"role":"system","content":"You are a helpful assistant."}`
	const tail = `],"temperature":0.7,"top_p":0.95,"max_tokens":512,"stream":true,"stream_options":{"include_usage":true},"user":"u-1"}`
	turns := []string{`,{"role":"user","content":"`, `"},{"role":"assistant","content":"`, `"},{"role":"user","content":"`}
	n := (size - len(head) - len(tail) - 90) / len(turns)
	var b strings.Builder
	b.WriteString(head)
	for _, turn := range turns {
		b.WriteString(turn)
		b.WriteString(strings.Repeat(`The quick brown fox jumps over the lazy dog.\n`, n/46+1)[:n/46*46])
	}
	b.WriteString(`"}` + tail)
	return []byte(b.String())
}

// pngOf returns a PNG of w by h pixels with at least size bytes.
func pngOf(tb testing.TB, w, h, size int) []byte {
	tb.Helper()
	m := image.NewGray(image.Rect(0, 0, w, h))
	seed := uint32(1)
	for i := range m.Pix {
		seed = seed*1664525 + 1013904223
		m.Pix[i] = byte(seed >> 24)
	}
	m.SetGray(0, 0, color.Gray{})
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		tb.Fatal(err)
	}
	if b.Len() < size {
		tb.Fatalf("the image has %d bytes, not %d", b.Len(), size)
	}
	return b.Bytes()
}

func dataURL(mediaType string, b []byte) string {
	return "data:" + mediaType + ";base64," + base64.StdEncoding.EncodeToString(b)
}

func imageBody(url string) []byte {
	return []byte(`{"model":"vl","messages":[{"role":"user","content":[{"type":"text","text":"What is this?"},` +
		`{"type":"image_url","image_url":{"url":"` + url + `","detail":"high"}}]}],"max_tokens":256}`)
}

func benchBodies(b *testing.B) map[string][]byte {
	return map[string][]byte{
		"1KB":      chatBody(1 << 10),
		"100KB":    chatBody(100 << 10),
		"1MBimage": imageBody(dataURL("image/png", pngOf(b, 1024, 768, 700_000))),
	}
}

func BenchmarkRequestDecode(b *testing.B) {
	for name, body := range benchBodies(b) {
		b.Run(name, func(b *testing.B) {
			var r Request
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if err := r.Decode(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRequestJSONOnly(b *testing.B) {
	for name, body := range benchBodies(b) {
		b.Run(name, func(b *testing.B) {
			var r Request
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if err := r.doc.Parse(body, parseOptions); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRequestDecodeAndEncode(b *testing.B) {
	limits := &ModelRules{
		ContextLength: 131072, MaxOutputLength: 8192, Efforts: []string{"none", "low"},
		Features: []string{FeatureTools}, Refuse: NewRefusedMembers("bootstrap_*", "custom_logit_processor", "kv_transfer_params"),
	}
	target := &EngineFormat{Served: "meta-llama/Llama-3.3-70B-Instruct", TokenMember: "max_tokens", ContinuousUsage: true}
	body := chatBody(1 << 10)
	var r Request
	var segments [][]byte
	var scratch []byte
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := r.Decode(body); err != nil {
				b.Fatal(err)
			}
			if err := r.CheckRules(limits); err != nil {
				b.Fatal(err)
			}
			scratch = r.AppendEngineRequest(scratch[:0], target)
			r.Reset()
		}
	})
	b.Run("segments", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := r.Decode(body); err != nil {
				b.Fatal(err)
			}
			if err := r.CheckRules(limits); err != nil {
				b.Fatal(err)
			}
			segments, scratch = r.AppendSegments(segments[:0], scratch[:0], target)
			r.Reset()
		}
	})
}
