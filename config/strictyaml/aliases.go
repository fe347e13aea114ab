package strictyaml

import (
	"strconv"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Node is a value to bind.
type Node struct {
	ast   ast.Node
	path  string // such as upstreams[1].probe.fall
	depth int    // number of enclosing values
}

// WithPath returns n with a different path.
func (n Node) WithPath(path string) Node { return Node{n.ast, path, n.depth} }

// IsMapping reports whether n is a mapping.
func (n Node) IsMapping() bool {
	switch n.ast.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

// IsList reports whether n is a list.
func (n Node) IsList() bool {
	_, ok := n.ast.(*ast.SequenceNode)
	return ok
}

// IsReference reports whether n refers to a secret by ${VAR} or file:PATH.
func (n Node) IsReference() bool { return isReference(n.ast) }

// aliasResolver resolves anchors, aliases, merge keys and tags. It limits the number of nodes,
// because aliases can expand a small file to a huge tree.
type aliasResolver struct {
	report    *problemReport
	anchors   map[string]ast.Node
	nodesLeft int // nodes that may still be visited
	pathBytes int // remaining bytes for the paths of visited nodes
}

// maxAliasNodes is the maximum number of nodes that aliases may add.
const maxAliasNodes = 100_000

// newAliasResolver collects the anchors of a document with size tokens, including anchors below
// unknown keys.
func newAliasResolver(r *problemReport, body ast.Node, size int) *aliasResolver {
	t := &aliasResolver{report: r, anchors: map[string]ast.Node{}, nodesLeft: maxAliasNodes + size}
	ast.Walk(anchorCollector{t}, body)
	return t
}

type anchorCollector struct{ *aliasResolver }

func (v anchorCollector) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok && a.Name != nil {
		name := a.Name.GetToken().Value
		if _, taken := v.anchors[name]; taken {
			v.report.fail(a, "", "the anchor &%s is set twice", name)
		}
		v.anchors[name] = a.Value
	}
	return v
}

// limitReportedMarkerPath is a path that no value can have. Once an exceeded limit has been reported,
// this path is marked as broken, so that the limit is not reported again.
const limitReportedMarkerPath = "\x00"

// resolve returns n with aliases, anchors and tags resolved.
func (t *aliasResolver) resolve(n Node) (Node, bool) {
	first := n.ast
	t.pathBytes += len(n.path)
	for hops := 0; ; hops++ {
		if t.nodesLeft--; t.nodesLeft < 0 || n.depth+hops > maxNestingDepth || t.pathBytes > maxTotalPathBytes {
			if broken := t.report.positions.broken; !broken[limitReportedMarkerPath] {
				broken[limitReportedMarkerPath] = true
				t.report.fail(first, n.path, "the file nests too deeply or repeats an alias too often")
			}
			return n, false
		}
		switch x := n.ast.(type) {
		case *ast.AnchorNode:
			n.ast = x.Value
		case *ast.AliasNode:
			name := x.Value.GetToken().Value
			to, ok := t.anchors[name]
			if !ok {
				t.report.fail(x, n.path, "there is no anchor &%s for the alias *%s; a text that begins with * is written in quotes",
					name, name)
				return n, false
			}
			n.ast = to
		case *ast.TagNode:
			switch tag := x.GetToken().Value; tag {
			case "!!str", "!!int", "!!float", "!!bool", "!!map", "!!seq", "!!null":
				n.ast = x.Value
			default:
				t.report.fail(x, n.path, "the tag %s has no meaning here", tag)
				return n, false
			}
		default:
			return n, true
		}
	}
}

type mappingEntry struct {
	name  string
	key   *token.Token
	value ast.Node
}

// entries returns the members of a mapping, and resolves merge keys. It reports duplicate members.
func (t *aliasResolver) entries(n Node) ([]mappingEntry, bool) {
	var values []*ast.MappingValueNode
	switch x := n.ast.(type) {
	case *ast.MappingNode:
		values = x.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{x}
	default:
		t.report.fail(n.ast, n.path, "want keys with values here, not %s", nodeKind(n.ast))
		return nil, false
	}
	t.nodesLeft -= len(values)
	var own []mappingEntry
	var merged []ast.Node
	seen := map[string]*token.Token{}
	for _, v := range values {
		if v.Key.IsMergeKey() {
			merged = append(merged, v.Value)
			continue
		}
		key := firstToken(v.Key)
		name, ok := keyText(v.Key)
		if !ok {
			t.report.failAt(key, n.path, "a key must be a plain word")
			continue
		}
		if first, twice := seen[name]; twice {
			t.report.hideLikely(name, v.Value)
			t.report.failAt(key, JoinPath(n.path, name), "the key %q is given twice: first on line %d", name, first.Position.Line)
			continue
		}
		seen[name] = key
		own = append(own, mappingEntry{name, key, v.Value})
	}
	for _, m := range merged {
		for _, e := range t.mergedEntries(Node{m, n.path, n.depth + 1}) {
			if seen[e.name] == nil {
				seen[e.name] = e.key
				own = append(own, e)
			}
		}
	}
	return own, true
}

// mergedEntries returns the members that a merge key adds from one or more mappings.
func (t *aliasResolver) mergedEntries(n Node) []mappingEntry {
	n, ok := t.resolve(n)
	if !ok {
		return nil
	}
	if s, ok := n.ast.(*ast.SequenceNode); ok {
		var all []mappingEntry
		for _, v := range s.Values {
			all = append(all, t.mergedEntries(Node{v, n.path, n.depth + 1})...)
		}
		return all
	}
	got, _ := t.entries(n)
	return got
}

func isNull(n ast.Node) bool {
	if n == nil {
		return true
	}
	return n.Type() == ast.NullType
}

func keyText(k ast.MapKeyNode) (string, bool) {
	var n ast.Node = k
	if q, ok := n.(*ast.MappingKeyNode); ok {
		n = q.Value
	}
	switch x := n.(type) {
	case *ast.StringNode:
		return x.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// firstToken returns the first token of n. For a mapping, the library's token is the first colon.
func firstToken(n ast.Node) *token.Token {
	switch x := n.(type) {
	case nil:
		return nil
	case *ast.MappingNode:
		if !x.IsFlowStyle && len(x.Values) > 0 {
			return firstToken(x.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return firstToken(x.Key)
	case *ast.MappingKeyNode:
		if x.Value != nil {
			return firstToken(x.Value)
		}
	}
	return n.GetToken()
}

func nodeKind(n ast.Node) string {
	switch x := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.BoolNode:
		return strconv.FormatBool(x.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	}
	return "a text"
}
