package sign

import (
	"strings"
	"testing"
	"time"
)

type said struct {
	ID      string `json:"id"`
	Expires int64  `json:"expires"`
}

// TestCounts checks that a text signed by an edge of the fleet is valid only with its kind and
// name, and becomes invalid if it is changed without the secret.
func TestCounts(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := New("ps", []string{"the new secret", "the old secret"})
	s.AdoptSecretSince("", now.Add(-UnsignedGracePeriod))
	good := s.Sign(KindMember, "a", said{"a", 5})
	other := func(prefix, secret string) string {
		return New(prefix, []string{secret}).Sign(KindMember, "a", said{"a", 5})
	}
	for what, c := range map[string]struct {
		kind, name, text string
		want             bool
	}{
		"as it was said":                 {KindMember, "a", good, true},
		"signed by the old secret":       {KindMember, "a", other("ps", "the old secret"), true},
		"of another edge":                {KindMember, "b", good, false},
		"of another kind":                {KindMode, "a", good, false},
		"with another expiry":            {KindMember, "a", strings.Replace(good, `"expires":5`, `"expires":6`, 1), false},
		"with another value":             {KindMember, "a", strings.Replace(good, `"id":"a"`, `"id":"b"`, 1), false},
		"of another fleet":               {KindMember, "a", other("qs", "the new secret"), false},
		"signed by another":              {KindMember, "a", other("ps", "another secret"), false},
		"with a shorter signature":       {KindMember, "a", good[:len(good)-4] + `"}`, false},
		"with more behind the signature": {KindMember, "a", good + " ", false},
		"with a second signature":        {KindMember, "a", strings.TrimSuffix(good, "}") + good[len(good)-macMemberLength:], false},
		"without a signature":            {KindMember, "a", `{"id":"a","expires":5}`, false},
		"nothing":                        {KindMember, "a", "", false},
	} {
		if got := s.IsAccepted(c.kind, c.name, c.text, now); got != c.want {
			t.Errorf("Counts of a text %s = %v, want %v", what, got, c.want)
		}
	}
	if !(*Signer)(nil).IsAccepted(KindMember, "a", "{}", now) || (*Signer)(nil).Sign(KindMember, "a", said{"a", 5}) != `{"id":"a","expires":5}` {
		t.Error("without secrets something is signed")
	}
}

// TestGrace checks that unsigned texts remain valid until a day after the fleet's first secret
// appeared, even if edges restart and no matter what the store contains. Texts with a wrong
// signature must never be valid.
func TestGrace(t *testing.T) {
	began := time.Unix(1e9, 0)
	secrets := []string{"the secret"}
	unsigned, wrong := `{"id":"a"}`, New("ps", []string{"another"}).Sign(KindMember, "a", said{"a", 5})
	first := New("ps", secrets)
	if first.IsAccepted(KindMember, "a", unsigned, began) {
		t.Error("it counts before the store was asked")
	}
	stored := first.AdoptSecretSince("", began)
	if stored == "" || first.AdoptSecretSince(stored, began) != "" {
		t.Error("the store is not told once")
	}
	later := began.Add(23 * time.Hour)
	second := New("ps", secrets)
	if second.AdoptSecretSince(stored, later) != "" || !second.IsAccepted(KindMember, "a", unsigned, later) || second.IsAccepted(KindMember, "a", wrong, later) {
		t.Error("within the day")
	}
	later = began.Add(25 * time.Hour)
	if second.IsAccepted(KindMember, "a", unsigned, later) {
		t.Error("after the day")
	}
	turned := New("ps", []string{"the new secret", "the secret"})
	if anew := turned.AdoptSecretSince(stored, later); anew != New("ps", []string{"the new secret"}).Sign(KindSince, "", secretSinceRecord{began.Unix()}) {
		t.Errorf("with a new secret the store gets %q", anew)
	}
	forged := New("ps", []string{"another"}).Sign(KindSince, "", secretSinceRecord{later.Unix()})
	for _, text := range []string{"", forged, New("ps", secrets).Sign(KindSince, "", secretSinceRecord{later.Unix()})} {
		if second.AdoptSecretSince(text, later) != stored || second.IsAccepted(KindMember, "a", unsigned, later) {
			t.Errorf("%q opens it again", text)
		}
	}
}
