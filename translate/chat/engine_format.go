package chat

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"penstock/translate/jsonx"
)

// EngineFormat is the format of the requests to an engine. It is never modified.
type EngineFormat struct {
	// Served is the engine's name for the model. It must not be empty.
	Served string
	// If Stream is true, the edge requests a stream even if the client wants a single response, so
	// that the call can be cancelled.
	Stream bool
	// TokenMember is max_tokens or max_completion_tokens. For any other value, the limit stays in
	// the client's member.
	TokenMember string
	// If ContinuousUsage is true, the edge requests usage in every chunk (continuous_usage_stats).
	ContinuousUsage bool
	// If TokenTimings is true, the edge requests timings in every chunk (timings_per_token).
	TokenTimings bool
	// Reasoning is the format of the reasoning effort. Nil means reasoning_effort as the contract
	// defines it.
	Reasoning *ReasoningFormat
	// Prefill lists members to add if the last message is the start of the answer
	// (Request.Prefilled). Without these members, the engine would start the answer again.
	Prefill []Member
	// DeveloperAsSystem sends the role developer as system, because some templates do not support
	// developer.
	DeveloperAsSystem bool
	// ToolChoice, ResponseFormat and NullContent are the forms that the engine accepts.
	ToolChoice     ToolChoiceForm
	ResponseFormat ResponseForm
	NullContent    NullContentForm
	// JoinTurns joins each run of messages with the same role into one message.
	JoinTurns bool
	// Salt separates the cached prompts of different clients.
	Salt CacheSalt
	// Priority is the request's priority in the engine's queue.
	Priority Priority
}

// ReasoningFormat is the format of the reasoning effort in an engine's requests.
type ReasoningFormat struct {
	// Words lists the words in EngineEfforts that the engine accepts. If Words is empty, the engine
	// accepts the words in Efforts. Any other word is replaced by the nearest accepted word. If
	// "none" is not accepted, it is omitted from the request.
	Words []string
	// Refused lists words that the engine has rejected. The edge does not send them again.
	Refused EffortSet
	// Off lists members to add if the effort is "none", and On lists members to add for any other
	// effort. If the client sent an object of the same name, the edge adds only the members that
	// the object lacks.
	Off, On []Member
	// History is the member from which the engine reads the reasoning of earlier turns:
	// NameReasoningContent or NameReasoning. It is empty if the engine does not read reasoning of
	// earlier turns.
	History string
}

// Member is a member of a JSON object; Value is JSON text.
type Member struct {
	Name  string
	Value []byte
}

// standardReasoningFormat sends the effort as the contract defines it. vLLM, SGLang and other
// engines understand this format.
var standardReasoningFormat = ReasoningFormat{History: NameReasoningContent}

func (f *EngineFormat) reasoningHistory() string {
	if f.Reasoning == nil {
		return standardReasoningFormat.History
	}
	return f.Reasoning.History
}

func (how *ReasoningFormat) addedMembers(effort string) []Member {
	switch effort {
	case "":
		return nil
	case "none":
		return how.Off
	}
	return how.On
}

// effortWord returns the effort for the engine, or "" to omit the member. xhigh and max are
// interchangeable, because some clients and engines support only one of them.
func (how *ReasoningFormat) effortWord(r *Reasoning) string {
	word, takes := r.Effort, func(word string) bool { return slices.Contains(how.Words, word) }
	switch {
	case word == "":
	case word == "xhigh" && takes(effortMax) && (r.Max || !takes("xhigh")):
		word = effortMax
	case len(how.Words) == 0 || takes(word):
	case word == "none":
		return ""
	default:
		word = NearestLowerEffort(how.Words, word)
	}
	if how.Refused.Has(word) {
		return ""
	}
	return word
}

// EffortSet is a set of effort words.
type EffortSet uint8

// NewEffortSet returns a set of one word, or an empty set if the word is not in EngineEfforts.
func NewEffortSet(word string) EffortSet {
	if i := slices.Index(EngineEfforts, word); i >= 0 {
		return 1 << i
	}
	return 0
}

// Has reports whether the word is in the set.
func (s EffortSet) Has(word string) bool { return s != 0 && s&NewEffortSet(word) != 0 }

// ToolChoiceForm is the set of tool_choice values that an engine reads.
type ToolChoiceForm uint8

// If an engine does not read the client's choice, it receives only the tools that the choice
// allows: the named tool, or no tools.
const (
	ToolChoiceAsSent  ToolChoiceForm = iota
	ToolChoiceWords                  // reads auto, none and required
	ToolChoiceIgnored                // reads no values
)

// ResponseForm is the set of response_format values that an engine reads.
type ResponseForm uint8

// The values of ResponseForm.
const (
	ResponseAsSent  ResponseForm = iota
	ResponseSchemas              // all values; json_object is sent as a schema that any object matches
	ResponseValue                // schemas in a member named value (TGI); the format text is omitted
)

// NullContentForm says how to send a message whose content is null or absent.
type NullContentForm uint8

// The values of NullContentForm.
const (
	NullAsSent            NullContentForm = iota
	NullEmpty                             // the content becomes ""
	NullEmptyWithoutCalls                 // the content becomes "", except in messages with tool calls
)

// Priority is the number by which an engine orders its queue. The zero value leaves requests
// unchanged.
type Priority struct {
	Number           int
	SendToEngine     bool // the edge sends Number to the engine
	KeepClientNumber bool // the client's number is not replaced
}

const namePriority = "priority"

// StripClientPriority removes the client's priorities from a request. It returns the number to send
// to the engine, or nil.
func (p Priority) StripClientPriority(edits *jsonx.Edits, root jsonx.Value) []byte {
	if !p.SendToEngine {
		return nil
	}
	for it := root.Iter(); it.Next(); {
		if !p.isPriorityMember(it.Key()) {
			continue
		}
		if p.KeepClientNumber {
			return nil
		}
		edits.Delete(it.Value())
	}
	return strconv.AppendInt(nil, int64(p.Number), 10)
}

func (p Priority) isPriorityMember(key jsonx.Key) bool {
	return p.SendToEngine && bytes.EqualFold(decodedName(key), []byte(namePriority))
}

// ReplacePriority is like StripClientPriority, but also adds the number to the request.
func (p Priority) ReplacePriority(edits *jsonx.Edits, root jsonx.Value) {
	if number := p.StripClientPriority(edits, root); number != nil {
		edits.Add(root, append([]byte(`"`+namePriority+`":`), number...))
	}
}

// CacheSalt separates the cached prompts of different owners. The engine reuses a cached prefix
// only for requests with the same salt. The zero value leaves requests unchanged.
type CacheSalt struct {
	Member string // the engine's name for the salt
	Owner  string // the owner whose prompts share a cache; empty if all clients share a cache
}

// IsSet reports whether requests are salted.
func (s CacheSalt) IsSet() bool { return s.Member != "" && s.Owner != "" }

// StripClientSalt removes the client's salts from a request. It returns the engine's salt, a hash
// of the owner and the client's salts, as a JSON string. A client can therefore separate its users,
// but can never reach another owner's prompts. The salt does not reveal the owner.
func (s CacheSalt) StripClientSalt(edits *jsonx.Edits, root jsonx.Value) []byte {
	h := sha256.New()
	h.Write([]byte("prompt cache\x00" + s.Owner))
	for it := root.Iter(); it.Next(); {
		if bytes.EqualFold(decodedName(it.Key()), []byte(s.Member)) {
			h.Write([]byte{0})
			h.Write(it.Value().Raw())
			edits.Delete(it.Value())
		}
	}
	var sum [sha256.Size]byte
	const bytesTold = 16 // short, because an engine hashes the salt with every block
	out := make([]byte, 0, 2*bytesTold+2)
	return append(hex.AppendEncode(append(out, '"'), h.Sum(sum[:0])[:bytesTold]), '"')
}
