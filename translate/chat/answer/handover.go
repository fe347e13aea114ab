package answer

import (
	"strconv"

	"penstock/translate"
	"penstock/translate/jsonx"
)

// handover is what a stream that another engine goes on with keeps of the engines before it: the
// SDKs take a chunk with another id for another answer, and add up a role that is said twice.
type handover struct {
	pinned bool                              // chunks get the id and the time of the first
	roles  [translate.MaxChoices / 64]uint64 // choices that have been announced
}

// NextEngine prepares for the events of another engine, which goes on with an answer that has
// started, and otherwise begins.
func (s *Stream) NextEngine() {
	for i, seen := range s.state.seen {
		s.handover.roles[i] |= seen
	}
	s.handover.pinned = s.handover.pinned || s.state.choicesSeen > 0 || len(s.identity.id) > 0
	if s.Started() {
		s.state.resume()
	} else {
		s.state = streamState{promptEstimate: s.state.promptEstimate}
		s.tools.Reset()
		s.tools.Offer(s.options.Tools)
		s.tools.Single(s.options.SingleToolCall)
		s.opening = translate.Opening{}
	}
	s.template.reset()
	s.held.reset()
	s.halves = nil
}

// Resume prepares for the events of another engine, which goes on with the answer. It has no tool
// calls yet.
func (r *Reader) Resume() {
	r.state.resume()
	r.template.reset()
	r.halves = nil
}

// resume has the counts of the next engine added to what there is.
func (t *streamState) resume() {
	u := t.usageSoFar()
	u.Resumed++
	*t = streamState{
		seen: t.seen, choicesSeen: t.choicesSeen, unfinished: t.unfinished,
		deltas: t.deltas, promptEstimate: t.promptEstimate, before: u,
	}
}

// resumed reports whether an engine before has begun the answer.
func (t *streamState) resumed() bool { return t.before.Resumed > 0 }

// goOn returns the usage of a resumed answer, of which the engine has counted next.
func (t *streamState) goOn(next translate.Usage) counts {
	return counts{Usage: t.before.GoOn(next), summed: true}
}

// knows reports whether the client has been told of choice n by an engine before.
func (h *handover) knows(n int) bool { return h.roles[n/64]&(1<<(n%64)) != 0 }

// pin notes that the chunk gets the id and the time of the first one.
func (i *identity) pin(edits *jsonx.Edits, h *topLevel, o *Options) {
	id, created := i.id, i.created
	if len(id) == 0 {
		id = jsonx.AppendStringS(nil, o.ID)
	}
	if len(created) == 0 {
		created = strconv.AppendInt(nil, o.Created, 10)
	}
	setMember(edits, h.root, h.id, "id", id)
	setMember(edits, h.root, h.created, "created", created)
}
