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
	s.AdoptAppeared("", now.Add(-UnsignedGrace))
	good := s.Sign(Member, "a", said{"a", 5})
	other := func(prefix, secret string) string {
		return New(prefix, []string{secret}).Sign(Member, "a", said{"a", 5})
	}
	for what, c := range map[string]struct {
		kind, name, text string
		want             bool
	}{
		"as it was said":                 {Member, "a", good, true},
		"signed by the old secret":       {Member, "a", other("ps", "the old secret"), true},
		"of another edge":                {Member, "b", good, false},
		"of another kind":                {Mode, "a", good, false},
		"with another expiry":            {Member, "a", strings.Replace(good, `"expires":5`, `"expires":6`, 1), false},
		"with another value":             {Member, "a", strings.Replace(good, `"id":"a"`, `"id":"b"`, 1), false},
		"of another fleet":               {Member, "a", other("qs", "the new secret"), false},
		"signed by another":              {Member, "a", other("ps", "another secret"), false},
		"with a shorter signature":       {Member, "a", good[:len(good)-4] + `"}`, false},
		"with more behind the signature": {Member, "a", good + " ", false},
		"with a second signature":        {Member, "a", strings.TrimSuffix(good, "}") + good[len(good)-macLength:], false},
		"without a signature":            {Member, "a", `{"id":"a","expires":5}`, false},
		"nothing":                        {Member, "a", "", false},
	} {
		if got := s.IsAccepted(c.kind, c.name, c.text, now); got != c.want {
			t.Errorf("Counts of a text %s = %v, want %v", what, got, c.want)
		}
	}
	if !(*Signer)(nil).IsAccepted(Member, "a", "{}", now) || (*Signer)(nil).Sign(Member, "a", said{"a", 5}) != `{"id":"a","expires":5}` {
		t.Error("without secrets something is signed")
	}
}

// TestGrace checks that unsigned texts remain valid until a day after the fleet's first secret
// appeared, even if edges restart and no matter what the store contains. Texts with a wrong
// signature must never be valid.
func TestGrace(t *testing.T) {
	began := time.Unix(1e9, 0)
	secrets := []string{"the secret"}
	unsigned, wrong := `{"id":"a"}`, New("ps", []string{"another"}).Sign(Member, "a", said{"a", 5})
	first := New("ps", secrets)
	if first.IsAccepted(Member, "a", unsigned, began) {
		t.Error("it counts before the store was asked")
	}
	stored := first.AdoptAppeared("", began)
	if stored == "" || first.AdoptAppeared(stored, began) != "" {
		t.Error("the store is not told once")
	}
	later := began.Add(23 * time.Hour)
	second := New("ps", secrets)
	if second.AdoptAppeared(stored, later) != "" || !second.IsAccepted(Member, "a", unsigned, later) || second.IsAccepted(Member, "a", wrong, later) {
		t.Error("within the day")
	}
	later = began.Add(25 * time.Hour)
	if second.IsAccepted(Member, "a", unsigned, later) {
		t.Error("after the day")
	}
	turned := New("ps", []string{"the new secret", "the secret"})
	if anew := turned.AdoptAppeared(stored, later); anew != New("ps", []string{"the new secret"}).Sign(Since, "", appearedRecord{began.Unix()}) {
		t.Errorf("with a new secret the store gets %q", anew)
	}
	forged := New("ps", []string{"another"}).Sign(Since, "", appearedRecord{later.Unix()})
	for _, text := range []string{"", forged, New("ps", secrets).Sign(Since, "", appearedRecord{later.Unix()})} {
		if second.AdoptAppeared(text, later) != stored || second.IsAccepted(Member, "a", unsigned, later) {
			t.Errorf("%q opens it again", text)
		}
	}
}
