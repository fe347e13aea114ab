package runkeys

import (
	"errors"
	"strings"
	"testing"
	"time"

	"penstock/config"
)

var hashA, hashB = config.HashPrefix + strings.Repeat("a", 64), config.HashPrefix + strings.Repeat("b", 64)

// TestNew checks that the rules for a keys_file apply to an operator's request, and that the error
// names the member.
func TestNew(t *testing.T) {
	// If field is "-", the body is valid.
	for _, row := range []struct{ body, field, message string }{
		{`{"id":"a"}`, "-", ""},
		{` { "id" : "a", "models": ["llama-*"], "limits": { "requests_per_minute": 5, "spend_per_day": "1.50" },
			"class": "gold", "weight": 2, "active": false, "expires": "2031-01-01", "tiers": [0, 1], "cache_group": null }`, "-", ""},
		{``, "", "the body is a JSON object"},
		{`null`, "", "the body is a JSON object"},
		{`[]`, "", "the body is a JSON object"},
		{`{"id":"a"} {}`, "", "the body is a JSON object"},
		{`{"id":"a",}`, "", "the body is a JSON object"},
		{`{}`, "id", "needs an id"},
		{`{"id":""}`, "id", "needs an id"},
		{`{"id":null}`, "id", "needs an id"},
		{`{"id":"a b"}`, "id", "blanks"},
		{`{"id":"a\nb"}`, "id", "control characters"},
		{`{"id":"${HOME}"}`, "", "no $"},
		{`{"id":"\u0024{HOME}"}`, "", "no $"},
		{`{"id":7.5}`, "-", ""},
		{`{"id":["a"]}`, "id", ""},
		{`{"id":"a","id":"b"}`, "id", ""},
		{`{"id":"a","hash":"sha256:00"}`, "hash", "leave it out"},
		{`{"id":"a","certificate":{"san":"x"}}`, "certificate", "leave it out"},
		{`{"id":"a","limit":{}}`, "limit", "limits"},
		{`{"id":"a","limits":{"request_per_minute":5}}`, "limits.request_per_minute", "requests_per_minute"},
		{`{"id":"a","limits":{"requests_per_minute":-1}}`, "limits.requests_per_minute", ""},
		{`{"id":"a","limits":{"requests_per_minute":1e99}}`, "limits.requests_per_minute", ""},
		{`{"id":"a","limits":{"requests_per_minute":"many"}}`, "limits.requests_per_minute", ""},
		{`{"id":"a","limits":[]}`, "limits", ""},
		{`{"id":"a","models":[]}`, "models", ""},
		{`{"id":"a","models":"llama"}`, "models", ""},
		{`{"id":"a","operations":["chats"]}`, "operations[0]", ""},
		{`{"id":"a","weight":0}`, "weight", ""},
		{`{"id":"a","weight":5000}`, "weight", ""},
		{`{"id":"a","active":"perhaps"}`, "active", ""},
		{`{"id":"a","expires":"tomorrow"}`, "expires", ""},
		{`{"id":"a","class":7}`, "class", ""},
		{`{"id":"a","tiers":[99]}`, "tiers[0]", ""},
		{`{"id":"a","x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, "", ""},
	} {
		entry, err := NewEntry([]byte(row.body), hashA)
		var bad *RequestMistakeError
		switch {
		case row.field == "-" && err != nil:
			t.Errorf("entry of %s: %v, want no error", row.body, err)
		case row.field == "-":
			if key, err := config.ParseKeyEntry(entry); err != nil || len(key.Hash) != 1 || key.Hash[0].Hash != hashA || strings.Contains(entry, "null") {
				t.Errorf("entry of %s = %s, %v; want a key with one hash and no null", row.body, entry, err)
			}
		case !errors.As(err, &bad):
			t.Errorf("%s: %v, want a mistake in %s", row.body, err, row.field)
		case bad.Field != row.field || !strings.Contains(bad.Message, row.message) || strings.Contains(err.Error(), "sha256:0"):
			t.Errorf("%s: %q, %q, want %q, %q", row.body, bad.Field, bad.Message, row.field, row.message)
		}
	}
}

// TestChange checks that each member of a patch replaces the member in the entry, that limits are
// replaced individually, and that null removes a member.
func TestChange(t *testing.T) {
	const head = `{"id":"a","hash":"sha256:`
	entry := head + strings.Repeat("a", 64) + `","limits":{"concurrency":2,"requests_per_minute":5},"models":["x"]}`
	for _, row := range []struct{ patch, want, field string }{
		{`{}`, `,"limits":{"concurrency":2,"requests_per_minute":5},"models":["x"]}`, ""},
		{`{"limits":{"requests_per_minute":9}}`, `,"limits":{"concurrency":2,"requests_per_minute":9},"models":["x"]}`, ""},
		{`{"limits":{"concurrency":null,"tokens_per_day":7}}`, `,"limits":{"requests_per_minute":5,"tokens_per_day":7},"models":["x"]}`, ""},
		{`{"limits":null,"models":null}`, `}`, ""},
		{`{"active":false,"models":["y","z"]}`, `,"active":false,"limits":{"concurrency":2,"requests_per_minute":5},"models":["y","z"]}`, ""},
		{`{"id":"b"}`, "", "id"},
		{`{"hash":"x"}`, "", "hash"},
		{`{"limits":7}`, "", "limits"},
		{`{"limits":{"concurrency":-2}}`, "", "limits.concurrency"},
		{`{"colour":"red"}`, "", "colour"},
		{`no`, "", ""},
	} {
		got, err := ChangeEntry(entry, []byte(row.patch))
		var bad *RequestMistakeError
		switch {
		case row.want != "" && (err != nil || got != head+strings.Repeat("a", 64)+`"`+row.want):
			t.Errorf("patch %s = %s, %v; want it to end in %s", row.patch, got, err, row.want)
		case row.want == "" && (!errors.As(err, &bad) || bad.Field != row.field):
			t.Errorf("%s: %v, want a mistake in %q", row.patch, err, row.field)
		}
	}
}

// TestRotate checks that the new hash is added to the old hashes. An old hash must expire at the
// end of the overlap, or earlier if it already had an earlier expiry.
func TestRotate(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	entry, err := NewEntry([]byte(`{"id":"a"}`), hashA)
	if err != nil {
		t.Fatal(err)
	}
	once, err := RotateEntry(entry, hashB, now.Add(time.Hour), now)
	if err != nil {
		t.Fatal(err)
	}
	ends := func(entry string) (out []string) {
		key, err := config.ParseKeyEntry(entry)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range key.Hash {
			text := "never"
			if !h.Expires.IsZero() {
				text = h.Expires.Sub(now).String()
			}
			out = append(out, h.Hash[7:8]+" "+text)
		}
		return out
	}
	check := func(entry string, err error, want string) {
		t.Helper()
		if got := strings.Join(ends(entry), ", "); err != nil || got != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	hashC := config.HashPrefix + strings.Repeat("c", 64)
	check(once, nil, "b never, a 1h0m0s")
	twice, err := RotateEntry(once, hashC, now.Add(2*time.Hour), now)
	check(twice, err, "c never, b 2h0m0s, a 1h0m0s")
	later, err := RotateEntry(twice, hashA, now.Add(3*time.Hour), now.Add(90*time.Minute))
	check(later, err, "a never, c 3h0m0s, b 2h0m0s")
	atOnce, err := RotateEntry(twice, hashA, now, now)
	check(atOnce, err, "a never")
}
