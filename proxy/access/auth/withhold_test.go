package auth

import (
	"slices"
	"testing"
	"time"

	"penstock/config"
)

// TestWithhold checks keys that take effect before the models in the same file. They must lose the
// removed rights, and must not gain rights to models that the file changes.
func TestWithhold(t *testing.T) {
	ring := func(guest, team []string) *KeyRing {
		t.Helper()
		r, err := NewKeyRing([]config.Key{
			{ID: "guest", Hash: []config.KeyHash{{Hash: HashKey("guest-key-of-the-test")}}, Models: guest},
			{ID: "team", Hash: []config.KeyHash{{Hash: HashKey("team-key-of-the-test")}}, Models: team},
		}, new(IssuerOptions))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	before := ring([]string{"small", "same"}, []string{"*"})
	next := ring([]string{"chat", "tools"}, []string{"c*"})
	next.WithholdModels([]string{"chat", "small"}, before)
	for _, c := range []struct {
		key, model string
		want       bool
	}{
		{"guest", "chat", false}, // the key gains the right to a changed model
		{"guest", "small", false},
		{"guest", "tools", true}, // the key gains the right to an unchanged model
		{"team", "chat", true},   // the key already had this right
		{"team", "small", false}, // the key loses the right
	} {
		for _, e := range next.byHash {
			if e.key.ID == c.key && e.key.AllowsModel(c.model) != c.want {
				t.Errorf("%s: AllowsModel(%s) = %v, want %v", c.key, c.model, !c.want, c.want)
			}
		}
	}
}

// TestWithholdFromCertificates checks that new rights are also withheld from keys that are found by
// a certificate, and that such a key keeps the rights that it had.
func TestWithholdFromCertificates(t *testing.T) {
	listing := func(id string, tiers []int, models ...string) config.Key {
		k := keyWithSAN(id, id+".test")
		k.Models, k.Tiers = models, tiers
		return k
	}
	a, before := clients(t, listing("agent", []int{0, 1}, "small"))
	next := ringTrusting(t, a.PEM, listing("agent", []int{1, 2}, "small", "chat", "tools"), listing("new", []int{2}, "chat", "tools"))
	next.WithholdModels([]string{"chat", "small"}, before)
	for id, want := range map[string]struct {
		models   []string
		tier     int
		external bool // whether the key may use external upstreams of the tier
	}{
		"agent": {[]string{"small", "tools"}, 1, true},
		"new":   {[]string{"tools"}, 2, false},
	} {
		k, err := next.FindCertificateKey(peer(t, a, hosts(id+".test")), time.Now())
		if err != nil || k == nil {
			t.Fatal(k, err)
		}
		for _, m := range []string{"small", "chat", "tools"} {
			if got := k.AllowsModel(m); got != slices.Contains(want.models, m) {
				t.Errorf("%s: AllowsModel(%s) = %v", id, m, got)
			}
		}
		for tier := range 3 {
			if got := next.KeyTiers(k).Allows(tier, false); got != (tier == want.tier) {
				t.Errorf("%s: tier %d: %v", id, tier, got)
			}
		}
		if got := next.KeyTiers(k).Allows(want.tier, true); got != want.external {
			t.Errorf("%s: external upstreams of tier %d: %v, want %v", id, want.tier, got, want.external)
		}
	}
}

// TestWithholdTiers checks that a key gets no tier that it did not list before, because the new
// file may number the tiers differently.
func TestWithholdTiers(t *testing.T) {
	ring := func(tiers ...int) *KeyRing {
		t.Helper()
		r, err := NewKeyRing([]config.Key{{ID: "team", Hash: []config.KeyHash{{Hash: HashKey("team-key-of-the-test")}}, Tiers: tiers}}, new(IssuerOptions))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, c := range []struct {
		before, next       []int
		internal, external []int // tiers of the deployments that the key may use
		models             []string
	}{
		{nil, []int{0, 1}, []int{0, 1}, nil, []string{"m"}},
		{nil, []int{0}, []int{0}, nil, []string{"m"}},
		{nil, []int{0, 1}, []int{0, 1}, []int{0, 1}, nil}, // all models are unchanged
		{[]int{0, 1}, []int{0, 1, 2}, []int{0, 1}, []int{0, 1}, []string{"m"}},
		{[]int{0, 1}, []int{0}, []int{0}, []int{0}, []string{"m"}},
		{[]int{1}, []int{2}, nil, nil, []string{"m"}},
		{[]int{0, 1}, nil, []int{0, 1}, nil, []string{"m"}},
	} {
		next, before := ring(c.next...), ring(c.before...)
		next.WithholdModels(c.models, before)
		for _, e := range before.byHash {
			tiers := next.KeyTiers(e.key)
			for tier := range 3 {
				internal, external := slices.Contains(c.internal, tier), slices.Contains(c.external, tier)
				if tiers.Allows(tier, false) != internal || tiers.Allows(tier, true) != external {
					t.Errorf("%v, then %v: tier %d: internal %v, external %v; want %v, %v", c.before, c.next, tier,
						tiers.Allows(tier, false), tiers.Allows(tier, true), internal, external)
				}
			}
		}
	}
}
