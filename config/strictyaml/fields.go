package strictyaml

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// Field is a key of the file and the index of its struct field.
type Field struct {
	Key   string
	Index int
}

// fieldCache caches the results of Fields by type.
var fieldCache sync.Map

// Fields returns the struct fields that a file can set, in the order of their declaration.
func Fields(t reflect.Type) []Field {
	if fields, ok := fieldCache.Load(t); ok {
		return fields.([]Field)
	}
	var out []Field
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if f.IsExported() && tag != "" && tag != "-" {
			out = append(out, Field{tag, i})
		}
	}
	fieldCache.Store(t, out)
	return out
}

// FieldIndexByKey returns the index of the struct field for a key, or -1.
func FieldIndexByKey(t reflect.Type, key string) int {
	fields := Fields(t)
	i := slices.IndexFunc(fields, func(f Field) bool { return f.Key == key })
	if i < 0 {
		return -1
	}
	return fields[i].Index
}

// JoinPath returns the path of a member of the mapping at path.
func JoinPath(path, name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r == '.' || r == '[' || r == '"' || unicode.IsControl(r) }) {
		name = strconv.Quote(name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}
