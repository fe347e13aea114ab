package chat

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"penstock/translate/jsonx"
)

// EngineFormat is the form in which an engine takes a request. It is only read, so it can be
// shared.
type EngineFormat struct {
	// Served is the name that the engine knows the model by. It must not be empty.
	Served string
	// Stream asks the engine for events even though the client wants one answer, so that it can be
	// cancelled.
	Stream bool
	// TokenMember is the member that the engine reads the token limit from, max_tokens or
	// max_completion_tokens. With any other word the limit stays where the client wrote it.
	TokenMember string
	// ContinuousUsage asks for usage on every chunk of a stream, from engines that know
	// continuous_usage_stats.
	ContinuousUsage bool
	// TokenTimings asks for timings on every chunk of a stream, from engines that know
	// timings_per_token.
	TokenTimings bool
	// Reasoning is how the engine takes the effort; nil: the contract's own word in
	// reasoning_effort.
	Reasoning *ReasoningFormat
	// Prefill are members to add when the last message is the beginning of the answer
	// (Request.Prefilled), for engines that would take it for a message of its own and begin anew.
	// They are added as those of Reasoning are, and behind them.
	Prefill []Member
	// DeveloperAsSystem: the engine's chat templates know no role developer.
	DeveloperAsSystem bool
	// ToolChoice, ResponseFormat and NullContent are what the engine reads of those members.
	ToolChoice     ToolChoiceForm
	ResponseFormat ResponseForm
	NullContent    NullForm
	// JoinTurns makes one message of each run of messages of one role.
	JoinTurns bool
	// Salt keeps the cached prompts of clients apart.
	Salt Salt
	// Priority is the request's place in the engine's queue.
	Priority Priority
}

// ReasoningFormat is the form in which an engine takes the reasoning effort.
type ReasoningFormat struct {
	// Effort is the top-level member that takes the effort's word; empty: the engine reads none.
	Effort string
	// Words are the words that the engine takes, of EngineEfforts; empty: those of Efforts. Another
	// one becomes the nearest (word); "none" is left out if it is missing here.
	Words []string
	// Refused are the words that the engine was found to refuse. They are left out.
	Refused EffortSet
	// Off and On are members to add when the effort is "none", or any other. Where the client has
	// sent an object of that name, what is missing in it is added; nothing that the client has set
	// is overwritten.
	Off, On []Member
	// History is the member of an assistant's message from which the engine reads the reasoning of
	// earlier turns: NameReasoningContent or NameReasoning; empty: it reads none.
	History string
}

// Member is a member of a JSON object; Value is JSON text.
type Member struct {
	Name  string
	Value []byte
}

// standardReasoningFormat is the contract's own way, which vLLM, SGLang and others share.
var standardReasoningFormat = ReasoningFormat{Effort: "reasoning_effort", History: NameReasoningContent}

// reasoningHistory is the name of the reasoning in a history; see ReasoningFormat.History.
func (f *EngineFormat) reasoningHistory() string {
	if f.Reasoning == nil {
		return standardReasoningFormat.History
	}
	return f.Reasoning.History
}

// added are the members that an effort adds.
func (how *ReasoningFormat) added(effort string) []Member {
	switch effort {
	case "":
		return nil
	case "none":
		return how.Off
	}
	return how.On
}

// word returns the engine's word for the effort of a request; empty: nothing is said. The two
// words at the top of the scale stand for each other: clients and engines have one, the other, or
// both.
func (how *ReasoningFormat) word(r *Reasoning) string {
	word, takes := r.Effort, func(word string) bool { return slices.Contains(how.Words, word) }
	switch {
	case word == "":
	case word == "xhigh" && takes(effortMax) && (r.Max || !takes("xhigh")):
		word = effortMax
	case len(how.Words) == 0 || takes(word):
	case word == "none":
		return ""
	default:
		word = LowerEffort(how.Words, word)
	}
	if how.Refused.Has(word) {
		return ""
	}
	return word
}

// EffortSet is a set of words of an effort.
type EffortSet uint8

// EffortsOf is the set of one word of EngineEfforts; empty for any other.
func EffortsOf(word string) EffortSet {
	if i := slices.Index(EngineEfforts, word); i >= 0 {
		return 1 << i
	}
	return 0
}

// Has reports whether the word is in the set.
func (s EffortSet) Has(word string) bool { return s != 0 && s&EffortsOf(word) != 0 }

// ToolChoiceForm is what an engine reads of tool_choice.
type ToolChoiceForm uint8

// The forms. An engine that reads less is sent the tools that are left by the choice: the named
// one, or none of them.
const (
	ToolChoiceAsSent  ToolChoiceForm = iota
	ToolChoiceWords                  // auto, none and required
	ToolChoiceIgnored                // nothing
)

// ResponseForm is what an engine reads of response_format.
type ResponseForm uint8

// The forms.
const (
	ResponseAsSent  ResponseForm = iota
	ResponseSchemas              // no json_object: it is sent as the schema of an object
	ResponseValue                // schemas in the member value, as TGI has them, and no text
)

// NullForm is what a message without content is sent as.
type NullForm uint8

// The forms.
const (
	NullAsSent            NullForm = iota
	NullEmpty                      // with the content ""
	NullEmptyWithoutCalls          // the same, but for messages with tool calls
)

// Priority is the number in the member priority by which an engine orders its queue. The zero value
// leaves requests as they are.
type Priority struct {
	Number int
	Told   bool // the engine is told the number
	Own    bool // a client's own number stays in its place
}

// namePriority is the member's name with every engine that has it.
const namePriority = "priority"

// Take removes the client's own numbers from a request, and returns the text of the engine's. It is
// empty where none is to be added.
func (p Priority) Take(edits *jsonx.Edits, root jsonx.Value) []byte {
	if !p.Told {
		return nil
	}
	for it := root.Iter(); it.Next(); {
		if !p.is(it.Key()) {
			continue
		}
		if p.Own {
			return nil
		}
		edits.Delete(it.Value())
	}
	return strconv.AppendInt(nil, int64(p.Number), 10)
}

// is reports whether a member holds a priority that the edge has to look at.
func (p Priority) is(key jsonx.Key) bool {
	return p.Told && bytes.EqualFold(nameOf(key), []byte(namePriority))
}

// Add is Take, and adds the engine's number.
func (p Priority) Add(edits *jsonx.Edits, root jsonx.Value) {
	if number := p.Take(edits, root); number != nil {
		edits.Add(root, append([]byte(`"`+namePriority+`":`), number...))
	}
}

// Salt makes an engine keep what it has cached of prompts apart by whose they are: it uses a cached
// beginning only for requests with the same salt. The zero value leaves requests as they are.
type Salt struct {
	Member string // the engine's name for it
	Owner  string // whose prompts may share a cache; empty: all clients share
}

// Wanted reports whether requests are salted.
func (s Salt) Wanted() bool { return s.Member != "" && s.Owner != "" }

// Take removes the client's own salts from a request and returns the text of the salt for the
// engine, a JSON string. It depends on the owner and on what the client wrote: a client may keep
// its users apart, and cannot come near to another owner's prompts whatever it writes. The owner
// cannot be read from it.
func (s Salt) Take(edits *jsonx.Edits, root jsonx.Value) []byte {
	h := sha256.New()
	h.Write([]byte("prompt cache\x00" + s.Owner))
	for it := root.Iter(); it.Next(); {
		if bytes.EqualFold(nameOf(it.Key()), []byte(s.Member)) {
			h.Write([]byte{0})
			h.Write(it.Value().Raw())
			edits.Delete(it.Value())
		}
	}
	var sum [sha256.Size]byte
	const bytesTold = 16 // an engine hashes it with every block
	out := make([]byte, 0, 2*bytesTold+2)
	return append(hex.AppendEncode(append(out, '"'), h.Sum(sum[:0])[:bytesTold]), '"')
}
