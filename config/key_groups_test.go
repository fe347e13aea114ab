package config

import (
	"strings"
	"testing"
)

// TestKeyGroups checks that a group that has no effect causes a warning, and that a group whose
// usage cannot be counted causes an error.
func TestKeyGroups(t *testing.T) {
	const rest = "keys: [{ id: a, hash: \"" + hashA + "\", group: g }, { id: t, group: g }]\n" +
		"issuers: [{ issuer: \"https://id.example\", name: corp, audience: edge, jwks: \"https://id.example/keys\", claims: { templates: [{ key: t }] } }]\n" +
		"upstreams: [{ name: u, url: \"http://10.0.0.1:1\" }]\nmodels: [{ id: m, deployments: [{ upstream: u }] }]\n"
	for groups, want := range map[string]string{
		"{ id: g, limits: { concurrency: 1 } }":    "",
		"{ id: g, limits: { tokens_per_day: 1 } }": "for each alone: take this key out of the group",
		"{ id: g }": "the group has no limits",
		"{ id: g, limits: { concurrency: 1 } }, { id: h, limits: { concurrency: 1 } }": `write group: "h" beside the keys`,
		"{ id: g, limits: { concurrency: 1 } }, { id: g, limits: { concurrency: 1 } }": `the group id "g" is used twice`,
		"{ id: g, limits: { requests_per_minute: -1 } }":                               "-1 is negative",
	} {
		_, problems := ParseValid("groups", []byte("groups: ["+groups+"]\n"+rest), KnownProfiles{Engines: []string{EngineAuto}})
		if said := problems.Error(); !strings.Contains(said, want) || want == "" && strings.Contains(said, "group") {
			t.Errorf("%s\n%v, want %s", groups, said, want)
		}
	}
}
