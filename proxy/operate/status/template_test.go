package status

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"penstock/proxy/telemetry/observe"
)

// hostileNames are ids that could appear in an operator's file, an engine's model list or the
// claims of a token.
var hostileNames = []string{
	`"><script>alert(1)</script>`, `</script><script>alert(1)</script>`, `</style><img src=x onerror=alert(1)>`,
	`' onmouseover='alert(1)`, "a b=c`d", `javascript:alert(1)`, `?x#y/../%2e&amp;<!--`, "a\x00b", "\u202egpj\u2066", "{{.JS}}", "\xff\xfe<b",
}

// TestHostileNames checks that hostile names do not change the elements, attributes and link
// targets of a page, and that the names are readable.
func TestHostileNames(t *testing.T) {
	for page, show := range map[string]func(name string) ([]byte, error){
		"status": func(name string) ([]byte, error) {
			s := sample()
			renameStrings(reflect.ValueOf(s), name)
			return s.Page()
		},
		"call": func(name string) ([]byte, error) {
			s := sample()
			renameStrings(reflect.ValueOf(s), name)
			return s.CallPage(name)
		},
		"forgotten": func(name string) ([]byte, error) { return sample().UnknownCallPage(name) },
		"usage": func(name string) ([]byte, error) {
			r := &observe.UsageReport{Now: time.Unix(1, 0), Since: time.Unix(0, 0), Keys: []observe.KeyUsage{
				{Models: []observe.ModelUsage{{}}, Users: []observe.UserUsage{{}}},
			}}
			renameStrings(reflect.ValueOf(r), name)
			return UsagePage(r, nil, UsageView{Users: true})
		},
	} {
		plain, err := show("plain")
		if err != nil {
			t.Fatal(err)
		}
		want, _ := parseMarkup(string(plain))
		if !strings.Contains(string(plain), "plain") || len(want) < 50 {
			t.Fatalf("%s: the sample does not show its names:\n%s", page, plain)
		}
		for _, name := range hostileNames {
			body, err := show(name)
			if err != nil {
				t.Errorf("page %s, template %q: %v, want no error", page, name, err)
				continue
			}
			got, text := parseMarkup(string(body))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %q changes the markup:\n%s", page, name, body)
			}
			if readable := strings.ReplaceAll(name, "\x00", "\uFFFD"); !strings.Contains(text, readable) {
				t.Errorf("%s does not show %q", page, name)
			}
		}
	}
}

// parseMarkup returns a page's elements, with attribute names and link targets, and the page's
// text.
func parseMarkup(page string) (elements []string, text string) {
	var words strings.Builder
	for z := html.NewTokenizer(strings.NewReader(page)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return elements, words.String()
		case html.TextToken:
			words.WriteString(html.UnescapeString(string(z.Raw())))
		case html.CommentToken:
			elements = append(elements, "comment")
		default:
			token := z.Token()
			one := token.Type.String() + " " + token.Data
			for _, a := range token.Attr {
				if one += " " + a.Key; a.Key == "href" || a.Key == "action" {
					target, _, _ := strings.Cut(a.Val, "#")
					one += "=" + strings.SplitAfterN(target, "call/", 2)[0]
				}
			}
			elements = append(elements, one)
		}
	}
}

func renameStrings(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			renameStrings(v.Elem(), name)
		}
	case reflect.Slice:
		for i := range v.Len() {
			renameStrings(v.Index(i), name)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			switch f := v.Type().Field(i); {
			case !f.IsExported():
			case f.Type.Kind() != reflect.String:
				renameStrings(v.Field(i), name)
			case strings.Contains(" ID Name Label Upstream Model Key User Who Arm To URL Origin Code Why Reason ", " "+f.Name+" "):
				v.Field(i).SetString(name)
			}
		}
	default:
	}
}

var (
	templateAction = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	quotedString   = regexp.MustCompile(`"[^"]*"`)
	memberAccess   = regexp.MustCompile(`\.([A-Z]\w*)`)
)

// TestMembers checks that every name after a dot in the templates is a field or a method, even in
// branches that no sample reaches.
func TestMembers(t *testing.T) {
	members, seen := map[string]bool{"CSS": true, "JS": true, "Call": true, "Status": true, "OfFleet": true, "View": true, "Query": true, "Turned": true, "Rows": true, "All": true}, map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(of reflect.Type) {
		if seen[of] {
			return
		}
		seen[of] = true
		for _, with := range []reflect.Type{of, reflect.PointerTo(of)} {
			for i := range with.NumMethod() {
				m := with.Method(i)
				members[m.Name] = true
				for j := range m.Type.NumOut() {
					visit(m.Type.Out(j))
				}
			}
		}
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
			visit(of.Elem())
		case reflect.Func:
			for i := range of.NumOut() {
				visit(of.Out(i))
			}
		case reflect.Struct:
			for i := range of.NumField() {
				if f := of.Field(i); f.IsExported() {
					members[f.Name] = true
					visit(f.Type)
				}
			}
		default:
		}
	}
	visit(reflect.TypeFor[Status]())
	visit(reflect.TypeFor[UsageView]())
	for _, fn := range templateFuncs {
		visit(reflect.TypeOf(fn))
	}
	named := 0
	for _, a := range templateAction.FindAllString(pageHTML, -1) {
		for _, m := range memberAccess.FindAllStringSubmatch(quotedString.ReplaceAllString(a, ""), -1) {
			named++
			if !members[m[1]] {
				t.Errorf("%s: .%s is neither a field nor a method", a, m[1])
			}
		}
	}
	if named < 200 {
		t.Errorf("the page names %d members: the test does not find them", named)
	}
}
