package pages

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"text/template"

	"penstock/bench/sim/profile"
)

// TestPages shows every page of every profile in several states: a template's mistake shows here, and what says that it is
// JSON is.
func TestPages(t *testing.T) { synctest.Test(t, testPages) } // the clock stands still: some pages show the time

func testPages(t *testing.T) {
	for _, name := range profile.Names() {
		p := profile.ByName[name]
		s := Of(p)
		shown := 0
		for _, models := range [][]string{nil, {"a"}, {"a", `odd "name"`}} {
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
					r := s.Show(path, st)
					if want := standard(t, p, path, st); !bytes.Equal(r.Body, want) {
						t.Errorf("%s %s: %s, text/template has %s", name, path, r.Body, want)
					}
					if strings.Contains(r.Type, "json") && !json.Valid(r.Body) && len(r.Body) > 0 {
						t.Errorf("%s %s: no JSON: %s", name, path, r.Body)
					}
					if strings.Contains(string(r.Body), "<<") || strings.Contains(string(r.Body), "<no value>") || r.Status < 200 {
						t.Errorf("%s %s: %d %s", name, path, r.Status, r.Body)
					}
				}
			}
		}
		if shown == 0 {
			t.Errorf("%s has no pages", name)
		}
	}
}

// standard is a page as text/template renders it, which finds the methods by itself.
func standard(t *testing.T, p *profile.Profile, path string, st *State) []byte {
	t.Helper()
	all := template.New("").Delims("<<", ">>").Funcs(template.FuncMap(functions))
	for _, one := range sourcesOf(p) {
		template.Must(all.New(one.path).Parse(one.body))
	}
	var b bytes.Buffer
	if err := all.ExecuteTemplate(&b, path, st); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var (
	action = regexp.MustCompile(`(?s)<<.*?>>`)
	quoted = regexp.MustCompile(`"[^"]*"`)
	member = regexp.MustCompile(`\.([A-Z]\w*)`)
)

// TestMembers: what pages name behind a dot is a field, or a function that the renderer calls as a
// method, in the branches too that no state reaches here.
func TestMembers(t *testing.T) {
	fields := map[string]bool{}
	for _, of := range []reflect.Type{reflect.TypeFor[State](), reflect.TypeFor[profile.Profile](), reflect.TypeFor[Histogram](), reflect.TypeFor[profile.APIError](), reflect.TypeFor[tooLong]()} {
		for _, f := range reflect.VisibleFields(of) {
			fields[f.Name] = f.IsExported()
		}
	}
	named := 0
	for _, name := range profile.Names() {
		for _, one := range sourcesOf(profile.ByName[name]) {
			for _, a := range action.FindAllString(one.body, -1) {
				for _, m := range member.FindAllStringSubmatch(quoted.ReplaceAllString(a, ""), -1) {
					named++
					if !fields[m[1]] && functions[m[1]] == nil {
						t.Errorf("%s %s: %s: .%s is neither a field nor a function", name, one.path, a, m[1])
					}
				}
			}
		}
	}
	if named < 100 {
		t.Errorf("the pages name %d members: the test does not find them", named)
	}
}
