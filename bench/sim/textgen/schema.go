package textgen

import (
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/wire"
)

// AppendSchemaSample appends a small value that satisfies a JSON schema, to the extent that
// simulated tools need it. It supports types, enum, const, required and optional properties, items,
// limits, anyOf and local $ref. It resolves $ref in root, the root of the schema.
func AppendSchemaSample(dst []byte, s, root *fastjson.Value, seed uint64, depth int) []byte {
	if s == nil || s.Type() != fastjson.TypeObject {
		if depth == 0 {
			return append(dst, "{}"...)
		}
		return append(dst, `true`...)
	}
	if depth > 12 || len(dst) > 1<<16 { // a schema may recurse and branch
		return append(dst, "null"...)
	}
	if c := s.Get("const"); c != nil {
		return c.MarshalTo(dst)
	}
	if e := s.GetArray("enum"); len(e) > 0 {
		return e[seed%uint64(len(e))].MarshalTo(dst)
	}
	if ref := string(s.GetStringBytes("$ref")); strings.HasPrefix(ref, "#/") {
		to := root
		for step := range strings.SplitSeq(ref[2:], "/") {
			to = to.Get(strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
		}
		return AppendSchemaSample(dst, to, root, seed, depth+1)
	}
	for _, name := range []string{"anyOf", "oneOf", "allOf"} {
		if any := s.GetArray(name); len(any) > 0 {
			return AppendSchemaSample(dst, any[0], root, seed, depth+1)
		}
	}
	kind := string(s.GetStringBytes("type"))
	if list := s.GetArray("type"); len(list) > 0 {
		kind = string(list[0].GetStringBytes())
	}
	if kind == "" && (s.Get("properties") != nil || depth == 0) {
		kind = "object"
	}
	switch kind {
	case "object":
		return appendObjectSample(dst, s, root, seed, depth)
	case "array":
		return appendArraySample(dst, s, root, seed, depth)
	case "integer", "number":
		return appendNumberSample(dst, s, seed)
	case "boolean":
		return strconv.AppendBool(dst, seed&1 == 0)
	case "null":
		return append(dst, "null"...)
	}
	return appendStringSample(dst, s, seed)
}

func appendArraySample(dst []byte, s, root *fastjson.Value, seed uint64, depth int) []byte {
	dst = append(dst, '[')
	for i := range max(1, min(s.GetInt("minItems"), 100)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		item := s.Get("items")
		if item == nil {
			dst = AppendSampleWord(dst, seed)
			continue
		}
		dst = AppendSchemaSample(dst, item, root, MixHash(seed, uint64(i)), depth+1)
	}
	return append(dst, ']')
}

func appendNumberSample(dst []byte, s *fastjson.Value, seed uint64) []byte {
	n := float64(seed%9 + 1)
	if lo := s.Get("minimum"); lo != nil {
		n = max(n, lo.GetFloat64())
	}
	if lo := s.Get("exclusiveMinimum"); lo != nil {
		n = max(n, lo.GetFloat64()+1)
	}
	if hi := s.Get("maximum"); hi != nil {
		n = min(n, hi.GetFloat64())
	}
	return strconv.AppendFloat(dst, n, 'f', -1, 64)
}

func appendStringSample(dst []byte, s *fastjson.Value, seed uint64) []byte {
	switch string(s.GetStringBytes("format")) {
	case "date":
		return append(dst, `"2026-11-21"`...)
	case "date-time":
		return append(dst, `"2026-11-21T12:00:00Z"`...)
	case "uri":
		return append(dst, `"https://example.com/"`...)
	case "email":
		return append(dst, `"keeper@example.com"`...)
	}
	start := len(dst)
	dst = AppendSampleWord(dst, seed)
	for lo := s.GetInt("minLength"); len(dst)-start-2 < lo && lo < 1<<16; {
		dst = append(dst[:len(dst)-1], `x"`...)
	}
	if hi := s.Get("maxLength"); hi != nil && len(dst)-start-2 > hi.GetInt() {
		dst = append(dst[:start+1+max(0, hi.GetInt())], '"')
	}
	return dst
}

func appendObjectSample(dst []byte, s, root *fastjson.Value, seed uint64, depth int) []byte {
	dst = append(dst, '{')
	first := true
	member := func(name string, v *fastjson.Value) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = wire.AppendString(dst, name)
		dst = append(dst, ':')
		dst = AppendSchemaSample(dst, v, root, MixHash(seed, uint64(len(dst))), depth+1)
	}
	required := map[string]bool{}
	for _, r := range s.GetArray("required") {
		required[string(r.GetStringBytes())] = true
	}
	if o := s.GetObject("properties"); o != nil {
		o.Visit(func(k []byte, v *fastjson.Value) {
			// If no members are required, a shallow object contains all members and a deep object
			// contains none, so that the recursion ends.
			if required[string(k)] || len(required) == 0 && depth < 2 {
				member(string(k), v)
			}
			delete(required, string(k))
		})
	}
	// members that are required but not listed in properties
	for _, r := range s.GetArray("required") {
		if name := string(r.GetStringBytes()); required[name] {
			member(name, nil)
		}
	}
	return append(dst, '}')
}

// AppendSampleWord appends a plain ASCII word as a JSON string.
func AppendSampleWord(dst []byte, seed uint64) []byte {
	words := [...]string{"river", "gate", "Lima", "lamp", "harbour", "mill", "Oslo", "weir"}
	return wire.AppendString(dst, words[seed%uint64(len(words))])
}
