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
	// Salt keeps the cached prompts of clients apart.
	Salt Salt
	// Priority is the request's place in the engine's queue.
	Priority Priority
}

// ReasoningFormat is the form in which an engine takes the reasoning effort.
type ReasoningFormat struct {
	// Effort is the top-level member that takes the effort's word; empty: the engine reads none.
	Effort string
	// Words are the words of Efforts that the engine takes; empty: all. LowerEffort replaces
	// another one; "none" is left out if it is missing here.
	Words []string
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

// word returns the engine's word for effort; empty: nothing is said.
func (how *ReasoningFormat) word(effort string) string {
	if effort == "" || len(how.Words) == 0 || slices.Contains(how.Words, effort) {
		return effort
	}
	if effort == "none" {
		return ""
	}
	return LowerEffort(how.Words, effort)
}

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
