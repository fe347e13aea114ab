package client

import (
	"math/bits"
	"slices"

	"penstock/bench/result"
	"penstock/translate/sse"
)

// Dialect is a wire format: how to write a request and how to read its answer. The table dialects
// lists them all.
type Dialect struct {
	Name    string
	Backend string // vLLM's name for the dialect, or ours
	path    string // below /v1
	Streams bool   // an answer can be streamed
	Tokens  bool   // it generates tokens, so TTFT, ITL and TPOT are meaningful
	Prompt  bool   // its input is counted in tokens
	sound   bool   // answers are audio, sent while generated; TTFT: first byte
	Mime    string // of the request; for transcription it is set with the body

	// body appends the body of a request.
	Body func(dst []byte, q *Request) []byte
	// event reads an event of a stream and returns what it contained.
	event func(p *Reply, ev sse.Event) pieces
	// whole reads an unstreamed answer, and reports whether the answer belongs to the dialect; nil if
	// sound is set.
	whole func(p *Reply, body []byte) bool
	// end is called after the last event and checks the complete stream.
	end func(p *Reply)
}

// pieces is the set of kinds of content in an event.
type pieces uint8

const (
	pieceText pieces = 1 << iota
	pieceReasoning
	pieceTool
)

// token reports whether an event contained anything that counts as a token; visible reports whether
// a user would see any of it.
func (p pieces) token() bool   { return p != 0 }
func (p pieces) visible() bool { return p&(pieceText|pieceTool) != 0 }

// faultSet is a set of Faults, by their index.
type faultSet uint16

func (s *faultSet) Add(fault string) { *s |= 1 << slices.Index(result.Faults(), fault) }

func (s faultSet) has(fault string) bool { return s&(1<<slices.Index(result.Faults(), fault)) != 0 }

// Names lists the faults.
func (s faultSet) Names() []string {
	out := make([]string, 0, bits.OnesCount16(uint16(s)))
	for i, name := range result.Faults() {
		if s&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// fails reports whether any of the faults makes an answer useless. Other faults are only counted.
func (s faultSet) fails() bool {
	return s.has(result.FaultNoEnd) || s.has(result.FaultUnparsed) || s.has(result.FaultAfterEnd) ||
		s.has(result.FaultOrder) || s.has(result.FaultToolJSON)
}
