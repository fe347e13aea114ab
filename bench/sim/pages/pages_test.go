package pages

import (
	"encoding/json"
	"strings"
	"testing"

	"penstock/bench/sim/profile"
)

// TestPages shows every page of every profile in several states: a template's mistake shows here, and what says that it is
// JSON is.
func TestPages(t *testing.T) {
	for _, name := range profile.Names() {
		p := profile.ByName[name]
		s := Of(p)
		shown := 0
		for _, models := range [][]string{nil, {"a"}, {"a", `odd "name"`}} {
			for _, in := range []bool{false, true} {
				st := &State{
					Profile: p, Models: models, Slots: 2, Running: 1, KVSize: 32, Sick: in, Loaded: func(string) bool { return in },
					Idle: func() bool { return in }, QueueTime: new(Histogram), TTFT: new(Histogram), Total: new(Histogram),
				}
				for path := range s.types {
					if path[0] != '/' {
						continue
					}
					shown++
					r := s.Show(path, st)
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
