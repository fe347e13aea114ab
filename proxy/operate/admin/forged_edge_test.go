package admin

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"penstock/proxy/operate/status"
	"penstock/proxy/running/reload"
)

// forged contains characters that a terminal would interpret as commands: ESC, the single character
// equivalent to ESC [, a carriage return, and a mark that reverses the text direction.
const forged = "a\x1b[2J\u009b31m\r\u202eb"

func forgeStrings(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(forged)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		forgeStrings(v.Elem(), depth)
	case reflect.Slice:
		if depth < 8 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			forgeStrings(v.Index(0), depth+1)
		}
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.String {
			v.Set(reflect.MakeMap(v.Type()))
			value := reflect.New(v.Type().Elem()).Elem()
			forgeStrings(value, depth+1)
			v.SetMapIndex(reflect.ValueOf(forged).Convert(v.Type().Key()), value)
		}
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*at = time.Now()
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				forgeStrings(v.Field(i), depth)
			}
		}
	}
}

// TestForgedEdge checks that a server that poses as an edge cannot control the caller's terminal.
func TestForgedEdge(t *testing.T) {
	var s status.Status
	forgeStrings(reflect.ValueOf(&s).Elem(), 0)
	var result reload.Result
	forgeStrings(reflect.ValueOf(&result).Elem(), 0)
	answers := map[string]any{"/status": &s, "/-/reload": &result}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(answers[r.URL.Path])
	}))
	defer server.Close()
	ask := map[string]func(w io.Writer) error{
		"top": func(w io.Writer) error {
			return ShowTop(t.Context(), TopOptions{Edge: Edge{Admin: server.URL}, Out: w, Width: 80})
		},
		"top --format json": func(w io.Writer) error {
			return ShowTop(t.Context(), TopOptions{Edge: Edge{Admin: server.URL}, Out: w, JSON: true})
		},
		"reload": func(w io.Writer) error { return RequestReload(Edge{Admin: server.URL}, reload.Request{}, false, w) },
	}
	for _, refused := range []bool{false, true} {
		result.OK, result.Unchanged = !refused, false
		for name, ask := range ask {
			var b bytes.Buffer
			err := ask(&b)
			said := b.String()
			if err != nil {
				said += err.Error()
			}
			if name == "reload" && refused != (err != nil) {
				t.Errorf("reload, refused %t: %v", refused, err)
			}
			if i := strings.IndexFunc(said, func(r rune) bool { return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) }); i >= 0 {
				t.Errorf("%s says %.200q, want no control character", name, said[max(0, i-40):])
			}
			if !strings.Contains(said, "[2J") {
				t.Errorf("%s shows nothing of what was answered: the test holds nothing", name)
			}
		}
	}
}
