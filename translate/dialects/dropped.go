package dialects

import (
	"strings"

	"penstock/translate/jsonx"
)

// DroppedParts records the parts of a request that are lost in translation. Its names come from a fixed
// list, so logs and headers can show them without repeating client text. The zero value is the
// empty set.
type DroppedParts [2]uint64

// The prefix of a name says what kind of part was dropped.
const (
	droppedToolPrefix   = "tool:"
	droppedItemPrefix   = "item:"
	droppedBlockPrefix  = "block:"
	droppedMemberPrefix = "member:"
)

// The names for sealed blobs that cannot be opened, because another provider or an edge with other
// keys sealed them.
const (
	droppedReasoningItem = droppedItemPrefix + "reasoning"
	droppedThinkingBlock = droppedBlockPrefix + "thinking"
)

// droppedNames is the fixed list. A tool type may end with a version, so the list contains only the
// start of the type.
var droppedNames = [...]string{
	"tool:advisor", "tool:apply_patch", "tool:bash", "tool:code_execution", "tool:code_interpreter", "tool:computer",
	"tool:file_search", "tool:image_generation", "tool:local_shell", "tool:mcp", "tool:memory", "tool:shell",
	"tool:text_editor", "tool:tool_search", "tool:web_fetch", "tool:web_search", "tool:other",

	"item:apply_patch_call", "item:apply_patch_call_output", "item:code_interpreter_call",
	"item:computer_call", "item:computer_call_output",
	"item:custom_tool_call_output", "item:file_search_call", "item:function_call_output",
	"item:image_generation_call", "item:local_shell_call", "item:local_shell_call_output",
	"item:mcp_approval_request", "item:mcp_approval_response", "item:mcp_call", "item:mcp_list_tools",
	"item:shell_call", "item:shell_call_output", "item:tool_search_call", "item:tool_search_output",
	"item:web_search_call",

	droppedReasoningItem, droppedThinkingBlock,

	"block:bash_code_execution_tool_result", "block:code_execution_tool_result",
	"block:mcp_tool_result", "block:mcp_tool_use", "block:server_tool_use", "block:text_editor_code_execution_tool_result",
	"block:tool_search_tool_result", "block:web_fetch_tool_result", "block:web_search_tool_result",

	"member:budget_tokens", "member:citations", "member:container", "member:context_management", "member:include", "member:max_tool_calls", "member:max_tokens",
	"member:mcp_servers", "member:n", "member:service_tier", "member:speed", "member:truncation",

	// Members with an unknown value: see chat.HintWordList.
	"member:summary", "member:thinking", "member:verbosity",
}

var _ [128 - len(droppedNames)]struct{} // fails to compile if the set has too few bits

// AddTool adds a tool type.
func (d *DroppedParts) AddTool(kind jsonx.Value) {
	text := string(kind.AppendText(nil))
	if !d.addMatching(func(name string) bool {
		word, ok := strings.CutPrefix(name, droppedToolPrefix)
		return ok && strings.HasPrefix(text, word)
	}) {
		d.addMatching(func(name string) bool { return name == "tool:other" })
	}
}

// AddItem adds an item type. It returns false if the list does not contain the type.
func (d *DroppedParts) AddItem(kind jsonx.Value) bool { return d.addKind(droppedItemPrefix, kind) }

// AddBlock adds a content block type. It returns false if the list does not contain the type.
func (d *DroppedParts) AddBlock(kind jsonx.Value) bool { return d.addKind(droppedBlockPrefix, kind) }

func (d *DroppedParts) addKind(prefix string, kind jsonx.Value) bool {
	return d.addMatching(func(name string) bool {
		word, ok := strings.CutPrefix(name, prefix)
		return ok && kind.EqualText(word)
	})
}

// AddReasoning adds a reasoning item that cannot be opened.
func (d *DroppedParts) AddReasoning() {
	d.addMatching(func(name string) bool { return name == droppedReasoningItem })
}

// AddThinking adds a thinking block that cannot be opened.
func (d *DroppedParts) AddThinking() {
	d.addMatching(func(name string) bool { return name == droppedThinkingBlock })
}

// AddMember adds a member of the request.
func (d *DroppedParts) AddMember(member string) {
	if !d.addMatching(func(name string) bool { return name == droppedMemberPrefix+member }) {
		panic("BUG: a member that is dropped is not in the list")
	}
}

// AddAll adds the names in other.
func (d *DroppedParts) AddAll(other DroppedParts) {
	d[0] |= other[0]
	d[1] |= other[1]
}

func (d *DroppedParts) addMatching(is func(name string) bool) bool {
	for i, name := range &droppedNames {
		if is(name) {
			d[i/64] |= 1 << (i % 64)
			return true
		}
	}
	return false
}

// Names returns the names in the set.
func (d DroppedParts) Names() (names []string) {
	for i, name := range &droppedNames {
		if d[i/64]&(1<<(i%64)) != 0 {
			names = append(names, name)
		}
	}
	return names
}
