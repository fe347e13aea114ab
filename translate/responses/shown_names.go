package responses

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// shownNames holds the engine's names for those tools in a request that cannot be sent to the
// engine unchanged. Engines have no namespaces, so they know a tool in a namespace as
// namespace__tool. Each name consists of letters, digits, _ and -, and is unique within the
// request. The zero value has no names.
type shownNames struct {
	list     []clientTool
	byClient map[string]string // by the tool's key
	key      []byte            // buffer for a key
}

// clientTool is a tool whose form differs between engine and client.
type clientTool struct {
	shown           string // the engine's name for the tool
	name, namespace string
	custom          bool // the tool's input is text, sent in a member of the function's arguments
	grammar         bool // the input has a grammar
}

// maxShownName is the maximum length of a joined name, in bytes. It is the vendors' limit for
// names, which clients obey and engines also apply.
const maxShownName = 64

// assign determines the names. They depend only on the list of tools. Tools that the engine gets
// unchanged get their names first.
func (s *shownNames) assign(tools []tool) {
	if !slices.ContainsFunc(tools, tool.mapped) {
		return
	}
	taken := make(map[string]bool, len(tools))
	s.byClient = make(map[string]string, len(tools))
	for i := range tools {
		if x := &tools[i]; !x.mapped() {
			taken[textOfName(x.m[toolName])] = true
		}
	}
	clashes := 0 // a unique number resolves each clash of hashes
	for i := range tools {
		x := &tools[i]
		if !x.mapped() {
			continue
		}
		t := clientTool{
			name: textOfName(x.m[toolName]), namespace: textOfName(x.space), custom: x.custom(), grammar: x.grammar().Exists(),
		}
		t.shown = joinName(t.namespace, t.name)
		for apart := ""; taken[t.shown]; clashes++ {
			t.shown = hashName(t.namespace, t.name, apart)
			apart = "\x00" + strconv.Itoa(clashes)
		}
		taken[t.shown], x.shown = true, t.shown
		s.list = append(s.list, t)
		if key := string(appendKey(nil, x.space, x.m[toolName], x.custom())); s.byClient[key] == "" {
			s.byClient[key] = t.shown
		}
	}
}

// mapped reports whether the engine knows the tool in a different form.
func (t tool) mapped() bool { return t.space.Exists() || t.custom() }

func textOfName(v jsonx.Value) string {
	if !chat.Given(v) {
		return ""
	}
	return string(v.AppendText(nil))
}

// joinName returns the name of a tool joined with its namespace, if it has one.
func joinName(namespace, name string) string {
	joined := joinNames(namespace, name)
	if joined == "" || len(joined) > maxShownName || strings.ContainsFunc(joined, notShown) {
		return hashName(namespace, name, "")
	}
	return joined
}

func joinNames(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "__" + name
}

// notShown reports whether vendors forbid a character in a name. Engines put names into templates
// and grammars.
func notShown(r rune) bool {
	return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

// hashName is joinName for names that are together too long, contain forbidden characters, or are
// already taken. apart is also hashed, to distinguish tools that would otherwise have the same
// name.
func hashName(namespace, name, apart string) string {
	h := fnv.New32a()
	h.Write([]byte(namespace + "\x00" + name + apart))
	joined := strings.Map(func(r rune) rune {
		if notShown(r) {
			return '_'
		}
		return r
	}, joinNames(namespace, name))
	return fmt.Sprintf("%s_%08x", joined[:min(len(joined), maxShownName-len("_01234567"))], h.Sum32())
}

// appendKey appends a tool's key to dst, which must be empty. The key consists of the texts of the
// namespace and the name, the boundary between them, and the kind.
func appendKey(dst []byte, namespace, name jsonx.Value, custom bool) []byte {
	if chat.Given(namespace) {
		dst = namespace.AppendText(dst)
	}
	end := int64(len(dst))
	dst = append(name.AppendText(dst), 0)
	return strconv.AppendBool(strconv.AppendInt(dst, end, 10), custom)
}

// append appends the engine's name for a tool, as JSON. A tool in the history that is no longer
// offered gets the name that it would have if it were the only tool.
func (s *shownNames) append(dst []byte, namespace, name jsonx.Value, custom bool) []byte {
	if !namespace.HasText() && !custom {
		return append(dst, name.Raw()...)
	}
	s.key = appendKey(s.key[:0], namespace, name, custom)
	if shown, ok := s.byClient[string(s.key)]; ok {
		return jsonx.AppendStringS(dst, shown)
	}
	return jsonx.AppendStringS(dst, joinName(textOfName(namespace), textOfName(name)))
}

// clientTools holds the tools in a request whose form differs between engine and client.
type clientTools []clientTool

// find returns the tool that the engine knows by the given name, or nil if the client knows the
// tool by the same name. The name is the contents of a JSON string.
func (t clientTools) find(contents []byte) *clientTool {
	if len(t) == 0 {
		return nil
	}
	name := jsonx.AppendDecoded(nil, contents)
	for i := range t {
		if t[i].shown == string(name) {
			return &t[i]
		}
	}
	return nil
}
