package messages

import (
	"strings"

	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

// clientTool is a tool that the dialect's vendor defines and that clients run. Requests name it
// only by its type. description and schema describe the tool and its input for models that do not
// know the tool. Their text comes from the vendor's documentation.
type clientTool struct {
	typePrefix    string // prefix of the type, followed by a version
	beforeVersion string // the first version that the entry does not cover; empty if it covers all versions
	description   string
	schema        string
}

// These properties occur in more than one tool.
const (
	pathProperty  = `"path":{"type":"string","description":"Path of the file or directory."}`
	rangeProperty = `"view_range":{"type":"array","items":{"type":"integer"},` +
		`"description":"view: first and last line, counted from 1; -1 is the last of the file."}`
	textProperty           = `"file_text":{"type":"string","description":"create: the content of the file."}`
	oldStrProperty         = `"old_str":{"type":"string","description":"str_replace: the text to replace, which must occur exactly once."}`
	lineProperty           = `"insert_line":{"type":"integer","description":"insert: the line behind which to insert; 0 is the beginning."}`
	newStrProperty         = `"new_str":{"type":"string","description":"str_replace: the text in its place."}`
	newStrOrInsertProperty = `"new_str":{"type":"string","description":"str_replace: the text in its place. insert: the text to insert."}`
	insertTextProperty     = `"insert_text":{"type":"string","description":"insert: the text to insert."}`

	editorDescription  = "Views, creates and edits text files."
	schemaObjectStart  = `{"type":"object","properties":{`
	schemaPathRequired = `},"required":["command","path"]}`
)

// clientTools lists the tools in the order in which they are compared with a type.
var clientTools = [...]clientTool{
	{
		typePrefix: "bash_", description: "Runs commands in a bash shell that stays open from one call to the next.",
		schema: schemaObjectStart + `"command":{"type":"string","description":"The command to run; needed unless restart is true."},` +
			`"restart":{"type":"boolean","description":"Starts the shell anew."}}}`,
	},
	{
		typePrefix: "text_editor_", beforeVersion: "20250429", description: editorDescription,
		schema: schemaObjectStart + commandProperty("view", "create", "str_replace", "insert", "undo_edit") + "," + pathProperty + "," +
			rangeProperty + "," + textProperty + "," + oldStrProperty + "," + newStrOrInsertProperty + "," + lineProperty + schemaPathRequired,
	},
	{
		typePrefix: "text_editor_", beforeVersion: "20250728", description: editorDescription,
		schema: schemaObjectStart + commandProperty("view", "create", "str_replace", "insert") + "," + pathProperty + "," +
			rangeProperty + "," + textProperty + "," + oldStrProperty + "," + newStrOrInsertProperty + "," + lineProperty + schemaPathRequired,
	},
	{
		// In the versions that this entry covers, the vendor's models send insert_text, even
		// though the vendor's documentation describes new_str.
		typePrefix: "text_editor_", description: editorDescription,
		schema: schemaObjectStart + commandProperty("view", "create", "str_replace", "insert") + "," + pathProperty + "," +
			rangeProperty + "," + textProperty + "," + oldStrProperty + "," + newStrProperty + "," + lineProperty + "," +
			insertTextProperty + schemaPathRequired,
	},
	{
		typePrefix: "memory_", description: "Keeps notes across conversations, in files under /memories. View the directory before you begin.",
		schema: schemaObjectStart + commandProperty("view", "create", "str_replace", "insert", "delete", "rename") + "," + pathProperty + "," +
			rangeProperty + "," + textProperty + "," + oldStrProperty + "," + newStrProperty + "," + lineProperty + "," +
			insertTextProperty + `,"old_path":{"type":"string","description":"rename: the path that is."},` +
			`"new_path":{"type":"string","description":"rename: the path to be."}},"required":["command"]}`,
	},
}

func commandProperty(words ...string) string {
	return `"command":{"type":"string","enum":["` + strings.Join(words, `","`) + `"]}`
}

func findClientTool(kind jsonx.Value) *clientTool {
	text := string(kind.AppendText(nil))
	for i := range clientTools {
		t := &clientTools[i]
		if version, ok := strings.CutPrefix(text, t.typePrefix); ok && (t.beforeVersion == "" || version < t.beforeVersion) {
			return t
		}
	}
	return nil
}

func (t *clientTool) write(w *dialects.ChatWriter, name jsonx.Value) {
	w.WriteRaw(`{"type":"function","function":{"name":`, name)
	w.WriteString(`,"description":"` + t.description + `","parameters":` + t.schema + `}}`)
}

func (t *clientTool) definition(name jsonx.Value) []byte {
	dst := append([]byte(`{"name":`), name.Raw()...)
	return append(dst, `,"description":"`+t.description+`","input_schema":`+t.schema+`}`...)
}
