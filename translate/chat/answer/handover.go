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

// Restart prepares for the events of another engine, before the answer has started.
func (s *Stream) Restart() {
	for i, seen := range s.state.seen {
		s.handover.roles[i] |= seen
	}
	s.handover.pinned = s.handover.pinned || s.state.choicesSeen > 0 || len(s.identity.id) > 0
	s.state = streamState{promptEstimate: s.state.promptEstimate}
	s.template.reset()
	s.tools.Reset()
	s.held.reset()
	s.halves, s.opening, s.started = nil, translate.Opening{}, false
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
