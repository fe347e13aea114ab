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

// engineNames maps tools that cannot be sent unchanged to names for the engine. Engines do not
// support namespaces, so a tool in a namespace becomes namespace__tool. Each name consists of
// letters, digits, _ and -, and is unique within the request. The zero value contains no names.
type engineNames struct {
	list      []clientTool
	byToolKey map[string]string // by the tool's key (see appendKey)
	key       []byte
}

// clientTool is a tool that has different forms for the engine and the client.
type clientTool struct {
	engineName      string
	name, namespace string
	// The tool's input is text, which the engine sends in a member of the function's arguments.
	custom  bool
	grammar bool
}

// maxEngineName is the vendors' limit for the length of names. Clients respect this limit, and some
// engines enforce it.
const maxEngineName = 64

// assignNames chooses the names. It first reserves the names of the tools that are sent unchanged.
// The result depends only on the list of tools.
func (s *engineNames) assignNames(tools []tool) {
	if !slices.ContainsFunc(tools, tool.needsEngineName) {
		return
	}
	taken := make(map[string]bool, len(tools))
	s.byToolKey = make(map[string]string, len(tools))
	for i := range tools {
		if x := &tools[i]; !x.needsEngineName() {
			taken[textOfName(x.m[toolNameIndex])] = true
		}
	}
	clashes := 0 // a unique number resolves each hash collision
	for i := range tools {
		x := &tools[i]
		if !x.needsEngineName() {
			continue
		}
		t := clientTool{
			name: textOfName(x.m[toolNameIndex]), namespace: textOfName(x.namespace), custom: x.isCustom(), grammar: x.grammar().Exists(),
		}
		t.engineName = engineToolName(t.namespace, t.name)
		for apart := ""; taken[t.engineName]; clashes++ {
			t.engineName = hashName(t.namespace, t.name, apart)
			apart = "\x00" + strconv.Itoa(clashes)
		}
		taken[t.engineName], x.engineName = true, t.engineName
		s.list = append(s.list, t)
		if key := string(appendKey(nil, x.namespace, x.m[toolNameIndex], x.isCustom())); s.byToolKey[key] == "" {
			s.byToolKey[key] = t.engineName
		}
	}
}

func (t tool) needsEngineName() bool { return t.namespace.Exists() || t.isCustom() }

func textOfName(v jsonx.Value) string {
	if !chat.IsGiven(v) {
		return ""
	}
	return string(v.AppendText(nil))
}

func engineToolName(namespace, name string) string {
	joined := joinNames(namespace, name)
	if joined == "" || len(joined) > maxEngineName || strings.ContainsFunc(joined, isForbiddenRune) {
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

// isForbiddenRune reports whether vendors forbid a character in names. Names appear in the
// templates and grammars of engines.
func isForbiddenRune(r rune) bool {
	return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

// hashName is used instead of engineToolName if the joined name is too long, contains forbidden
// characters, or is already taken. apart is hashed too, to distinguish tools that would otherwise
// have the same name.
func hashName(namespace, name, apart string) string {
	h := fnv.New32a()
	h.Write([]byte(namespace + "\x00" + name + apart))
	joined := strings.Map(func(r rune) rune {
		if isForbiddenRune(r) {
			return '_'
		}
		return r
	}, joinNames(namespace, name))
	return fmt.Sprintf("%s_%08x", joined[:min(len(joined), maxEngineName-len("_01234567"))], h.Sum32())
}

// appendKey appends the key of a tool. It consists of the namespace, the name, the boundary between
// namespace and name, and the kind. dst must be empty.
func appendKey(dst []byte, namespace, name jsonx.Value, custom bool) []byte {
	if chat.IsGiven(namespace) {
		dst = namespace.AppendText(dst)
	}
	end := int64(len(dst))
	dst = append(name.AppendText(dst), 0)
	return strconv.AppendBool(strconv.AppendInt(dst, end, 10), custom)
}

// appendName appends the engine's name for a tool, in quotes. If the tool is in the history but no
// longer offered, appendName uses the name that the tool would have if it were the only one.
func (s *engineNames) appendName(dst []byte, namespace, name jsonx.Value, custom bool) []byte {
	if !namespace.HasText() && !custom {
		return append(dst, name.Raw()...)
	}
	s.key = appendKey(s.key[:0], namespace, name, custom)
	if shown, ok := s.byToolKey[string(s.key)]; ok {
		return jsonx.AppendStringS(dst, shown)
	}
	return jsonx.AppendStringS(dst, engineToolName(textOfName(namespace), textOfName(name)))
}

type clientTools []clientTool

// find looks up the engine's name for a tool. If the client uses the same name, find returns nil.
// contents are the contents of a JSON string.
func (t clientTools) find(contents []byte) *clientTool {
	if len(t) == 0 {
		return nil
	}
	name := jsonx.AppendDecoded(nil, contents)
	for i := range t {
		if t[i].engineName == string(name) {
			return &t[i]
		}
	}
	return nil
}
