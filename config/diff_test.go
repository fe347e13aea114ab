package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	const before = `
keys:
  - { id: a, hash: "` + hashA + `" }
  - { id: b, hash: "` + hashB + `" }
upstreams:
  - { name: gpu-a, url: "http://h:1", api_key: old }
  - { name: gpu-b, url: "http://h:2", concurrency: 4 }
models:
  - { id: m, deployments: [{ upstream: gpu-a }] }
`
	for _, row := range []struct{ name, old, next, want string }{
		{"nothing", "", "", ""},
		{"a default written out", "gpu-a,", "gpu-a, weight: 1, engine: auto,", ""},
		{"another order", `  - { name: gpu-a, url: "http://h:1", api_key: old }
  - { name: gpu-b, url: "http://h:2", concurrency: 4 }`, `  - { name: gpu-b, url: "http://h:2", concurrency: 4 }
  - { name: gpu-a, url: "http://h:1", api_key: old }`, ""},
		{"served written out", "upstream: gpu-a }", "upstream: gpu-a, served: m }", ""},
		{"weight", "gpu-a,", "gpu-a, weight: 2,", "changed upstreams[gpu-a].weight"},
		{"secret", "api_key: old", "api_key: new", "changed upstreams[gpu-a].api_key"},
		{"url", "http://h:2", "http://h:3", "changed upstreams[gpu-b].url"},
		{"pools", "concurrency: 4", "concurrency: { text: 4 }", "changed upstreams[gpu-b].concurrency"},
		{"probe", "gpu-a,", "gpu-a, probe: { fall: 9 },", "changed upstreams[gpu-a].probe.fall"},
		{"key gone", `  - { id: b, hash: "` + hashB + `" }` + "\n", "", "removed keys[b]"},
		{"key switched off", "id: b,", "id: b, active: false,", "changed keys[b].active"},
		{"renamed", "name: gpu-b", "name: gpu-c", "removed upstreams[gpu-b]; added upstreams[gpu-c]"},
		{"alias", "id: m,", "id: m, aliases: [x],", "added models[m].aliases"},
		{"deployment", "gpu-a }]", "gpu-a }, { upstream: gpu-b }]", "changed models[m].deployments"},
		{"model's clock", "id: m,", "id: m, timeouts: { idle: 5s },", "added models[m].timeouts.idle"},
		{"vision", "id: m,", "id: m, vision: { max_pixels: 5 },", "added models[m].vision"},
		{"engine", "\nkeys", "\nengines: [{ name: mine }]\nkeys", "added engines[mine]"},
		{
			"listeners", "\nkeys", "\nlisten: 127.0.0.1:5000\nadmin: { listen: 127.0.0.1:5001, token: t }\nkeys",
			"changed admin.listen (takes effect after a restart); added admin.token; changed listen (takes effect after a restart)",
		},
		{"clocks", "\nkeys", "\ntimeouts: { idle: 5s, client_idle: 5s }\nkeys", "changed timeouts.client_idle (takes effect after a restart); changed timeouts.idle"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if !strings.Contains(before, row.old) {
				t.Fatal("nothing to replace")
			}
			old, next := mustParse(t, before), mustParse(t, strings.Replace(before, row.old, row.next, 1))
			if got := formatChanges(Diff(old, next)); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

// TestDiffOfCertificates checks that enabling or disabling TLS needs a restart, but a new
// certificate does not.
func TestDiffOfCertificates(t *testing.T) {
	none, one, two := Defaults(), Defaults(), Defaults()
	one.TLS.Cert, one.TLS.Key, two.TLS.Cert, two.TLS.Key = "a", "k", "b", "k"
	if got, want := formatChanges(Diff(none, one)), "added tls.cert (takes effect after a restart); added tls.key (takes effect after a restart)"; got != want {
		t.Errorf("TLS switched on: Diff = %q, want %q", got, want)
	}
	if got, want := formatChanges(Diff(one, two)), "changed tls.cert"; got != want {
		t.Errorf("another pair: Diff = %q, want %q", got, want)
	}
}

// TestDiffOfCertificateContents checks that new contents of a certificate file count as a change.
func TestDiffOfCertificateContents(t *testing.T) {
	dir := t.TempDir()
	load := func() *File {
		path := filepath.Join(dir, "edge.yaml")
		text := "tls: { cert: a.pem, key: a.key }\nauth: none\nupstreams: [{ name: up, url: \"https://127.0.0.1:1\", tls: { ca: ca.pem } }]\nmodels: [{ id: m, deployments: [{ upstream: up }] }]\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	writePair(t, dir, "a")
	writePair(t, dir, "ca")
	one := load()
	if two := load(); !one.Same(two) || formatChanges(Diff(one, two)) != "" {
		t.Errorf("the same files: %s", formatChanges(Diff(one, two)))
	}
	writePair(t, dir, "a")
	writePair(t, dir, "ca")
	two := load()
	if got, want := formatChanges(Diff(one, two)), "changed tls.cert; changed tls.key; changed upstreams[up].tls.ca"; got != want || one.Same(two) {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestRestartOnly compares the table of settings that need a restart with Diff, KeepRestartOnly and
// README.md.
func TestRestartOnly(t *testing.T) {
	old, next := Defaults(), mustParse(t, `
listen: 1.2.3.4:1
admin: { listen: 1.2.3.4:2, keys: { file: made.yaml } }
log: { format: console }
tracing: { otlp: "http://h:4318" }
limits: { header: 1KiB }
timeouts: { client_header: 1s, client_idle: 1s }
fleet: { lost: open, store: { url: "redis://h" }, keys: { secrets: [0123456789abcdef0123456789abcdef] }, secrets: [0123456789abcdef0123456789abcdef] }
ledger: usage.ledger
`)
	next.TLS.ACME = ACME{Email: "a@b", Directory: "https://h", Folder: "f", HTTP: ":80", CA: "ca.pem", EAB: ACMEEAB{KID: "k"}}
	got := Diff(old, next)
	if len(got) != len(restartOnly) {
		t.Errorf("%d changes, %d in the table: %v", len(got), len(restartOnly), got)
	}
	for _, c := range got {
		if !c.RestartOnly {
			t.Errorf("Diff = %s, want a change that needs a restart", c)
		}
	}
	next.TLS = TLS{Cert: "a", Key: "k"}
	next.Limits.Connections = 7
	next.KeepRestartOnly(old)
	if got, want := formatChanges(Diff(old, next)), "changed limits.connections"; got != want {
		t.Errorf("left after KeepRestartOnly: %q, want %q", got, want)
	}
	old.TLS, next.TLS = TLS{Cert: "a", Key: "k"}, TLS{Cert: "b", Key: "k"}
	if next.KeepRestartOnly(old); next.TLS.Cert != "b" {
		t.Error("another certificate was held back")
	}
	managed := TLS{ACME: ACME{Domains: []string{"a.test"}, Email: "a@b"}}
	old.TLS, next.TLS = TLS{Cert: "a", Key: "k"}, managed
	if next.KeepRestartOnly(old); next.TLS.Cert != "a" || next.TLS.ACME.Enabled() {
		t.Error("certificates of another source need no restart")
	}
	old.TLS, next.TLS = managed, TLS{ACME: ACME{Domains: []string{"b.test"}, Email: "c@d"}}
	if next.KeepRestartOnly(old); next.TLS.ACME.Domains[0] != "b.test" || next.TLS.ACME.Email != "a@b" {
		t.Errorf("domains change without a restart, the account does not: %+v", next.TLS.ACME)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(readme), "needs a restart is reported and not applied:")
	list, _, end := strings.Cut(list, ". ")
	if !ok || !end {
		t.Fatal("the README has no list of settings that need a restart")
	}
	for i, word := range strings.Split(list, "`") {
		if i%2 == 1 && !slices.Contains(restartOnly, word) {
			t.Errorf("the README lists %s, the table does not", word)
		}
	}
	for _, path := range restartOnly {
		if !strings.Contains(list, "`"+path+"`") {
			t.Errorf("the README does not list %s", path)
		}
	}
}

func formatChanges(cs []ChangedSetting) string {
	texts := make([]string, len(cs))
	for i, c := range cs {
		texts[i] = fmt.Sprint(c)
	}
	return strings.Join(texts, "; ")
}

// TestWithKeys checks that WithAccessSettings adopts a change if and only if IsAccessChange returns true for it,
// and that the files of both configurations are watched.
func TestWithKeys(t *testing.T) {
	parse := func(name, text string) *File {
		f, err := Parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	rest := `
upstreams: [{ name: a, url: "http://h:1" }]
models: [{ id: m, deployments: [{ upstream: a }] }]
`
	old := parse("old.yaml", "keys: [{ id: a, hash: \""+hashA+"\" }]"+rest)
	next := parse("next.yaml", `
on_revoke: abort
admin: { token: other }
groups: [{ id: g, limits: { concurrency: 5 } }]
keys: [{ id: a, hash: "`+hashB+`", group: g, limits: { concurrency: 3 } }, { id: b, hash: "`+hashA+`" }]
log: { level: debug }
`+strings.Replace(rest, "http://h:1", "http://h:2", 1))
	mixed := old.WithAccessSettings(next)
	for _, c := range Diff(old, next) {
		in := slices.ContainsFunc(Diff(old, mixed), func(d ChangedSetting) bool { return d == c })
		if in != c.IsAccessChange() {
			t.Errorf("%s: of keys %v, taken over %v", c, c.IsAccessChange(), in)
		}
	}
	if got, want := formatChanges(Diff(old, mixed)), 7; strings.Count(got, ";")+1 != want {
		t.Errorf("taken over: %s", got)
	}
	if got := formatChanges(Diff(mixed, next)); strings.Contains(got, "keys") || strings.Contains(got, "token") || !strings.Contains(got, "log.level") {
		t.Errorf("Diff after WithAccessSettings = %q, want log.level and neither keys nor token", got)
	}
	open := parse("open.yaml", "auth: none"+rest)
	if m := old.WithAccessSettings(open); m.Auth != AuthNone || len(m.Keys) != 0 || formatChanges(Diff(m, open)) != "" {
		t.Errorf("without keys: %+v", m)
	}
	for _, path := range append(old.ReferencedFiles(), next.ReferencedFiles()...) {
		if !slices.Contains(mixed.ReferencedFiles(), path) {
			t.Errorf("%s is not watched", path)
		}
	}
}
