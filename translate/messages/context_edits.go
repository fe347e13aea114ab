package messages

import (
	"slices"
	"strconv"
	"strings"

	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// The edge applies clear_thinking itself, and ignores all other edits.
const (
	editTypeClearThinking = "clear_thinking_20251015"
	editTypeClearToolUses = "clear_tool_uses_20250919"
	editTypeCompact       = "compact_20260112"
)

const (
	editTypeIndex = iota
	editKeepIndex
	editTriggerIndex
	editClearAtLeastIndex
	editExcludeToolsIndex
	editClearToolInputsIndex
	editInstructionsIndex
	editPauseIndex
	editMemberCount
)

var (
	managementMemberNames = jsonx.NewNameIndex("edits")
	editMemberNames       = jsonx.NewNameIndex("type", "keep", "trigger", "clear_at_least", "exclude_tools", "clear_tool_inputs",
		"instructions", "pause_after_compaction")
	editAmountMemberNames = jsonx.NewNameIndex("type", "value")
)

// checkContextEdits rejects edits that the edge cannot read. Otherwise the client and the model
// would see different conversations.
func checkContextEdits(v jsonx.Value) *requestFault {
	var edits [1]jsonx.Value
	f := chat.ReadObject("context_management", v, managementMemberNames, edits[:])
	if f == nil && chat.IsGiven(edits[0]) && !edits[0].IsArray() {
		f = chat.WrongTypeError("context_management.edits", "an array of edits", edits[0])
	}
	if f != nil || !edits[0].IsArray() {
		return f
	}
	for it := edits[0].Iter(); it.Next(); {
		if f = checkContextEdit(it.Value()); f != nil {
			return f.InElement("edits", it.Index()).InObject("context_management")
		}
	}
	return nil
}

// checkContextEdit checks one edit. If the kind is unknown, it checks only the type.
func checkContextEdit(v jsonx.Value) *requestFault {
	var m [editMemberCount]jsonx.Value
	f := chat.ReadElement("an object with a type", v, editMemberNames, m[:])
	if f == nil {
		f = chat.CheckRequiredString("type", m[editTypeIndex])
	}
	switch kind := m[editTypeIndex]; {
	case f != nil:
		return f
	case kind.EqualText(editTypeClearThinking):
		return checkKeptThinking(m[editKeepIndex])
	case kind.EqualText(editTypeClearToolUses):
		return chat.FirstInvalidMember(
			checkEditAmount("keep", m[editKeepIndex], "tool_uses"),
			checkEditAmount("trigger", m[editTriggerIndex], "input_tokens", "tool_uses"),
			checkEditAmount("clear_at_least", m[editClearAtLeastIndex], "input_tokens"),
			optionalStrings("exclude_tools", m[editExcludeToolsIndex], "an array of strings"),
			checkClearedInputs(m[editClearToolInputsIndex]),
		)
	case kind.EqualText(editTypeCompact):
		_, f = chat.ReadOptionalBool("pause_after_compaction", m[editPauseIndex], false)
		return chat.FirstInvalidMember(
			checkEditAmount("trigger", m[editTriggerIndex], "input_tokens"),
			chat.CheckOptionalString("instructions", m[editInstructionsIndex]), f,
		)
	}
	return nil
}

// checkKeptThinking checks the number of turns whose thinking is kept: a number, or "all" (as a
// string or as a type).
func checkKeptThinking(v jsonx.Value) *requestFault {
	switch {
	case v.EqualText("all"), v.IsObject() && v.Get("type").EqualText("all"):
		return nil
	case v.IsString():
		return chat.WrongValueError("keep", `must be "all" or an object with type and value`)
	}
	f := checkEditAmount("keep", v, "thinking_turns")
	if n, _ := v.Get("value").Int(); f == nil && chat.IsGiven(v) && n == 0 {
		f = chat.WrongValueError("value", "must be at least 1").InObject("keep")
	}
	return f
}

// checkEditAmount checks an optional object with a whole number and a type from kinds.
func checkEditAmount(name string, v jsonx.Value, kinds ...string) *requestFault {
	if !chat.IsGiven(v) {
		return nil
	}
	var m [2]jsonx.Value
	f := chat.ReadObject(name, v, editAmountMemberNames, m[:])
	if f != nil {
		return f
	}
	if f = chat.CheckRequiredString("type", m[0]); f != nil {
		return f.InObject(name)
	}
	if !slices.ContainsFunc(kinds, func(kind string) bool { return m[0].EqualText(kind) }) {
		return chat.WrongValueError("type", "must be "+strings.Join(kinds, " or ")).InObject(name)
	}
	switch n, whole := m[1].Int(); {
	case !chat.IsGiven(m[1]):
		f = chat.MissingError("value")
	case !m[1].IsNumber():
		f = chat.WrongTypeError("value", "an integer", m[1])
	case !whole || n < 0:
		f = chat.WrongValueError("value", "must be an integer of at least 0")
	}
	return f.InObject(name)
}

// optionalStrings checks an optional list of strings. want describes the allowed types.
func optionalStrings(name string, v jsonx.Value, want string) *requestFault {
	if !chat.IsGiven(v) {
		return nil
	}
	if !v.IsArray() {
		return chat.WrongTypeError(name, want, v)
	}
	for it := v.Iter(); it.Next(); {
		if !it.Value().IsString() {
			return chat.WrongTypeError("", "a string", it.Value()).InElement(name, it.Index())
		}
	}
	return nil
}

// checkClearedInputs checks the tools whose inputs should be cleared: all, none, or a list.
func checkClearedInputs(v jsonx.Value) *requestFault {
	if _, is := v.Bool(); is {
		return nil
	}
	return optionalStrings("clear_tool_inputs", v, "true, false or an array of strings")
}

// firstKeptThinking returns the index of the first message whose thinking is kept. A turn consists
// of all assistant messages between two user texts.
func firstKeptThinking(contextManagement, messages jsonx.Value) int {
	turns := int64(-1)
	for it := contextManagement.Get("edits").Iter(); it.Next(); {
		if it.Value().Get("type").EqualText(editTypeClearThinking) {
			turns = keptThinkingTurns(it.Value().Get("keep"))
		}
	}
	if turns < 0 || !messages.IsArray() {
		return 0
	}
	var begins []int // first messages of the turns
	begin := 0       // first message of a turn that the assistant has not answered yet, or -1
	for it := messages.Iter(); it.Next(); {
		switch role := it.Value().Get("role"); {
		case role.EqualText("assistant") && begin >= 0:
			begins, begin = append(begins, begin), -1
		case role.EqualText("user") && begin < 0 && !hasToolResult(it.Value().Get("content")):
			begin = it.Index()
		}
	}
	if int64(len(begins)) <= turns {
		return 0
	}
	return begins[int64(len(begins))-turns]
}

// onlyClearsThinking reports whether context_management has no edits except clear_thinking.
func onlyClearsThinking(contextManagement jsonx.Value) bool {
	edits := contextManagement.Get("edits")
	for it := edits.Iter(); it.Next(); {
		if kind := it.Value().Get("type"); !edits.IsArray() || !kind.EqualText(editTypeClearThinking) {
			return false
		}
	}
	return true
}

// keptThinkingTurns returns the number of turns whose thinking an edit preserves, or -1 for all
// turns.
func keptThinkingTurns(keep jsonx.Value) int64 {
	switch {
	case !chat.IsGiven(keep):
		return 1
	case keep.Get("type").EqualText("thinking_turns"):
		if n, ok := keep.Get("value").Int(); ok && n > 0 {
			return n
		}
	}
	return -1
}

func hasToolResult(content jsonx.Value) bool {
	if content.IsArray() {
		for it := content.Iter(); it.Next(); {
			if it.Value().Get("type").EqualText("tool_result") {
				return true
			}
		}
	}
	return false
}

type clearedThinking struct {
	edits        bool // the client has requested edits, even if the list is empty
	turns, bytes int
}

// appendEdits appends the member that lists the applied edits, if the client has requested edits.
// It estimates the number of cleared tokens, because no engine has counted them.
func (c clearedThinking) appendEdits(dst []byte) []byte {
	if !c.edits {
		return dst
	}
	dst = append(dst, `,"context_management":{"applied_edits":[`...)
	if c.turns > 0 {
		dst = append(dst, `{"type":"`+editTypeClearThinking+`","cleared_thinking_turns":`...)
		dst = strconv.AppendInt(dst, int64(c.turns), 10)
		dst = append(dst, `,"cleared_input_tokens":`...)
		dst = strconv.AppendInt(dst, int64(c.bytes/4), 10)
		dst = append(dst, '}')
	}
	return append(dst, `]}`...)
}
