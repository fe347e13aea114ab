package client

import (
	"math/bits"
	"slices"

	"penstock/bench/result"
	"penstock/translate/sse"
)

// Dialect is a wire format: how a request is written and how its answer is read. All are in the
// table dialects.
type Dialect struct {
	Name    string
	Backend string // vLLM's word for it, or ours
	path    string // below /v1
	Streams bool   // an answer can be streamed
	Tokens  bool   // it generates tokens: TTFT, ITL and TPOT mean something
	Prompt  bool   // what it reads is counted in tokens
	sound   bool   // an answer is sound, sent as it is made: TTFT is the time to its first byte
	Mime    string // of the request; of transcription it is made with the body

	// body appends the body of a request.
	Body func(dst []byte, q *Request) []byte
	// event takes an event of a stream and says what it carried.
	event func(p *Reply, ev sse.Event) pieces
	// whole takes an answer that was not streamed, and reports whether it is one of the dialect;
	// nil where sound is set.
	whole func(p *Reply, body []byte) bool
	// end is called behind the last event and looks at the whole.
	end func(p *Reply)
}

// pieces says what an event carried.
type pieces uint8

const (
	pieceText pieces = 1 << iota
	pieceReasoning
	pieceTool
)

// token reports whether there was anything that counts as a token, visible whether a user would see
// it.
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

// fails reports whether any of the faults makes an answer useless: the others are only counted.
func (s faultSet) fails() bool {
	return s.has(result.FaultNoEnd) || s.has(result.FaultUnparsed) || s.has(result.FaultAfterEnd) ||
		s.has(result.FaultOrder) || s.has(result.FaultToolJSON)
}
