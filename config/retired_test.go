package config

import (
	"reflect"
	"strings"
	"testing"

	"penstock/config/strictyaml"
)

// TestRetired checks that no setting is both current and retired, that the parent of each retired
// setting still exists, and that each retired setting has a remedy.
func TestRetired(t *testing.T) {
	for path, r := range removedSettings {
		in, name := "", path
		if i := strings.LastIndexByte(path, '.'); i >= 0 {
			in, name = path[:i], path[i+1:]
		}
		at := reflect.TypeFor[File]()
		for part := range strings.FieldsFuncSeq(in, func(r rune) bool { return r == '.' }) {
			key, list := strings.CutSuffix(part, "[]")
			i := strictyaml.FieldIndexByKey(at, key)
			if i < 0 {
				t.Fatalf("%s: there is no %s", path, part)
			}
			if at = at.Field(i).Type; list {
				at = at.Elem()
			}
			if at.Kind() == reflect.Pointer {
				at = at.Elem()
			}
		}
		if strictyaml.FieldIndexByKey(at, name) >= 0 {
			t.Errorf("%s is a setting", path)
		}
		if r.Remedy == "" || strings.HasSuffix(r.Remedy, ".") {
			t.Errorf("%s: the remedy is %q", path, r.Remedy)
		}
	}
}
