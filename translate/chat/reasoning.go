package chat

import (
	"slices"
	"strings"

	"penstock/translate/jsonx"
)

// ReasoningEfforts lists the reasoning efforts, lowest first.
var ReasoningEfforts = []string{"none", "low", "medium", "high", "xhigh"}

// EngineEfforts lists all efforts that any engine accepts, lowest first.
var EngineEfforts = []string{"none", effortMinimal, "low", "medium", "high", "xhigh", effortMax}

// Clients also send these words, which other vendors define. minimal counts as low, and max as
// xhigh.
const (
	effortMinimal = "minimal"
	effortMax     = "max"
)

// Reasoning contains a request's reasoning settings.
type Reasoning struct {
	// Effort is one of ReasoningEfforts, or empty if the client did not send an effort.
	// CheckRules may lower it.
	Effort string
	// Max is true if the client sent the effort "max". The edge treats it as xhigh, but some
	// engines distinguish between the two.
	Max bool
	// Include is false if the client does not want reasoning in the answer.
	Include bool

	otherVendor bool // the effort was another vendor's word
	unknown     bool // the edge did not recognize the effort
	param       string
}

var reasoningMemberNames = jsonx.NewNameIndex("effort", "max_tokens", "enabled", "exclude")

// decode reads reasoning_effort and include_reasoning, and their alternatives reasoning.effort and
// reasoning.exclude. It checks reasoning.max_tokens, but does not add it to the token limit.
func (r *Reasoning) decode(members *memberValues) (e *InvalidMember) {
	v := members[memberReasoningIndex]
	if e = CheckOptionalObject("reasoning", v); e != nil {
		return e
	}
	exclude := false
	if IsGiven(v) {
		if exclude, e = r.decodeObject(v); e != nil {
			return e.InObject("reasoning")
		}
	}
	r.param = "reasoning.effort"
	if IsGiven(members[memberReasoningEffortIndex]) {
		r.param = "reasoning_effort"
	}
	effort, e := r.readEffort("reasoning_effort", members[memberReasoningEffortIndex])
	switch {
	case e != nil:
		return e
	case effort == "":
	case r.Effort != "" && r.Effort != effort:
		return WrongValueError("reasoning_effort", "must be the same as reasoning.effort when both are given; send one of them")
	default:
		r.Effort = effort
	}
	include, e := ReadOptionalBool("include_reasoning", members[memberIncludeReasoningIndex], true)
	r.Include = include && !exclude
	return e
}

func (r *Reasoning) decodeObject(v jsonx.Value) (exclude bool, e *InvalidMember) {
	var m [4]jsonx.Value
	if e := ReadFields(v, reasoningMemberNames, m[:]); e != nil {
		return false, e
	}
	effort, e := r.readEffort("effort", m[0])
	if e != nil {
		return false, e
	}
	if IsGiven(m[1]) {
		n, e := ReadInteger("max_tokens", m[1])
		if e != nil {
			return false, e
		}
		if n < 0 {
			return false, WrongValueError("max_tokens", "must be 0 or more")
		}
	}
	enabled, e := ReadOptionalBool("enabled", m[2], true)
	if e != nil {
		return false, e
	}
	if !enabled && effort == "" {
		effort = "none"
	}
	r.Effort = effort
	return ReadOptionalBool("exclude", m[3], false)
}

func (r *Reasoning) readEffort(name string, v jsonx.Value) (string, *InvalidMember) {
	switch {
	case !IsGiven(v):
		return "", nil
	case !v.IsString():
		return "", WrongTypeError(name, "a string", v)
	case v.EqualText(effortMinimal):
		r.otherVendor = true
		return "low", nil
	case v.EqualText(effortMax):
		r.otherVendor, r.Max = true, true
		return "xhigh", nil
	}
	for _, effort := range ReasoningEfforts {
		if v.EqualText(effort) {
			return effort, nil
		}
	}
	effort, _ := effortHints.NearestWord(v)
	r.otherVendor, r.unknown = true, true
	return effort, nil
}

// effortHints replaces an unknown word with the nearest effort. If no effort is near, it uses high:
// new vendor words usually rank above high, and high is the highest word that all engines accept.
var effortHints = HintWordList{Words: ReasoningEfforts, Other: "high"}

func (r *Reasoning) check(rules *ModelRules) *InvalidMember {
	if r.otherVendor && rules.Strict {
		return UnsupportedError(r.param, "must be one of none, low, medium, high and xhigh")
	}
	if rules.Efforts == nil || r.Effort == "" || slices.Contains(rules.Efforts, r.Effort) {
		return nil
	}
	if !rules.LowerEffort && !r.unknown {
		if len(rules.Efforts) == 0 {
			return UnsupportedError(r.param, "cannot be used: the model offers no reasoning effort")
		}
		return UnsupportedError(r.param, "must be one that the model offers: "+strings.Join(rules.Efforts, ", "))
	}
	r.Effort = NearestLowerEffort(rules.Efforts, r.Effort)
	return nil
}

// NearestLowerEffort returns the highest effort in words that is not above the given effort. If
// all words are above it, NearestLowerEffort returns the lowest word. If words contains none of
// ReasoningEfforts, it returns "".
func NearestLowerEffort(words []string, effort string) string {
	at := slices.Index(ReasoningEfforts, effort)
	for i := at; i >= 0; i-- {
		if slices.Contains(words, ReasoningEfforts[i]) {
			return ReasoningEfforts[i]
		}
	}
	for _, e := range ReasoningEfforts[at+1:] {
		if slices.Contains(words, e) {
			return e
		}
	}
	return ""
}

// Clients send the reasoning of earlier turns back as reasoning_content or as reasoning. An engine
// reads only one of the two members. Most templates print the reasoning of the current tool loop.
// If this reasoning were missing, the prompt would differ from the engine's cached prefix, and the
// model would lose its plan.

// The parts of the reasoning history that an engine receives (ModelRules.ReasoningHistory).
const (
	ReasoningHistoryLoop = "loop" // only the reasoning after the last user text
	ReasoningHistoryNone = "none"
)

// The names of the reasoning member.
const (
	NameReasoningContent = "reasoning_content"
	NameReasoning        = "reasoning"
)

type reasoningHistory struct {
	list     []messageReasoning
	keepMode string
	toolLoop
}

// toolLoop is the current tool loop of a conversation.
type toolLoop struct {
	loopStart       int // the loop starts after this message
	loopBytes       int // bytes of reasoning in the loop
	afterToolResult bool
}

// reset releases the body and keeps allocated memory.
func (t *reasoningHistory) reset() {
	clear(t.list)
	t.list, t.keepMode, t.toolLoop = t.list[:0], "", toolLoop{}
}

// messageReasoning is the reasoning of one message. Either content or reasoning may be absent.
type messageReasoning struct {
	message            int
	content, reasoning jsonx.Value
}

// addMessage records a message. A user text ends the tool loop, unless it directly follows tool
// results, because agents put reminders there.
func (t *reasoningHistory) addMessage(i int, role string, text bool) {
	if text && !t.afterToolResult && role == "user" {
		t.loopStart, t.loopBytes = i, 0
	}
	t.afterToolResult = role == "tool"
}

// add records the reasoning of message i. addMessage must already have recorded the message.
func (t *reasoningHistory) add(i int, content, reasoning jsonx.Value) {
	switch {
	case content.HasText():
		t.loopBytes += textLength(content)
	case reasoning.HasText():
		t.loopBytes += textLength(reasoning)
	default:
		return
	}
	t.list = append(t.list, messageReasoning{i, content, reasoning})
}

// patch moves the reasoning into the member that the engine reads. If name is empty, it removes all
// reasoning.
func (t *reasoningHistory) patch(p *requestPatch, name string) {
	for i := range t.list {
		h := &t.list[i]
		own, other, to := h.content, h.reasoning, nameReasoningContent
		if name == NameReasoning {
			own, other, to = other, own, nameReasoning
		}
		switch {
		case name == "", t.keepMode == ReasoningHistoryNone, t.keepMode == ReasoningHistoryLoop && h.message < t.loopStart:
			p.delete(own)
			p.delete(other)
		case !own.HasText():
			p.delete(own)
			p.edits.Rename(other, to)
		}
	}
}

var (
	nameReasoningContent = []byte(NameReasoningContent)
	nameReasoning        = []byte(NameReasoning)
)
