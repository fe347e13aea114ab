package bench

import (
	"math/bits"
	"slices"

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
	sound   bool   // an answer is sound, sent as it is made: TTFT is the time to its first byte
	mime    string // of the request; of transcription it is made with the body

	// body appends the body of a request.
	body func(dst []byte, q *request) []byte
	// event takes an event of a stream and says what it carried.
	event func(p *reply, ev sse.Event) pieces
	// whole takes an answer that was not streamed, and reports whether it is one of the dialect; nil where sound is set.
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
	{name: "transcription", backend: "openai-audio", path: "/audio/transcriptions", streams: true, mime: "multipart/form-data; boundary=" + boundary, body: transcriptionBody, event: transcriptionEvent, whole: transcriptionWhole, end: func(*reply) {}},
	{name: "speech", backend: "speech", path: "/audio/speech", sound: true, body: speechBody},
}

// findDialect returns the dialect of that name, ours or vLLM's, or nil.
func findDialect(name string) *dialect {
	for _, d := range dialects {
		if d.name == name || d.backend == name {
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
