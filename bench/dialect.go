package bench

import (
	"math/bits"
	"slices"

	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// dialect is a wire format: how a request is written and how its answer is read. All are in the table dialects.
type dialect struct {
	name    string
	backend string // vLLM's word for it, or ours
	path    string // below /v1
	streams bool   // an answer can be streamed
	tokens  bool   // it generates tokens: TTFT, ITL and TPOT mean something
	prompt  bool   // what it reads is counted in tokens
	mime    string // of the request; of transcription it is made with the body

	// body appends the body of a request.
	body func(dst []byte, q *request) []byte
	// event takes an event of a stream and says what it carried.
	event func(p *reply, ev sse.Event) pieces
	// whole takes an answer that was not streamed, and reports whether it is one of the dialect.
	whole func(p *reply, body []byte) bool
	// end is called behind the last event and looks at the whole.
	end func(p *reply)
}

var dialects = []*dialect{
	{name: "chat", backend: "openai-chat", path: "/chat/completions", streams: true, tokens: true, prompt: true, body: chatBody, event: chatEvent, whole: chatWhole, end: chatEnd},
	{name: "messages", backend: "messages", path: "/messages", streams: true, tokens: true, prompt: true, body: messagesBody, event: messagesEvent, whole: messagesWhole, end: toolEnd},
	{name: "responses", backend: "responses", path: "/responses", streams: true, tokens: true, prompt: true, body: responsesBody, event: responsesEvent, whole: responsesWhole, end: toolEnd},
	{name: "completions", backend: "openai", path: "/completions", streams: true, tokens: true, prompt: true, body: completionsBody, event: completionsEvent, whole: completionsWhole, end: chatEnd},
	{name: "embeddings", backend: "openai-embeddings", path: "/embeddings", prompt: true, body: embeddingsBody, whole: embeddingsWhole},
	{name: "transcription", backend: "openai-audio", path: "/audio/transcriptions", mime: "multipart/form-data; boundary=" + boundary, body: transcriptionBody, whole: transcriptionWhole},
	{name: "speech", backend: "speech", path: "/audio/speech", body: speechBody, whole: speechWhole},
}

// backends are further words for a dialect: those of vLLM, AIPerf and guidellm.
var backends = map[string]string{
	"openai-chat": "chat", "vllm-chat": "chat", "chat_completions": "chat", "anthropic_messages": "messages", "anthropic": "messages",
	"openai-responses": "responses", "openai": "completions", "vllm": "completions", "completion": "completions", "text_completions": "completions",
	"openai-embeddings": "embeddings", "embedding": "embeddings", "openai-audio": "transcription", "transcriptions": "transcription",
	"audio_transcriptions": "transcription", "audio_speech": "speech",
}

// findDialect returns the dialect of that name, or nil.
func findDialect(name string) *dialect {
	if other, ok := backends[name]; ok {
		name = other
	}
	for _, d := range dialects {
		if d.name == name {
			return d
		}
	}
	return nil
}

// dialectNames lists our names, for errors and help.
func dialectNames() []string {
	var out []string
	for _, d := range dialects {
		out = append(out, d.name)
	}
	return out
}

// pieces says what an event carried.
type pieces uint8

const (
	pieceText pieces = 1 << iota
	pieceReasoning
	pieceTool
)

// token reports whether there was anything that counts as a token, visible whether a user would see it.
func (p pieces) token() bool   { return p != 0 }
func (p pieces) visible() bool { return p&(pieceText|pieceTool) != 0 }

// faultSet is a set of Faults, by their index.
type faultSet uint16

func (s *faultSet) add(fault string) { *s |= 1 << slices.Index(Faults(), fault) }

func (s faultSet) has(fault string) bool { return s&(1<<slices.Index(Faults(), fault)) != 0 }

// names lists the faults.
func (s faultSet) names() []string {
	out := make([]string, 0, bits.OnesCount16(uint16(s)))
	for i, name := range Faults() {
		if s&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// fails reports whether any of the faults makes an answer useless: the others are only counted.
func (s faultSet) fails() bool {
	return s.has(FaultNoEnd) || s.has(FaultUnparsed) || s.has(FaultAfterEnd) || s.has(FaultOrder) || s.has(FaultToolJSON)
}

// toolCall is a call in a reply.
type toolCall struct {
	id, name, args []byte
}

// reply is what is gathered from one answer. It is reused.
type reply struct {
	doc *jsonx.Doc

	ended  bool   // what ends a stream of the dialect came
	done   bool   // [DONE] came
	failed bool   // an error event came
	code   string // of the error
	finish string
	faults faultSet

	in, out, cached int // -1: not said

	keep  bool // keep the text, for a next turn or to count its tokens
	text  []byte
	size  int // bytes of text
	calls []toolCall

	begun bool  // messages: message_start came; responses: response.created
	block bool  // messages: a content block is open
	seq   int64 // responses: last sequence_number
}

func (p *reply) reset(keep bool) {
	*p = reply{doc: p.doc, in: -1, out: -1, cached: -1, seq: -1, keep: keep, text: p.text[:0], calls: p.calls[:0]}
}

// parse parses an event's data; a failure is a fault.
func (p *reply) parse(data []byte) (jsonx.Value, bool) {
	if err := p.doc.Parse(data, jsonx.Options{}); err != nil || !p.doc.Root().IsObject() {
		p.faults.add(FaultUnparsed)
		return jsonx.Value{}, false
	}
	return p.doc.Root(), true
}

// say takes a piece of visible text and reports it, if it is not empty.
func (p *reply) say(v jsonx.Value) pieces {
	n := len(v.Raw()) - 2
	if !v.IsString() || n <= 0 {
		return 0
	}
	if p.size += n; p.keep {
		p.text = v.AppendText(p.text)
	}
	return pieceText
}

// think takes a piece of reasoning.
func (p *reply) think(v jsonx.Value) pieces {
	if !v.IsString() || len(v.Raw()) <= 2 {
		return 0
	}
	return pieceReasoning
}

// call returns the i-th tool call, made when it is new; nil when i is out of all reason.
func (p *reply) call(i int) *toolCall {
	if i < 0 || i > 128 {
		p.faults.add(FaultOrder)
		return nil
	}
	for len(p.calls) <= i {
		if len(p.calls) < cap(p.calls) {
			p.calls = p.calls[:len(p.calls)+1]
		} else {
			p.calls = append(p.calls, toolCall{})
		}
		c := &p.calls[len(p.calls)-1]
		c.id, c.name, c.args = c.id[:0], c.name[:0], c.args[:0]
	}
	return &p.calls[i]
}

// fail takes an error object: {"code":…,"type":…}.
func (p *reply) fail(v jsonx.Value) {
	p.failed = true
	p.code = errorCode(v)
}

// errorCode is the code of an error object, or its type.
func errorCode(v jsonx.Value) string {
	for _, name := range []string{"code", "type"} {
		if c := v.Get(name); c.IsString() {
			if w := word(c.AppendText(nil)); w != "" {
				return w
			}
		}
	}
	return ""
}

// words are the texts that answers usually hold, so that they need not be made anew.
var words = []string{"stop", "length", "tool_calls", "end_turn", "max_tokens", "tool_use", "stop_sequence", "completed", "incomplete", "max_output_tokens", "content_filter"}

// word returns b when it is an identifier of at most 64 characters, else nothing: no text of a server gets into a result.
func word(b []byte) string {
	for _, w := range words {
		if string(b) == w {
			return w
		}
	}
	if len(b) > 64 {
		return ""
	}
	for _, c := range b {
		if c != '_' && c != '-' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return ""
		}
	}
	return string(b)
}

// text returns the word in v.
func textWord(v jsonx.Value) string {
	if t, ok := v.Text(); ok {
		return word(t)
	}
	return ""
}

// setInt sets out to the integer in v, if it is one.
func setInt(v jsonx.Value, out *int) {
	if n, ok := v.Int(); ok {
		*out = int(n)
	}
}

// toolEnd checks that the arguments of every tool call are JSON, unless the answer was cut for its length.
func toolEnd(p *reply) {
	switch p.finish {
	case "length", "max_tokens", "incomplete":
		return
	}
	for i := range p.calls {
		if args := p.calls[i].args; len(args) > 0 && p.doc.Parse(args, jsonx.Options{Record: 1}) != nil {
			p.faults.add(FaultToolJSON)
		}
	}
}
