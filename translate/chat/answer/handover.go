package answer

import (
	"strconv"

	"penstock/translate"
	"penstock/translate/jsonx"
)

// engineHandover is the state that a stream carries over from earlier engines. If a chunk has a
// different id, SDKs treat the chunk as part of a different answer. If a role is sent twice, SDKs
// concatenate the two roles.
type engineHandover struct {
	pinned    bool
	rolesSent [translate.MaxChoices / 64]uint64
}

// PrepareForNextEngine prepares for events from another engine. If the answer has started, the
// other engine continues it.
func (s *Stream) PrepareForNextEngine() {
	for i, seen := range s.state.seenChoices {
		s.handover.rolesSent[i] |= seen
	}
	s.handover.pinned = s.handover.pinned || s.state.choicesSeen > 0 || len(s.identity.id) > 0
	if s.HasStarted() {
		s.state.resume()
	} else {
		s.state = streamState{promptEstimate: s.state.promptEstimate}
		s.tools.Reset()
		s.tools.SetToolNames(s.options.Tools)
		s.tools.SetSingle(s.options.SingleToolCall)
		s.opening = translate.MarkupDetector{}
	}
	s.template.reset()
	s.head.reset()
	s.held.reset()
	s.heldSurrogates = nil
}

// Resume prepares for events from an engine that continues the answer. The answer must not have
// tool calls yet.
func (r *Reader) Resume() {
	r.state.resume()
	r.template.reset()
	r.heldSurrogates = nil
}

// resume prepares for the next engine's counts, which are added to the counts so far.
func (t *streamState) resume() {
	u := t.usageSoFar()
	u.Resumed++
	*t = streamState{
		seenChoices: t.seenChoices, choicesSeen: t.choicesSeen, unfinished: t.unfinished,
		deltas: t.deltas, generatedBytes: t.generatedBytes, bytesAtUsage: t.generatedBytes,
		promptEstimate: t.promptEstimate, earlierUsage: &u,
	}
}

func (t *streamState) isResumed() bool { return t.earlierUsage != nil }

// withEarlierUsage returns the usage of a resumed answer. next is the usage that the next engine
// reported.
func (t *streamState) withEarlierUsage(next translate.Usage) usageCounts {
	return usageCounts{Usage: t.earlierUsage.ContinueWith(next), summed: true}
}

// isRoleSent reports whether the client has received choice n's role from an earlier engine.
func (h *engineHandover) isRoleSent(n int) bool { return h.rolesSent[n/64]&(1<<(n%64)) != 0 }

func (i *answerIdentity) pin(edits *jsonx.Edits, h *topLevelMembers, o *WriteOptions) {
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
