package sim

import (
	"bytes"
	"time"

	"penstock/bench/sim/wire"
)

// bodyFaults are of framing and of whole bodies: too short, too long, in the wrong form, with no
// sense.
var bodyFaults = []fault{
	{
		name: "close-delimited", text: "no length and no chunks: the body ends with the connection (legal)",
		twist: func(t *misbehaviour, _ *args) { t.framing = byClose },
	},
	{
		name: "chunked", text: "a plain answer in chunks (legal)",
		twist: func(t *misbehaviour, _ *args) { t.framing = byChunks },
	},
	{
		name: "surplus", usage: "[;kind=reply|bytes]", text: "bytes after the answer: a forged second reply, or noise",
		twist: func(t *misbehaviour, a *args) {
			t.surplus = forgedReply()
			if a.oneOf("kind", "reply", "reply", "bytes") == "bytes" {
				t.surplus = []byte("surplus bytes after the end of the answer")
			}
		},
	},
	{
		name: "second-reply", usage: "[;within=500us]", text: "a forged second reply after the answer, at a random time up to so much later",
		twist: func(t *misbehaviour, a *args) { t.second = max(a.duration("within", 500*time.Microsecond), 1) },
	},
	{
		name: "short-body", usage: "[=100]", text: "Content-Length promises so many bytes more than come, then FIN",
		twist: func(t *misbehaviour, a *args) { t.framing, t.long = longLength, a.number(100) },
	},
	{
		name: "chunk-cut", usage: "[=2]", text: "FIN inside a chunk, after so many events or in the middle of a plain answer",
		twist: func(t *misbehaviour, a *args) {
			t.framing = byChunks
			t.at(a.number(2), func(x *exchange) bool {
				x.out = append(x.out, "c8\r\ndata: {\"id\":\"chatcmpl-cut\",\"obj"...)
				return x.cut()
			})
		},
	},
	{
		name: "bad-chunk", usage: "[=2][;kind=size|negative|huge|nocrlf|empty]", text: "a chunk that is none, after so many events, then FIN",
		twist: func(t *misbehaviour, a *args) {
			t.framing = byChunks
			kind := a.oneOf("kind", "size", keys(badChunks)...)
			t.at(a.number(2), func(x *exchange) bool {
				x.out = append(x.out, badChunks[kind]...)
				return x.cut()
			})
		},
	},
	{
		name: "keepalive-close", usage: "[;when=now|next|next-reset][;after=DURATION]", text: "closes the kept connection right after the answer (or so much later), or just when the next request comes",
		twist: func(t *misbehaviour, a *args) {
			t.quit, t.quitDelay = a.oneOf("when", "now", "now", "next", "next-reset"), a.duration("after", 0)
		},
	},
	{
		name: "gzip", usage: "[;bomb=MB]", text: "Content-Encoding: gzip that nobody asked for; bomb: so many megabytes of zeros in it",
		twist: func(t *misbehaviour, a *args) {
			t.gzip = true
			if mb := a.num("bomb", 0); mb > 0 {
				t.take = func(x *exchange) { x.bomb(mb) }
			}
		},
	},
	{
		name: "empty-body", text: "200 with nothing in it",
		twist: func(t *misbehaviour, _ *args) {
			t.take = func(x *exchange) { x.reply(200, x.p.JSONType, nil) }
		},
	},
	{
		name: "html-200", text: "200 with an HTML page that names a host",
		twist: func(t *misbehaviour, _ *args) {
			t.take = func(x *exchange) { x.reply(200, "text/html", htmlPage(200)) }
		},
	},
	{
		name: "invalid-json", usage: "[=1]", text: "a plain answer cut in the middle of its JSON; in a stream one broken event after so many",
		twist: func(t *misbehaviour, a *args) {
			t.plain = func(_ *exchange, ctype string, b []byte) (string, []byte) { return ctype, b[:len(b)/2] }
			t.inStream(a.number(1), func(x *exchange) bool {
				x.emit([]byte(`{"id":"chatcmpl-broken","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"bro`))
				return true
			})
		},
	},
	{
		name: "no-choices", usage: "[;empty=1]", text: "JSON without choices, or with none in it; a stream of such events",
		twist: func(t *misbehaviour, a *args) {
			rest := `}`
			if a.flag("empty") {
				rest = `,"choices":[]}`
			}
			t.plain = func(_ *exchange, ctype string, _ []byte) (string, []byte) {
				return ctype, []byte(`{"id":"chatcmpl-none","object":"chat.completion","created":1,"model":"sim"` + rest)
			}
			t.inStream(0, func(x *exchange) bool {
				for range 3 {
					x.emit([]byte(`{"id":"chatcmpl-none","object":"chat.completion.chunk","created":1,"model":"sim"` + rest))
				}
				x.emit(wire.Done)
				x.finish()
				return false
			})
		},
	},
	{
		name: "sse-for-json", text: "a stream although none was asked for",
		twist: func(t *misbehaviour, _ *args) { t.flip = "sse" },
	},
	{
		name: "json-for-sse", usage: "[;label=1]", text: "a plain answer although a stream was asked for; label: a stream whose Content-Type says JSON",
		twist: func(t *misbehaviour, a *args) {
			t.flip = "json"
			if a.flag("label") {
				t.flip, t.sseCtype = "", "application/json"
			}
		},
	},
	{
		name: "padded", usage: "[=33554432][;at=begin|end]", text: "a plain answer or an error whose JSON object is that large, by a first or last member that means nothing (legal)",
		twist: func(t *misbehaviour, a *args) {
			t.pad, t.padEnd = a.number(32<<20), a.oneOf("at", "begin", "begin", "end") == "end"
		},
	},
	{
		name: "endless-json", text: "JSON that never ends",
		twist: func(t *misbehaviour, _ *args) {
			t.take = func(x *exchange) {
				x.head(200, x.p.JSONType, -1)
				x.put([]byte(`{"id":"chatcmpl-endless","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"`))
				x.endless(bytes.Repeat([]byte("endless "), 4096), x.framing == byChunks)
			}
		},
	},
}
