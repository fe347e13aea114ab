package snapshot

import (
	"fmt"
	"testing"
	"time"

	"penstock/config"
	"penstock/proxy/access/auth/jwks"
	"penstock/proxy/access/limit"
)

// TestForRunningModelsReusesRing checks that no second ring is built if a file changes keys but no
// models. With 20,000 keys, building a second ring took a noticeable part of each reload's time.
func TestForRunningModelsReusesRing(t *testing.T) {
	file := func(key, served string) *config.File {
		f, err := config.Parse("penstock.yaml", fmt.Appendf(nil, `
keys: [{ id: team, hash: "sha256:%064s" }]
upstreams: [{ name: up, url: "http://127.0.0.1:1", engine: vllm }]
models: [{ id: m, deployments: [{ upstream: up, served: %s }] }]
`, key, served))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	o := &ClientCredentialSources{Limits: limit.NewKeyUsages(16, time.Now()), Issued: jwks.New(jwks.Options{})}
	shared := new(StoreKeys)
	credentials := func(f *config.File) Credentials {
		c, err := NewCredentials(f, shared, o)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	running := file("1", "one")
	s := &Snapshot{Config: running, Credentials: credentials(running)}
	for name, c := range map[string]struct {
		next *config.File
		same bool
	}{
		"another key":                  {file("2", "one"), true},
		"another key and other models": {file("2", "two"), false},
	} {
		of := credentials(c.next)
		ahead, err := of.ForRunningModels(s, c.next, shared, o)
		if err != nil || !ahead.Ahead || (ahead.Keys == of.Keys) != c.same {
			t.Errorf("%s: error %v, ahead %v, the same ring %v", name, err, ahead.Ahead, ahead.Keys == of.Keys)
		}
	}
}
