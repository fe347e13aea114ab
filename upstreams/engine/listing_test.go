package engine

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestListing checks that a model is added with the first list that contains it, and removed with
// the second consecutive list that does not.
func TestListing(t *testing.T) {
	var l TrackedModels
	for i, step := range []struct{ list, want string }{
		{"", "changed:"}, // an empty list counts as a list
		{"", ""},
		{"a b", "changed: a b"},
		{"b a", ""},
		{"b", ""}, // one list without a
		{"a b", ""},
		{"b", ""},
		{"b", "changed: b"},
		{"b c", "changed: b c"},
		{"b c@b", "changed: b c@b"}, // now a different model
		{"", ""},
		{"", "changed:"},
	} {
		var infos []ModelInfo
		for _, f := range strings.Fields(step.list) {
			id, parent, _ := strings.Cut(f, "@")
			// A different context length does not count as a change.
			infos = append(infos, ModelInfo{ID: id, Parent: parent, Context: i})
		}
		got := ""
		if l.Update(infos) {
			got = "changed:"
			for _, m := range l.Models() {
				got += strings.TrimSuffix(" "+m.ID+"@"+m.Parent, "@")
			}
		}
		if got != step.want || !l.Listed {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

// TestListingBound checks that the same models are kept from a list with too many models,
// regardless of their order.
func TestListingBound(t *testing.T) {
	var l TrackedModels
	var infos []ModelInfo
	for i := range 5 * maxListedModels {
		infos = append(infos, ModelInfo{ID: strconv.Itoa(i)})
	}
	l.Update(infos)
	slices.Reverse(infos)
	if before := l.Models(); l.Update(infos) || len(before) != maxListedModels || len(l.Models()) != maxListedModels {
		t.Errorf("%d models, and then %d", len(before), len(l.Models()))
	}
}

// TestModelAliases checks that the name without the engine's implicit tag is an alias of the model.
func TestModelAliases(t *testing.T) {
	for _, c := range []struct{ profile, id, want string }{
		{"ollama", "llama:latest", "other llama"}, {"ollama", "llama:7b", "other"}, {"vllm", "llama:latest", "other"},
	} {
		m := ModelInfo{ID: c.id, Aliases: []string{"other"}}
		if got := strings.Join(ModelAliases(mustProfile(t, c.profile), &m), " "); got != c.want {
			t.Errorf("%s at %s: %q, want %q", c.id, c.profile, got, c.want)
		}
	}
}

// TestScanAdapters checks that the adapters are read from the newest valid series.
func TestScanAdapters(t *testing.T) {
	source := vllmLoad
	source.Adapters = "vllm:lora_requests_info"
	line := func(most, running, waiting, at string) string {
		return `vllm:lora_requests_info{max_lora="` + most + `",running_lora_adapters="` + running + `",waiting_lora_adapters="` + waiting + `"} ` + at + "\n"
	}
	for _, c := range []struct {
		page  string
		most  int
		inUse []string
	}{
		{"", 0, nil},
		{line("2", "a,b", "c", "1.7e9") + line("4", "x", "", "1.6e9"), 2, []string{"a", "b", "c"}},
		{line("4", "x", "", "1.6e9") + line("2", "a", "", "1.7e9"), 2, []string{"a"}},
		{line("2", "", "", "1.7e9"), 2, nil},
		{line("many", "a", "", "1.7e9"), 0, nil},
		{"vllm:lora_requests_info 3\n", 0, nil},
		{`vllm:lora_requests_info{max_lora="2"`, 0, nil},
	} {
		got, _ := scanMetrics(&source, []byte("vllm:num_requests_running 3\n"+c.page))
		a := got.Adapters
		if a == nil {
			a = new(Adapters)
		}
		if a.Most != c.most || !slices.Equal(a.InUse, c.inUse) || got.Running != 3 {
			t.Errorf("adapters of %q = %+v, want at most %d and %v in use", c.page, a, c.most, c.inUse)
		}
	}
}
