package jwt

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func claims(t *testing.T, text string) Claims {
	t.Helper()
	i := newIssuer(t)
	c, err := i.verify(signed(t, `{"alg":"EdDSA","kid":"ed"}`, text, i.ed))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClaims(t *testing.T) {
	c := claims(t, `{"sub":"alice","n":5,"groups":["a","b",7],"scope":"read write",
		"realm_access":{"roles":["ml"]},"kubernetes.io":{"serviceaccount":{"name":"bot"}},"https://x.test/role":"r","a":{"b":1},"a.b":"whole"}`)
	for name, want := range map[string]string{
		"sub": "alice", "n": "", "absent": "", "kubernetes.io.serviceaccount.name": "bot", "https://x.test/role": "r", "a.b": "whole",
		"sub.x": "", "": "", ".": "", "realm_access": "",
	} {
		if got := c.StringValue(name); got != want {
			t.Errorf("StringValue(%q) = %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"groups": "[a b]", "scope": "[read write]", "realm_access.roles": "[ml]", "sub": "[alice]", "n": "[]", "realm_access": "[]",
	} {
		if got := fmt.Sprint(c.stringValues(name)); got != want {
			t.Errorf("stringValues(%q) = %s, want %s", name, got, want)
		}
	}
}

// TestClaimsOfProviders checks the formats that providers use for roles and groups: names with
// dots, colons and slashes, nested claims, and objects whose member names are the roles.
func TestClaimsOfProviders(t *testing.T) {
	c := claims(t, `{
		"resource_access": {"penstock": {"roles": ["user"]}, "my.client": {"roles": ["ml"]}, "none": {}},
		"urn:zitadel:iam:org:project:roles": {"admin": {"1": "house.test"}, "ml.ops": {"1": "house.test", "2": "b.test"}},
		"https://house.test/roles": ["auth0"], "https://house.test/app.x": {"roles": {"inner": {"o": "d"}}},
		"odd": {"yes": true, "no": false, "null": null, "zero": 0, "one": 1, "text": "x", "empty": {}, "list": ["x"], "": true}}`)
	for name, want := range map[string]string{
		"resource_access.penstock.roles":            "[user]",
		"resource_access.my.client.roles":           "[ml]",
		"resource_access":                           "[my.client penstock]",
		"urn:zitadel:iam:org:project:roles":         "[admin ml.ops]",
		"https://house.test/roles":                  "[auth0]",
		"https://house.test/app.x.roles":            "[inner]",
		"urn:zitadel:iam:org:project:roles.admin.1": "[house.test]",
		"odd": "[ yes]",
	} {
		got := c.stringValues(name)
		slices.Sort(got)
		if fmt.Sprint(got) != want {
			t.Errorf("stringValues(%q) = %v, want %s", name, got, want)
		}
	}
}

// TestClaimsInDepth checks that looking up a long name in a deeply nested token takes time
// proportional to the length of the token. Trying all paths would take forever.
func TestClaimsInDepth(t *testing.T) {
	const deep = 1000
	c := claims(t, strings.Repeat(`{"a":`, deep)+`"end"`+strings.Repeat("}", deep))
	if got := c.StringValue(strings.TrimSuffix(strings.Repeat("a.", deep), ".")); got != "end" {
		t.Errorf("%d objects deep: %q", deep, got)
	}
	if c.StringValue(strings.Repeat("a.", deep)+"b") != "" {
		t.Error("a name that leads nowhere has a text")
	}
}
