package config

import (
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// bindNode accepts one hash as a text, or a list whose elements are texts or {hash, expires}.
func (h *KeyHashes) bindNode(b *binder, n ast.Node, path string, depth int) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		var one KeyHash
		one.bindNode(b, n, path, depth)
		*h = KeyHashes{one}
		return
	}
	hashes := make([]KeyHash, 0, len(list.Values))
	b.list(list, reflect.ValueOf(&hashes).Elem(), path, depth)
	*h = hashes
}

// bindNode accepts a text, or a mapping with the members of KeyHash. What does not look like a hash may be the key itself
// and is kept out of excerpts.
func (h *KeyHash) bindNode(b *binder, n ast.Node, path string, depth int) {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		b.fields(n, reflect.ValueOf(h).Elem(), path, depth)
	default:
		b.scalar(n, reflect.ValueOf(&h.Hash).Elem(), path)
	}
	if !strings.HasPrefix(h.Hash, HashPrefix) && !isReference(n) {
		b.hide(n)
	}
	h.Hash = strings.ToLower(h.Hash)
}

// bindNode accepts one number, or a mapping of pools.
func (c *Concurrency) bindNode(b *binder, n ast.Node, path string, depth int) {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		pools := Concurrency{}
		b.fields(n, reflect.ValueOf(&pools).Elem(), path, depth)
		if pools.Text <= 0 && pools.Vision <= 0 && pools.Audio <= 0 && !b.brokenBelow(path) {
			b.failNode(n, path, "no pool has a place: give text, vision or audio a number above 0")
		}
		*c = pools
		return
	case *ast.SequenceNode:
		b.failNode(n, path, "want one number, or text, vision and audio with a number each, not a list")
		return
	}
	var shared int
	b.scalar(n, reflect.ValueOf(&shared).Elem(), path)
	if shared <= 0 && !b.broken[path] {
		b.failNode(n, path, "must be at least 1; leave it out to use what the engine reports")
		return
	}
	*c = Concurrency{Shared: shared}
}

// brokenBelow reports whether a problem was found inside the value at path.
func (b *binder) brokenBelow(path string) bool {
	for p := range b.broken {
		if strings.HasPrefix(p, path+".") {
			return true
		}
	}
	return false
}
