package status

import (
	"bytes"
	"html/template"
	"reflect"
	"regexp"
	"testing"
	"time"

	"penstock/proxy/fleet"
)

// wantStandard compares the page, and the pages of its calls, with what html/template makes of the
// same templates: it knows where in the markup a value stands, and escapes it for there.
func wantStandard(t *testing.T, s *Status) {
	t.Helper()
	functions := template.FuncMap{}
	for name, fn := range helpers {
		functions[name] = fn
	}
	functions["fragment"] = func(name string) string { return name } // html/template sees that it is part of a URL
	standard, err := template.New("page").Funcs(functions).Parse(pageHTML)
	if err != nil {
		t.Fatal(err)
	}
	compare := func(name string, got []byte, err error, data any) {
		t.Helper()
		var want bytes.Buffer
		if err := standard.ExecuteTemplate(&want, name, data); err != nil {
			t.Fatal(err)
		}
		if err != nil || !bytes.Equal(got, want.Bytes()) {
			i := 0
			for i < min(len(got), want.Len()) && got[i] == want.Bytes()[i] {
				i++
			}
			t.Errorf("%s, %v: at %d …%.80s…, html/template has …%.80s…", name, err, i, got[max(0, min(i, len(got))-40):], want.Bytes()[max(0, i-40):])
		}
	}
	got, err := s.Page()
	compare("page", got, err, struct {
		*Status
		CSS template.CSS
		JS  template.JS
	}{s, template.CSS(pageCSS), template.JS(pageJS)})
	for i := range s.Calls {
		got, err := s.CallPage(s.Calls[i].ID)
		compare("call", got, err, struct {
			Now   time.Time
			Fleet *fleet.State
			Call  *Call
			CSS   template.CSS
		}{s.Now, s.Fleet, &s.Calls[i], template.CSS(pageCSS)})
	}
}

var (
	action = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	quoted = regexp.MustCompile(`"[^"]*"`)
	member = regexp.MustCompile(`\.([A-Z]\w*)`)
)

// TestMembers: what the page names behind a dot is a field, or one of the functions that the
// renderer calls as methods. The branches that no sample reaches count, too.
func TestMembers(t *testing.T) {
	fields, seen := map[string]bool{"CSS": true, "JS": true, "Call": true, "Status": true, "OfFleet": true, "View": true, "Query": true, "Turned": true, "Rows": true, "All": true}, map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
			visit(of.Elem())
		case reflect.Func:
			for i := range of.NumOut() {
				visit(of.Out(i))
			}
		case reflect.Struct:
			if seen[of] {
				return
			}
			seen[of] = true
			for i := range of.NumField() {
				if f := of.Field(i); f.IsExported() {
					fields[f.Name] = true
					visit(f.Type)
				}
			}
		default:
		}
	}
	visit(reflect.TypeFor[Status]())
	visit(reflect.TypeFor[UsageView]())
	for _, fn := range helpers {
		visit(reflect.TypeOf(fn))
	}
	named := 0
	for _, a := range action.FindAllString(pageHTML, -1) {
		for _, m := range member.FindAllStringSubmatch(quoted.ReplaceAllString(a, ""), -1) {
			named++
			if !fields[m[1]] && helpers[m[1]] == nil {
				t.Errorf("%s: .%s is neither a field nor a function", a, m[1])
			}
		}
	}
	if named < 200 {
		t.Errorf("the page names %d members: the test does not find them", named)
	}
}
