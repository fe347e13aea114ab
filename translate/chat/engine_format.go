package chat

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"penstock/translate/jsonx"
)

// EngineFormat is the format in which an engine accepts requests. It is only read, so it can be
// shared.
type EngineFormat struct {
	// Served is the engine's name for the model. It must not be empty.
	Served string
	// Stream asks the engine for events even if the client wants a single answer, so that the call
	// can be cancelled.
	Stream bool
	// TokenMember is the member from which the engine reads the token limit: max_tokens or
	// max_completion_tokens. With any other value, the limit stays in the member in which the
	// client wrote it.
	TokenMember string
	// ContinuousUsage asks for usage on every chunk of a stream, from engines that support
	// continuous_usage_stats.
	ContinuousUsage bool
	// TokenTimings asks for timings on every chunk of a stream, from engines that support
	// timings_per_token.
	TokenTimings bool
	// Reasoning is the format in which the engine accepts the effort; nil: the contract's own word
	// in reasoning_effort.
	Reasoning *ReasoningFormat
	// Prefill holds members to add if the last message is the start of the answer
	// (Request.Prefilled). Without these members the engine would treat the start as a separate
	// message and start the answer again. They are added after the members of Reasoning, in the
	// same way.
	Prefill []Member
	// DeveloperAsSystem sends the role developer as system, because the engine's chat templates do
	// not know it.
	DeveloperAsSystem bool
	// ToolChoice, ResponseFormat and NullContent say what the engine accepts in these members.
	ToolChoice     ToolChoiceForm
	ResponseFormat ResponseForm
	NullContent    NullForm
	// JoinTurns joins each run of messages with the same role into one message.
	JoinTurns bool
	// Salt separates the cached prompts of different clients.
	Salt Salt
	// Priority is the request's priority in the engine's queue.
	Priority Priority
}

// ReasoningFormat is the format in which an engine accepts the reasoning effort.
type ReasoningFormat struct {
	// Words lists the words of EngineEfforts that the engine accepts; empty: the words of Efforts.
	// Any other word is replaced by the nearest of these. If "none" is not in the list, it is
	// omitted from the request.
	Words []string
	// Refused holds words that the engine has refused before. They are omitted from the request.
	Refused EffortSet
	// Off holds members to add if the effort is "none". On holds members to add for any other
	// effort. If the client has sent an object with the same name, only its missing members are
	// added. Values that the client set are not overwritten.
	Off, On []Member
	// History is the member of an assistant's message from which the engine reads the reasoning of
	// earlier turns: NameReasoningContent or NameReasoning. If it is empty, the engine reads no such
	// reasoning.
	History string
}

// Member is a member of a JSON object; Value is JSON text.
type Member struct {
	Name  string
	Value []byte
}

// standardReasoningFormat sends the effort as the contract defines it. vLLM, SGLang and others
// understand this.
var standardReasoningFormat = ReasoningFormat{History: NameReasoningContent}

// reasoningHistory returns the name of the reasoning member in a history; see
// ReasoningFormat.History.
func (f *EngineFormat) reasoningHistory() string {
	if f.Reasoning == nil {
		return standardReasoningFormat.History
	}
	return f.Reasoning.History
}

// added returns the members to add for an effort.
func (how *ReasoningFormat) added(effort string) []Member {
	switch effort {
	case "":
		return nil
	case "none":
		return how.Off
	}
	return how.On
}

// word returns the engine's word for a request's effort, or an empty string if the member is
// omitted. The two words at the top of the scale, xhigh and max, are interchangeable, because some
// clients and engines know only one of them.
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

// EffortSet is a set of effort words.
type EffortSet uint8

// EffortsOf returns a set with one word of EngineEfforts; empty for any other word.
func EffortsOf(word string) EffortSet {
	if i := slices.Index(EngineEfforts, word); i >= 0 {
		return 1 << i
	}
	return 0
}

// Has reports whether the word is in the set.
func (s EffortSet) Has(word string) bool { return s != 0 && s&EffortsOf(word) != 0 }

// ToolChoiceForm says which values of tool_choice an engine reads.
type ToolChoiceForm uint8

// The forms of a tool_choice. An engine that does not read the client's choice gets only the tools
// that the choice allows: the named tool, or none.
const (
	ToolChoiceAsSent  ToolChoiceForm = iota
	ToolChoiceWords                  // auto, none and required
	ToolChoiceIgnored                // nothing
)

// ResponseForm says which values of response_format an engine reads.
type ResponseForm uint8

// The values of response_format that an engine reads.
const (
	ResponseAsSent  ResponseForm = iota
	ResponseSchemas              // all but json_object, which is sent as the schema of an object
	ResponseValue                // schemas in the member value, as in TGI, and no text
)

// NullForm is the way in which a message without content is sent.
type NullForm uint8

// The ways to send a message without content.
const (
	NullAsSent            NullForm = iota
	NullEmpty                      // with the content ""
	NullEmptyWithoutCalls          // with the content "", except for messages with tool calls
)

// Priority is the number in the member priority by which an engine orders its queue. The zero value
// leaves requests unchanged.
type Priority struct {
	Number int
	Told   bool // the engine gets the number
	Own    bool // a client's own number stays
}

// namePriority is the member's name in every engine that has it.
const namePriority = "priority"

// Take removes the client's own numbers from a request. It returns the text of the number for the
// engine, or nil if there is no number to add.
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

// is reports whether key is the priority member and the edge handles that member.
func (p Priority) is(key jsonx.Key) bool {
	return p.Told && bytes.EqualFold(nameOf(key), []byte(namePriority))
}

// Add does what Take does, and adds the engine's number.
func (p Priority) Add(edits *jsonx.Edits, root jsonx.Value) {
	if number := p.Take(edits, root); number != nil {
		edits.Add(root, append([]byte(`"`+namePriority+`":`), number...))
	}
}

// Salt makes an engine keep the cached prompts of different owners apart: the engine reuses a
// cached prefix only for requests with the same salt. The zero value leaves requests unchanged.
type Salt struct {
	Member string // the engine's name for the salt
	Owner  string // the owner whose prompts may share a cache; empty: all clients share
}

// Wanted reports whether requests are salted.
func (s Salt) Wanted() bool { return s.Member != "" && s.Owner != "" }

// Take removes the client's own salts from a request, and returns the text of the salt for the
// engine, a JSON string. That salt depends on the owner and on the salt that the client wrote. A
// client can thus separate its own users, but can never reach another owner's prompts. The salt
// does not reveal the owner.
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
	const bytesTold = 16 // an engine hashes all these bytes with every block
	out := make([]byte, 0, 2*bytesTold+2)
	return append(hex.AppendEncode(append(out, '"'), h.Sum(sum[:0])[:bytesTold]), '"')
}
