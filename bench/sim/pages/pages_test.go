package pages

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"penstock/bench/sim/profile"
)

// TestPages checks that every page of every profile can be rendered in different states, and that
// JSON pages contain valid JSON. The test uses the fake clock of synctest, because some pages show
// the time.
func TestPages(t *testing.T) { synctest.Test(t, testPages) }

func testPages(t *testing.T) {
	for _, name := range profile.Names() {
		p := profile.ByName[name]
		s := New(p)
		shown := 0
		for _, models := range [][]string{nil, {"a"}, {"a", `odd "name"`}, hostile} {
			for _, in := range []bool{false, true} {
				st := &State{
					Profile: p, Models: models, Slots: 2, Running: 1, KVSize: 32, Sick: in, Adapters: in, Loaded: func(string) bool { return in }, Parent: func(string) string { return "" },
					Idle: func() bool { return in }, QueueTime: new(Histogram), TTFT: new(Histogram), Total: new(Histogram),
				}
				for path := range s.types {
					if path[0] != '/' {
						continue
					}
					shown++
					r := s.RenderPage(path, st)
					if strings.Contains(r.Type, "json") && !json.Valid(r.Body) && len(r.Body) > 0 {
						t.Errorf("%s %s: no JSON: %s", name, path, r.Body)
					}
					if strings.Contains(strings.ReplaceAll(string(r.Body), "<<.Model>>", ""), "<<") || strings.Contains(string(r.Body), "<no value>") || r.Status < 200 {
						t.Errorf("page %s %s: %d %s, want a status and no placeholder", name, path, r.Status, r.Body)
					}
				}
			}
		}
		if shown == 0 {
			t.Errorf("%s has no pages", name)
		}
	}
}

// hostile lists names that must not break JSON or plain text pages.
var hostile = []string{`"><script>alert(1)</script>`, "</script>\r\nX: y", "a\x00b\\", "\u202egpj", "\u2028", "<<.Model>>{{.}}"}

var (
	action = regexp.MustCompile(`(?s)<<.*?>>`)
	quoted = regexp.MustCompile(`"[^"]*"`)
	member = regexp.MustCompile(`\.([A-Z]\w*)`)
)

// TestMembers checks that every name that follows a dot in a page template is a field or a method,
// even in branches that TestPages does not reach.
func TestMembers(t *testing.T) {
	members := map[string]bool{}
	for _, of := range []reflect.Type{reflect.TypeFor[State](), reflect.TypeFor[profile.Profile](), reflect.TypeFor[Histogram](), reflect.TypeFor[profile.APIError](), reflect.TypeFor[tooLongData]()} {
		for _, f := range reflect.VisibleFields(of) {
			members[f.Name] = f.IsExported()
		}
		for i := range reflect.PointerTo(of).NumMethod() {
			members[reflect.PointerTo(of).Method(i).Name] = true
		}
	}
	named := 0
	for _, name := range profile.Names() {
		for _, one := range pageSources(profile.ByName[name]) {
			for _, a := range action.FindAllString(one.body, -1) {
				for _, m := range member.FindAllStringSubmatch(quoted.ReplaceAllString(a, ""), -1) {
					named++
					if !members[m[1]] {
						t.Errorf("%s %s: %s: .%s is neither a field nor a method", name, one.path, a, m[1])
					}
				}
			}
		}
	}
	if named < 100 {
		t.Errorf("the pages name %d members: the test does not find them", named)
	}
}
