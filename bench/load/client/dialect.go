package client

import (
	"math/bits"
	"slices"

	"penstock/bench/result"
	"penstock/translate/sse"
)

// Dialect is a wire format. It defines how to write a request and how to read the response.
type Dialect struct {
	Name    string
	Backend string // vLLM's name for the dialect or, if there is none, the load tester's
	path    string // path below /v1
	Streams bool   // responses can be streamed
	Tokens  bool   // responses consist of tokens, so TTFT, ITL and TPOT are meaningful
	Prompt  bool   // the input is counted in tokens
	// responses are audio that is sent while it is generated; TTFT is the time to the first audio
	// byte
	isAudio bool
	Mime    string // Content-Type of the request, including the boundary if the body is multipart

	// Body appends the body of a request to dst.
	Body func(dst []byte, q *Request) []byte
	// event reads a stream event and returns the kinds of content in it.
	event func(p *Reply, ev sse.Event) contentKinds
	// readResponse reads a response that is not streamed, and reports whether it has the dialect's
	// format. readResponse is nil if isAudio is true.
	readResponse func(p *Reply, body []byte) bool
	// end is called after the last event. It checks the stream as a whole.
	end func(p *Reply)
}

// contentKinds is a set of content kinds, as a bit mask.
type contentKinds uint8

const (
	contentText contentKinds = 1 << iota
	contentReasoning
	contentToolCall
)

// hasToken reports whether an event contains content that counts as a token. hasVisible reports
// whether a user would see any of this content.
func (p contentKinds) hasToken() bool   { return p != 0 }
func (p contentKinds) hasVisible() bool { return p&(contentText|contentToolCall) != 0 }

// faultSet is a set of faults, as a bit mask.
type faultSet uint16

func (s *faultSet) Add(fault string) { *s |= 1 << slices.Index(result.StreamFaults(), fault) }

func (s faultSet) has(fault string) bool {
	return s&(1<<slices.Index(result.StreamFaults(), fault)) != 0
}

// Names returns the names of the faults.
func (s faultSet) Names() []string {
	out := make([]string, 0, bits.OnesCount16(uint16(s)))
	for i, name := range result.StreamFaults() {
		if s&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// isFatal reports whether the set contains a fault that makes a response useless. All other faults
// are only counted.
func (s faultSet) isFatal() bool {
	return s.has(result.FaultNoEnd) || s.has(result.FaultUnparsed) || s.has(result.FaultAfterEnd) ||
		s.has(result.FaultOrder) || s.has(result.FaultToolJSON)
}
