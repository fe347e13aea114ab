package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestExpiringKeys checks that a key that has expired or will expire within a week causes a
// warning. The expiry of its last hash causes the same warning. A key that has another valid hash
// causes no warning.
func TestExpiringKeys(t *testing.T) {
	at := func(days int) string {
		return time.Now().Add(time.Duration(days)*24*time.Hour + time.Hour).Format(time.RFC3339)
	}
	hash := func(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }
	for i, c := range []struct{ key, want string }{
		{fmt.Sprintf("hash: %q, expires: %s", hash("a"), at(3)), "the key team ends on "},
		{fmt.Sprintf("hash: %q, expires: %s", hash("a"), at(3)), "in 3 days"},
		{fmt.Sprintf("hash: %q, expires: %s", hash("a"), at(30)), ""},
		{fmt.Sprintf("hash: [{ hash: %q, expires: %s }]", hash("a"), at(1)), "in 1 day:"},
		{fmt.Sprintf("hash: [{ hash: %q, expires: %s }, %q]", hash("a"), at(1), hash("b")), ""},
		{fmt.Sprintf("hash: [{ hash: %q, expires: %s }, { hash: %q, expires: %s }]", hash("a"), at(1), hash("b"), at(40)), ""},
		{fmt.Sprintf("active: false, hash: %q, expires: %s", hash("a"), at(3)), ""},
		{fmt.Sprintf("hash: %q, expires: %s", hash("a"), at(-3)), "the key team expired on "},
	} {
		text := "keys:\n  - { id: team, " + c.key + " }\n  - { id: other, hash: \"" + hash("c") + "\" }\nupstreams: [{ name: up, url: \"http://127.0.0.1:1\" }]\nmodels: [{ id: m, deployments: [{ upstream: up }] }]\n"
		f, problems := ParseValid("edge.yaml", []byte(text), KnownProfiles{Engines: []string{"auto"}})
		if f == nil {
			t.Fatal(problems)
		}
		said := ""
		for _, p := range problems.Warnings() {
			said += p.String()
		}
		if !strings.Contains(said, c.want) || c.want == "" && strings.Contains(said, "ends on") {
			t.Errorf("%d: %q, want %q", i, said, c.want)
		}
	}
}

// TestHookWithUnknownKey checks that a hook for a key that is not in the file causes a warning,
// even though keys can be made at run time.
func TestHookWithUnknownKey(t *testing.T) {
	text := `admin: { token: 0123456789abcdef0123, keys: { file: keys.json } }
keys: [{ id: team-a, hash: "sha256:` + strings.Repeat("a", 64) + `" }]
hooks: [{ name: guard, before: "http://127.0.0.1:9/", keys: [team-aa] }]
upstreams: [{ name: up, url: "http://127.0.0.1:1" }]
models: [{ id: m, deployments: [{ upstream: up }] }]
`
	f, problems := ParseValid("edge.yaml", []byte(text), KnownProfiles{Engines: []string{"auto"}})
	if f == nil {
		t.Fatal(problems)
	}
	said := ""
	for _, p := range problems.Warnings() {
		said += p.String()
	}
	if !strings.Contains(said, "no key of the file matches") || !strings.Contains(said, `did you mean "team-a"?`) {
		t.Errorf("%q", said)
	}
}
