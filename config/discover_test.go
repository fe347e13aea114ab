package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

const discoverConfig = `listen: 127.0.0.1:4000
keys: [{ id: k, hash: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08, models: ["box/*"] }]
upstreams:
  - { name: box, url: "http://10.0.0.1:1" }
  - { name: two, url: "http://10.0.0.2:1" }
  - { name: gpu, url: "http://10.0.0.3:1" }
models:
  - id: llama
    aliases: [mine, "claude-*"]
    queue: { depth: 4, wait: 5s }
    context_length: 1000
    pricing: { input: "1" }
    deployments: [{ upstream: gpu, served: Llama }]
discover:
`

func listedNames(names string) (out []ListedModel) {
	for f := range strings.FieldsSeq(names) {
		name, kind, _ := strings.Cut(f, "=")
		name, parent, _ := strings.Cut(name, "@")
		out = append(out, ListedModel{Name: name, Kind: kind, Parent: parent})
	}
	return out
}

// TestDiscover checks which models in the engines' lists are added to those in the file.
func TestDiscover(t *testing.T) {
	for _, c := range []struct {
		name, entries, box, two, gpu string
		want                         string // id=kind>upstream:served
		left                         map[string]int
	}{
		{name: "all", entries: "- { upstream: box }", box: "b a", two: "c", want: "a=chat>box:a b=chat>box:b"},
		{name: "a pattern and a prefix", entries: `- { upstream: box, match: "q*", prefix: "box/" }`, box: "q1 r q2", want: "box/q1=chat>box:q1 box/q2=chat>box:q2"},
		{name: "one name", entries: `- { upstream: box, match: "q" }`, box: "q1 q", want: "q=chat>box:q"},
		{name: "kinds", entries: `- { upstream: box, match: "e*", kind: embedding }` + "\n- { upstream: box }", box: "e1 t=audio-speech", want: "e1=embedding>box:e1 t=audio-speech>box:t"},
		{name: "two upstreams", entries: "- { upstream: box }\n- { upstream: two }", box: "a b", two: "b a=embedding", want: "a=chat>box:a b=chat>box:b,two:b", left: map[string]int{"two": 1}},
		{name: "what the file names wins", entries: "- { upstream: box }\n- { upstream: gpu }", box: "llama mine claude-x ok", gpu: "Llama", want: "ok=chat>box:ok", left: map[string]int{"box": 3}},
		{name: "adapters", entries: `- { upstream: gpu, prefix: "lora/" }`, gpu: "a1@Llama b1@other Llama other", want: "lora/other=chat>gpu:other lora/a1=chat>gpu:a1 lora/b1=chat>gpu:b1"},
		{name: "hostile names", entries: "- { upstream: box }", box: "a* \x1b[31mred ok\u202e " + strings.Repeat("x", 257), want: "", left: map[string]int{"box": 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Parse("config.yaml", []byte(discoverConfig+"  "+strings.ReplaceAll(c.entries, "\n", "\n  ")+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			if p := f.Validate(KnownProfiles{}); p.Err() != nil {
				t.Fatal(p)
			}
			listed := map[string][]ListedModel{"box": listedNames(c.box), "two": listedNames(c.two), "gpu": listedNames(c.gpu)}
			out := WithDiscoveredModels(f, listed)
			var got []string
			for _, m := range out.Models[1:] {
				var at []string
				for _, d := range m.Deployments {
					at = append(at, d.Upstream+":"+d.Served)
				}
				got = append(got, m.ID+"="+m.Kind+">"+strings.Join(at, ","))
				if adapter := m.Parent == "Llama"; !m.Discovered || adapter != (m.ContextLength == 1000) || adapter != (m.Queue.Depth == 4) || m.Aliases != nil {
					t.Errorf("it is %+v", m)
				}
			}
			if strings.Join(got, " ") != c.want || !maps.Equal(out.LeftOut, c.left) && len(out.LeftOut)+len(c.left) > 0 {
				t.Errorf("got %q, left %v", strings.Join(got, " "), out.LeftOut)
			}
			if d := Diff(out, f); d != nil || !out.Same(f) || !f.Same(out) {
				t.Errorf("the file counts as another one: %v", d)
			}
			if again := WithDiscoveredModels(out, listed); !HaveSameDiscoveredModels(again, out) || len(again.Models) != len(out.Models) {
				t.Error("the same lists bring others")
			}
			if kept := WithDiscoveredModels(out, DiscoveredModelsByUpstream(out)); len(kept.Models) != len(out.Models) {
				t.Errorf("of %d models %d are kept", len(out.Models), len(kept.Models))
			}
			if gone := WithDiscoveredModels(out, nil); len(gone.Models) != 1 {
				t.Errorf("%d models are left", len(gone.Models)-1)
			}
		})
	}
}

// TestDiscoverVariants checks that a variant of a name in the file, such as [1m], belongs to the
// model with that name, even if an engine lists the variant. Otherwise, calls would be sent to the
// listed model, and keys for the file's model would get a 403.
func TestDiscoverVariants(t *testing.T) {
	f, err := Parse("config.yaml", []byte(discoverConfig+"  - { upstream: box }\n"))
	if err != nil {
		t.Fatal(err)
	}
	out := WithDiscoveredModels(f, map[string][]ListedModel{"box": listedNames("llama[1m] mine[8k] claude-x[1m] other[1m] other llama[1M]")})
	var got []string
	for _, m := range out.Models[1:] {
		got = append(got, m.ID)
	}
	if want := []string{"llama[1M]", "other", "other[1m]"}; !slices.Equal(got, want) || out.LeftOut["box"] != 3 {
		t.Errorf("got %q, want %q; %v left out", got, want, out.LeftOut)
	}
}

// TestDiscoverAliases checks that a listed model is not discovered if the file already deploys it
// at this upstream, under another of the engine's names for the model.
func TestDiscoverAliases(t *testing.T) {
	f, err := Parse("config.yaml", []byte(discoverConfig+"  - { upstream: gpu }\n  - { upstream: box, prefix: box/ }\n"))
	if err != nil {
		t.Fatal(err)
	}
	listed := []ListedModel{{Name: "Llama:latest", Aliases: []string{"Llama"}}, {Name: "x", Aliases: []string{"y"}}, {Name: "y"}}
	out := WithDiscoveredModels(f, map[string][]ListedModel{"gpu": listed, "box": listed[:1]})
	var got []string
	for _, m := range out.Models[1:] {
		got = append(got, m.ID)
	}
	if want := []string{"x", "y", "box/Llama:latest"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDiscoverBound checks that the number of discovered models is bounded.
func TestDiscoverBound(t *testing.T) {
	f, err := Parse("config.yaml", []byte(discoverConfig+"  - { upstream: box }\n"))
	if err != nil {
		t.Fatal(err)
	}
	var many []ListedModel
	for i := range 5000 {
		many = append(many, ListedModel{Name: fmt.Sprintf("m%05d", i)})
	}
	out := WithDiscoveredModels(f, map[string][]ListedModel{"box": many})
	if n := len(out.Models) - 1; n != maxDiscoveredModels || out.LeftOut["box"] != 5000-maxDiscoveredModels {
		t.Errorf("%d models, %v left out", n, out.LeftOut)
	}
	slices.Reverse(many)
	if !HaveSameDiscoveredModels(out, WithDiscoveredModels(out, map[string][]ListedModel{"box": many})) {
		t.Error("another order of the list brings others")
	}
}

// TestDiscoverKeepsKeysApart checks that discovered models separate the prompt caches of different
// keys if other models at the upstream do.
func TestDiscoverKeepsKeysApart(t *testing.T) {
	text := strings.Replace(discoverConfig, "queue:", "prompt_cache: per_key\n    queue:", 1) + "  - { upstream: gpu }\n  - { upstream: box }\n"
	f, err := Parse("config.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	out := WithDiscoveredModels(f, map[string][]ListedModel{"gpu": listedNames("other lora@Llama e=embedding"), "box": listedNames("a")})
	for i, want := range map[string]string{"other": PromptCachePerKey, "lora": PromptCachePerKey, "e": PromptCacheShared, "a": PromptCacheShared} {
		at := slices.IndexFunc(out.Models, func(m Model) bool { return m.ID == i })
		if at < 0 || out.Models[at].PromptCache != want {
			t.Errorf("prompt_cache of %s: got %+v, want %q", i, out.Models, want)
		}
	}
}

// TestDiscoveredTiers checks that an adapter has the tier of its base model. Overflow and key tiers
// then apply equally to both models.
func TestDiscoveredTiers(t *testing.T) {
	text := strings.Replace(discoverConfig, "served: Llama }", "served: Llama }, { upstream: two, served: Llama, tier: 1, when: down }", 1)
	f, err := Parse("config.yaml", []byte(text+"  - { upstream: gpu }\n  - { upstream: two }\n"))
	if err != nil {
		t.Fatal(err)
	}
	out := WithDiscoveredModels(f, map[string][]ListedModel{"gpu": listedNames("x@Llama"), "two": listedNames("x@Llama y@Llama z")})
	for i, want := range []string{"x gpu 0 , two 1 down", "z two 0 ", "y two 1 down"} {
		m := out.Models[min(1+i, len(out.Models)-1)]
		var at []string
		for _, d := range m.Deployments {
			at = append(at, fmt.Sprintf("%s %d %s", d.Upstream, d.Tier, d.When))
		}
		if got := m.ID + " " + strings.Join(at, ", "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestDiscoverExternal checks that an external upstream may serve only discovered models.
func TestDiscoverExternal(t *testing.T) {
	for tiers, warned := range map[string]bool{"[0]": false, "[1]": true} {
		text := strings.Replace(discoverConfig, `"box/*"]`, `"*"], tiers: `+tiers, 1)
		f, err := Parse("config.yaml", []byte(strings.Replace(text, "{ name: box,", "{ name: box, external: true,", 1)+"  - { upstream: box }\n"))
		if err != nil {
			t.Fatal(err)
		}
		problems := fmt.Sprint(f.Validate(KnownProfiles{}))
		if got := strings.Contains(problems, "no call may go there"); got != warned {
			t.Errorf("tiers %s: warned is %t", tiers, got)
		}
		if strings.Contains(problems, `no model uses the upstream "box"`) {
			t.Error(problems)
		}
	}
}

// TestDiscoveredRights checks the rights of keys while the models in a new file are not active yet.
// Keys retain the model names that both files discover in the same way. They lose the names that
// may now refer to a different entry or address.
func TestDiscoveredRights(t *testing.T) {
	text := discoverConfig + "  - { upstream: box }\n"
	parse := func(text string) *File {
		f, err := Parse("config.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	running := WithDiscoveredModels(parse(text), map[string][]ListedModel{"box": listedNames("a")})
	for next, want := range map[string][]string{
		text: nil,
		strings.Replace(text, "10.0.0.1:1", "10.0.0.9:1", 1):     {"a"},
		strings.Replace(text, "10.0.0.2:1", "10.0.0.9:1", 1):     nil,
		strings.Replace(text, "box }\n", "box, kind: chat }", 1): {"a"},
		// the new file uses the name for another model
		strings.Replace(text, "discover:", "  - { id: a, deployments: [{ upstream: two }] }\ndiscover:", 1): {"a"},
	} {
		if got := running.ChangedModels(parse(next)); !slices.Equal(got, want) {
			t.Errorf("%v are other than in\n%s", got, next)
		}
	}
}
