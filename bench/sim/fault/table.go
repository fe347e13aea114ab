package fault

import (
	"cmp"
	"strings"
	"time"

	"penstock/bench/sim/profile"
)

// row is one fault: its name, its value and parameters, what it is for people, and what it does.
type row struct {
	name, usage, text string
	effect            func(*Effects, *args)
}

// table is every fault, in the order of --faults: what happens to connections and to time, to the
// answer's head, to framing and whole bodies, in the middle of an answer; then the many forms of a
// stream, legal or not.
var table = []row{
	{
		"refuse", "",
		"closes the connection with a RST as soon as it is accepted (asked for by a request: after it is read)",
		func(e *Effects, _ *args) { e.Accept, e.Take = AcceptReset, reset },
	},
	{
		"noread", "", "accepts and never reads, with a small receive window (asked for by a request: as blackhole)",
		func(e *Effects, _ *args) { e.Accept, e.Hold = AcceptUnread, true },
	},
	{"reset-before", "", "RST after the request, before a byte", func(e *Effects, _ *args) { e.Take = reset }},
	{
		"eof-before", "", "FIN after the request, before a byte",
		func(e *Effects, _ *args) { e.Take = []Step{{Op: OpClose}} },
	},
	{"blackhole", "", "reads the request, takes a slot, never answers", func(e *Effects, _ *args) { e.Hold = true }},
	{
		"wedge", "[=DURATION]", "from here on no token and no answer of the whole engine, for so long or until a reset;" +
			" health is 200, counters stand still",
		func(e *Effects, a *args) { e.Wedge = a.span(forGood) },
	},
	{
		"slow-health", "[=3s]", "every page takes so long (health, models, metrics), inference does not",
		func(e *Effects, a *args) { e.Pages, e.Delay = true, a.span(3*time.Second) },
	},
	{
		"long-prefill", "[=150s][;chunks=1]",
		"the first token takes so long; counters move at the end of each of so many chunks of the prompt",
		func(e *Effects, a *args) { e.Prefill, e.Chunks = a.span(150*time.Second), max(1, a.num("chunks", 1)) },
	},
	{
		"early-413", "[;linger=1]", "answers 413 before the body is read and closes (RST if unread bytes came);" +
			" linger: FIN, then discards for 2 s",
		func(e *Effects, a *args) { e.Early, e.Linger = true, a.flag("linger") },
	},
	{
		"slow-header", "[;gap=100ms]", "the head comes a byte at a time",
		func(e *Effects, a *args) { e.DripHead = a.duration("gap", 100*time.Millisecond) },
	},
	{
		"slow-body", "[;gap=100ms]", "the body comes a byte at a time",
		func(e *Effects, a *args) { e.DripBody = a.duration("gap", 100*time.Millisecond) },
	},
	{
		"garbage-head", "[;kind=binary|nocolon|nostatus|version|space|badlength|negative|nul|encoding]",
		"a head that is not HTTP, then FIN",
		func(e *Effects, a *args) { e.Take = sendAndClose(a.kind("binary", garbageHeads)) },
	},
	{"head-cut", "[;reset=1]", "half a head, then FIN or RST", func(e *Effects, a *args) {
		e.Take = sendAndClose("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Len")
		if a.flag("reset") {
			e.Take = append(e.Take[:1], lateReset[1:]...)
		}
	}},
	{"status-101", "", "101 Switching Protocols, then silence", func(e *Effects, _ *args) {
		e.Take = []Step{
			{Op: OpSend, Text: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"},
			{Op: OpHang},
		}
	}},
	{"status-999", "", "a good answer under status 999", func(e *Effects, _ *args) { e.Status = 999 }},
	{"http09", "", "a body without any head, then FIN", func(e *Effects, _ *args) {
		e.Take = sendAndClose(`{"id":"chatcmpl-09","object":"chat.completion","choices":[]}` + "\n")
	}},
	{
		"interim", "[=3][;code=103]", "so many 1xx heads before the answer",
		func(e *Effects, a *args) { e.Interim, e.InterimCode = a.number(3), a.num("code", 103) },
	},
	{
		"redirect", "[=307][;to=URL]",
		"a redirect, by default to /sim/redirected of this engine, which counts visits in stats as followed",
		func(e *Effects, a *args) {
			e.Lines = append(e.Lines, "Location: "+cmp.Or(a.str("to", ""), "{url}/sim/redirected")+"\r\n"...)
			e.Take = []Step{{Op: OpReply, Status: a.number(307), Type: "text/plain", Text: "moved\n"}}
		},
	},
	{
		"status", "=NNN[;retry-after=SECONDS|DATE][;html=1][;empty=1][;message=TEXT][;type=TYPE]",
		"an error status with the profile's own body; html: a page that names a host", status,
	},
	{"no-content", "", "204 without a body", func(e *Effects, _ *args) { e.Take = []Step{{Op: OpNoContent}} }},
	{
		"huge-header", "[=307200][;lines=0]", "so many bytes of header lines, in lines of 1 KB or (lines=1) in one",
		func(e *Effects, a *args) { e.Filler = fillerLines(a.number(300<<10), a.num("lines", 0) == 1) },
	},
	{"endless-header", "", "header lines that never end", func(e *Effects, _ *args) {
		e.Take = []Step{
			{Op: OpBody, Text: "HTTP/1.1 200 OK\r\n"},
			{Op: OpRepeat, Text: "X-Filler: " + strings.Repeat("f", 1000) + "\r\n"},
		}
	}},
	{
		"leak-headers", "", "Set-Cookie, CORS, hop-by-hop and internal headers on a good answer",
		func(e *Effects, _ *args) { e.Lines = append(e.Lines, leakedLines...) },
	},
	{
		"two-content-length", "[;same=1]", "two Content-Length lines that differ, or agree",
		func(e *Effects, a *args) {
			if e.Framing = TwoLengths; a.flag("same") {
				e.Framing = SameLengths
			}
		},
	},
	{
		"te-and-cl", "", "Transfer-Encoding: chunked and a Content-Length",
		func(e *Effects, _ *args) { e.Framing = TEAndLength },
	},
	{
		"close-delimited", "", "no length and no chunks: the body ends with the connection (legal)",
		func(e *Effects, _ *args) { e.Framing = ByClose },
	},
	{"chunked", "", "a plain answer in chunks (legal)", func(e *Effects, _ *args) { e.Framing = ByChunks }},
	{
		"surplus", "[;kind=reply|bytes]", "bytes after the answer: a forged second reply, or noise",
		func(e *Effects, a *args) {
			if e.Surplus = ForgedReply(); a.oneOf("kind", "reply", "reply", "bytes") == "bytes" {
				e.Surplus = []byte("surplus bytes after the end of the answer")
			}
		},
	},
	{
		"second-reply", "[;within=500us]",
		"a forged second reply after the answer, at a random time up to so much later",
		func(e *Effects, a *args) { e.Second = max(a.duration("within", 500*time.Microsecond), 1) },
	},
	{
		"short-body", "[=100]", "Content-Length promises so many bytes more than come, then FIN",
		func(e *Effects, a *args) { e.Framing, e.Long = LongLength, a.number(100) },
	},
	{
		"chunk-cut", "[=2]", "FIN inside a chunk, after so many events or in the middle of a plain answer",
		func(e *Effects, a *args) {
			e.Framing = ByChunks
			e.at(a.number(2), sendAndClose("c8\r\ndata: {\"id\":\"chatcmpl-cut\",\"obj")...)
		},
	},
	{
		"bad-chunk", "[=2][;kind=size|negative|huge|nocrlf|empty]", "a chunk that is none, after so many events, then FIN",
		func(e *Effects, a *args) {
			e.Framing = ByChunks
			e.at(a.number(2), sendAndClose(a.kind("size", badChunks))...)
		},
	},
	{
		"keepalive-close", "[;when=now|next|next-reset][;after=DURATION]",
		"closes the kept connection right after the answer (or so much later), or just when the next request comes",
		func(e *Effects, a *args) {
			e.Quit, e.QuitDelay = a.oneOf("when", "now", "now", "next", "next-reset"), a.duration("after", 0)
		},
	},
	{
		"gzip", "[;bomb=MB]", "Content-Encoding: gzip that nobody asked for; bomb: so many megabytes of zeros in it",
		func(e *Effects, a *args) {
			e.Gzip = true
			if mb := a.num("bomb", 0); mb > 0 {
				e.Take = []Step{{Op: OpBomb, N: mb}}
			}
		},
	},
	{
		"empty-body", "", "200 with nothing in it",
		func(e *Effects, _ *args) { e.Take = []Step{{Op: OpReply, Status: 200, Type: "json"}} },
	},
	{"html-200", "", "200 with an HTML page that names a host", func(e *Effects, _ *args) {
		e.Take = []Step{{Op: OpReply, Status: 200, Type: "text/html", Text: htmlPage(200)}}
	}},
	{
		"invalid-json", "[=1]",
		"a plain answer cut in the middle of its JSON; in a stream one broken event after so many",
		func(e *Effects, a *args) {
			e.Plain = func(_ *profile.Profile, b []byte) []byte { return b[:len(b)/2] }
			e.inStream(a.number(1), true, Step{
				Op:   OpEvent,
				Text: `{"id":"chatcmpl-broken","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"bro`,
			})
		},
	},
	{"no-choices", "[;empty=1]", "JSON without choices, or with none in it; a stream of such events", noChoices},
	{"sse-for-json", "", "a stream although none was asked for", func(e *Effects, _ *args) { e.Flip = FlipStream }},
	{
		"json-for-sse", "[;label=1]",
		"a plain answer although a stream was asked for; label: a stream whose Content-Type says JSON",
		func(e *Effects, a *args) {
			if e.Flip = FlipPlain; a.flag("label") {
				e.Flip, e.StreamType = FlipNone, "application/json"
			}
		},
	},
	{
		"padded", "[=33554432][;at=begin|end]",
		"a plain answer or an error whose JSON object is that large, by a first or last member that means nothing (legal)",
		func(e *Effects, a *args) {
			e.Pad, e.PadEnd = a.number(32<<20), a.oneOf("at", "begin", "begin", "end") == "end"
		},
	},
	{"endless-json", "", "JSON that never ends", func(e *Effects, _ *args) {
		e.Take = []Step{
			{Op: OpHead},
			{Op: OpBody, Text: `{"id":"chatcmpl-endless","object":"chat.completion","choices":[` +
				`{"index":0,"message":{"role":"assistant","content":"`},
			endless,
		}
	}},
	{
		"cut-after", "[=2]", "FIN without the last chunk after so many events (a plain answer: after half of it)",
		func(e *Effects, a *args) { e.at(a.number(2), Step{Op: OpClose}) },
	},
	{
		"reset-after", "[=2]", "RST after so many events (a plain answer: after half of it)",
		func(e *Effects, a *args) { e.at(a.number(2), lateReset...) },
	},
	{
		"stall-after", "[=2][;ping=DURATION]",
		"silence for ever after so many events (0: after the head); ping: comments go on",
		func(e *Effects, a *args) { e.at(a.number(2), Step{Op: OpHang, For: a.duration("ping", 0)}) },
	},
	{
		"lost-after", "[=2]",
		"the engine forgets the request after so many events: its slot is free, its stream open and silent",
		func(e *Effects, a *args) { e.at(a.number(2), Step{Op: OpFlush}, Step{Op: OpForget}, Step{Op: OpHang}) },
	},
	{
		"buffered-call", "[=100s]",
		"silence for so long after the first event while tokens are made, then a tool call comes whole",
		func(e *Effects, a *args) {
			e.WholeCalls = true
			e.Incidents = append(e.Incidents, Incident{
				At: 1, GoOn: true, Steps: []Step{{Op: OpWork, For: a.span(100 * time.Second)}},
			})
		},
	},
	{
		"pause-after", "[=2][;for=1s]", "silence for a while after so many events, then on (legal)",
		func(e *Effects, a *args) {
			e.Incidents = append(e.Incidents, Incident{
				At: a.number(2), GoOn: true, Steps: []Step{{Op: OpFlush}, {Op: OpWait, For: a.duration("for", time.Second)}},
			})
		},
	},
	{
		"error-in-stream", "[=2][;code=500][;done=0|1][;message=TEXT]",
		"an error event after so many, then [DONE] or not (default: as the profile does)",
		func(e *Effects, a *args) { errorEvent(e, a, a.number(2), 500) },
	},
	{
		"error-first", "[;code=503][;done=0|1][;message=TEXT]", "200 and an error as the first event",
		func(e *Effects, a *args) { errorEvent(e, a, 0, 503) },
	},
	{"no-done", "", "a finish_reason, but no [DONE]", func(e *Effects, _ *args) { e.NoDone = true }},
	{
		"no-finish", "[;done=1][;ghost=1]", "a clean end with no finish_reason (null in a plain answer) and no [DONE];" +
			" done: with [DONE]; ghost: after a chunk with no model and no text",
		func(e *Effects, a *args) { e.NoFinish, e.NoDone, e.Ghost = true, !a.flag("done"), a.flag("ghost") },
	},
	{"finish", "=REASON", "this finish_reason (content_filter, abort, …)", func(e *Effects, a *args) {
		if e.Finish = a.word(); e.Finish == "" {
			a.fail("want a reason")
		}
	}},
	{
		"huge-event", "[=2097152][;at=2]", "one event with so many bytes of text",
		func(e *Effects, a *args) {
			n := a.number(2 << 20)
			e.inStream(a.num("at", 2), true, Step{Op: OpContent, N: n}, Step{Op: OpFlush})
		},
	},
	{"endless-line", "[=1]", "an event that never ends, after so many", func(e *Effects, a *args) {
		const opening = `data: {"id":"chatcmpl-endless","choices":[{"index":0,"delta":{"content":"`
		e.inStream(a.number(1), false, Step{Op: OpBody, Text: opening}, endless)
	}},
	{"crlf", "", "events with CRLF (legal)", func(e *Effects, _ *args) { e.Form.EOL = "\r\n" }},
	{"cr", "", "events with lone CR (legal)", func(e *Effects, _ *args) { e.Form.EOL = "\r" }},
	{"nospace", "", "no blank after data: (legal)", func(e *Effects, _ *args) { e.Form.NoSpace = true }},
	{"comments", "", "comments between events (legal)", func(e *Effects, _ *args) { e.Form.Comments = true }},
	{"multiline-data", "", "events in several data lines (legal)", func(e *Effects, _ *args) { e.Form.Multiline = true }},
	{"fields", "", "event, id and retry lines (legal)", func(e *Effects, _ *args) { e.Form.Fields = true }},
	{"bom", "", "a byte order mark before the first event (legal)", func(e *Effects, _ *args) { e.Form.BOM = true }},
	{
		"escaped", "", "\\u escapes for all that is not ASCII, in surrogate pairs (legal)",
		func(e *Effects, _ *args) { e.Form.Escaped = true },
	},
	{"open-end", "", "no blank line after [DONE]", func(e *Effects, _ *args) { e.Form.OpenEnd = true }},
	{
		"byte-by-byte", "[;gap=0s]", "every byte of the body in a chunk and a write of its own (legal)",
		func(e *Effects, a *args) { e.Piece, e.PieceGap = 1, a.duration("gap", 0) },
	},
	{
		"split", "[;gap=100us]", "the body in odd pieces of 1 to 23 bytes, across events and characters (legal)",
		func(e *Effects, a *args) { e.Piece, e.PieceGap = 23, a.duration("gap", 100*time.Microsecond) },
	},
	{"usage-every-chunk", "", "usage on every chunk", func(e *Effects, _ *args) { e.Usage = UsageEvery }},
	{
		"usage-on-finish", "", "usage on the finish chunk, none of its own",
		func(e *Effects, _ *args) { e.Usage = UsageOnFinish },
	},
	{
		"no-usage", "", "no usage, asked for or not, in plain answers neither",
		func(e *Effects, _ *args) { e.Usage = UsageNever },
	},
	{"usage-unasked", "", "a usage chunk although nobody asked", func(e *Effects, _ *args) { e.Usage = UsageUnasked }},
	{
		"tool-interleaved", "", "two calls at least, their fragments interleaved",
		func(e *Effects, _ *args) { e.MinCalls, e.Interwove = 2, true },
	},
	{"tool-whole", "", "each call in one delta, as Ollama sends it", func(e *Effects, _ *args) { e.WholeCalls = true }},
	{
		"tool-split-name", "", "the name of each call in two pieces, as engines have it that pass on each token",
		func(e *Effects, _ *args) { e.SplitNames = true },
	},
	{"tool-bad-args", "", "arguments that are not JSON", func(e *Effects, _ *args) { e.BadArgs = true }},
}

// forGood is longer than a run.
const forGood = 24 * time.Hour

var (
	reset     = []Step{{Op: OpReset}}
	lateReset = []Step{{Op: OpFlush}, {Op: OpWait, For: 5 * time.Millisecond}, {Op: OpReset}} // or it overtakes the bytes
	endless   = Step{Op: OpRepeat, Text: strings.Repeat("endless ", 4096)}
)

func sendAndClose(text string) []Step { return []Step{{Op: OpSend, Text: text}, {Op: OpClose}} }

// status arms an error in the place of the answer.
func status(e *Effects, a *args) {
	code := a.number(500)
	if code < 200 || code > 999 {
		a.fail("status is 200 to 999")
	}
	if retry := a.str("retry-after", ""); retry != "" {
		e.Lines = append(e.Lines, "Retry-After: "+retry+"\r\n"...)
	}
	html, empty := a.flag("html"), a.flag("empty")
	s := Step{Op: OpError, Status: code, Text: a.str("message", ""), Type: a.str("type", "")}
	switch {
	case empty:
		s = Step{Op: OpReply, Status: code}
	case html:
		s = Step{Op: OpReply, Status: code, Type: "text/html", Text: htmlPage(code)}
	case s.Text == "":
		s.Text = StatusText(code)
	}
	e.Take = []Step{s}
}

func noChoices(e *Effects, a *args) {
	rest := `}`
	if a.flag("empty") {
		rest = `,"choices":[]}`
	}
	e.Plain = func(*profile.Profile, []byte) []byte {
		return []byte(`{"id":"chatcmpl-none","object":"chat.completion","created":1,"model":"sim"` + rest)
	}
	chunk := Step{
		Op:   OpEvent,
		Text: `{"id":"chatcmpl-none","object":"chat.completion.chunk","created":1,"model":"sim"` + rest,
	}
	e.inStream(0, false, chunk, chunk, chunk, Step{Op: OpEvent, Text: "[DONE]"}, Step{Op: OpFinish})
}

// errorEvent arms an error in a stream.
func errorEvent(e *Effects, a *args, at, code int) {
	s := Step{Op: OpStreamEnd, Status: a.num("code", code), Text: a.str("message", ""), N: -1}
	if s.Text == "" {
		s.Text = StatusText(s.Status)
	}
	if done := a.oneOf("done", "", "", "0", "1"); done != "" {
		s.N = int(done[0] - '0')
	}
	e.Plain = func(p *profile.Profile, _ []byte) []byte {
		return p.AppendStreamError(nil, profile.APIError{Status: s.Status, Message: s.Text})
	}
	e.inStream(at, false, s)
}
