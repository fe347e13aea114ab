package chat

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// refusedSets lists sets of rejected members. The last sets reject usual members.
var refusedSets = []*RefusedMembers{
	nil, new(RefusedMembers), NewRefusedMembers("cache_salt", "priority", "stream_*x", "models", "min_t*"),
	NewRefusedMembers("return_*").ForHostedEngine(), NewRefusedMembers("max_tok*"), NewRefusedMembers("*").WithAllowed("model"),
	NewRefusedMembers("USER"), NewRefusedMembers("stream_options.include_*"), NewRefusedMembers("Stream_Options.x").ForHostedEngine(),
}

// TestUsual checks that a request with only usual members has the same result with and without the
// skipped checks.
func TestUsual(t *testing.T) {
	check := func(t rapid.TB, r *Request, body string) {
		if r.Decode([]byte(body)) != nil {
			return
		}
		root := r.doc.Root()
		known := true
		for it := root.Iter(); it.Next(); {
			known = known && requestMembers.Index(it.Key()) >= 0
		}
		if r.onlyKnown != known {
			t.Fatalf("%s: known %v, want %v", body, r.onlyKnown, known)
		}
		if !r.onlyUsual {
			return
		}
		if e := CheckBounds(root); e != nil {
			t.Fatalf("%s: usual, but out of bounds: %v", body, e.Err())
		}
		if n := ReadAliasLimits(root, ""); n != (AliasLimits{}) {
			t.Fatalf("%s: usual, but with limits %+v", body, n)
		}
		for i, refusal := range refusedSets {
			if err := refusal.CheckMembers(root); err != nil && !refusal.refusesUsual() {
				t.Fatalf("%s: usual, but refused by %d: %v", body, i, err)
			}
		}
	}
	var r Request
	for _, c := range ruleCases {
		check(t, &r, c.body)
	}
	values := []string{`1`, `0.5`, `null`, `true`, `[]`, `{}`, `"a"`, `["a"]`, `{"x":1,"include_usage":true}`, `{"max_tokens":3}`, `[{"n":3}]`, `99999999`}
	names := append([]string{"x-a", "sampling_params", "options", "best_of", "cache_salt", "Model", "image", "documents", "regex", "store"}, memberNames...)
	rapid.Check(t, func(t *rapid.T) {
		members := []string{`"model":"m"`, `"messages":[{"role":"user","content":"a"}]`}
		for range rapid.IntRange(0, 5).Draw(t, "members") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			switch rapid.IntRange(0, 9).Draw(t, "spelling") {
			case 0:
				name = strings.ToUpper(name)
			case 1:
				name = strings.ReplaceAll(name, "e", `\u0065`)
			}
			members = append(members, `"`+name+`":`+rapid.SampledFrom(values).Draw(t, "value"))
		}
		check(t, &r, "{"+strings.Join(rapid.Permutation(members).Draw(t, "order"), ",")+"}")
	})
}

// TestUsualIsUsual checks that an ordinary request uses the fast path, and which rejected members
// disable it.
func TestUsualIsUsual(t *testing.T) {
	var r Request
	for body, want := range map[string]bool{
		`"stream":true,"stream_options":{"include_usage":true},"temperature":0.7,"max_tokens":500,"user":"u"`: true,
		`"max_completion_tokens":5,"top_p":0.5,"seed":1,"reasoning_effort":"low"`:                             true,
		`"temp\u0065rature":1`: true,
		`"stop":"a"`:           false,
		`"cache_salt":"a"`:     false,
		`"n":1`:                false,
	} {
		if err := r.Decode([]byte(`{"model":"m","messages":[{"role":"user","content":"a"}],` + body + `}`)); err != nil || r.onlyUsual != want {
			t.Errorf("%s: usual %v, want %v (%v)", body, r.onlyUsual, want, err)
		}
	}
	for i, refusal := range refusedSets {
		if want := i >= 4; refusal.refusesUsual() != want {
			t.Errorf("refusal %d refuses usual members: %v, want %v", i, !want, want)
		}
	}
}
