package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	hashA = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	hashB = "sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"
)

const minimalConfig = `
keys: [{ id: a, hash: "` + hashA + `" }]
upstreams: [{ name: gpu, url: "http://127.0.0.1:8000" }]
models: [{ id: llama, deployments: [{ upstream: gpu }] }]
`

func mustParse(t *testing.T, src string) *File {
	t.Helper()
	f, err := Parse("config.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestDefaultsOfAFile(t *testing.T) {
	f := mustParse(t, minimalConfig)
	want := Defaults()
	want.Keys, want.Upstreams, want.Models = f.Keys, f.Upstreams, f.Models
	f.origin = nil
	if !reflect.DeepEqual(f, want) {
		t.Errorf("got  %+v\nwant %+v", f, want)
	}
	if k := f.Keys[0]; !k.Enabled() || !slices.Equal(k.Models, []string{"*"}) || !slices.Equal(k.Operations, Operations()) || !k.Expires.IsZero() {
		t.Errorf("key: got %+v, want the defaults", k)
	}
	u := f.Upstreams[0]
	if u.Engine != "auto" || u.Weight != 1 || u.Concurrency.IsSet() || u.Probe != (Probe{Interval: Duration(2 * time.Second), Fall: 3, Rise: 2}) {
		t.Errorf("upstream: got %+v, want the defaults", u)
	}
	m := f.Models[0]
	if m.Kind != ModelKindChat || m.Policy != PolicyLeastLoaded || m.Deployments[0].Served != "llama" || m.SupportedReasoningEfforts != nil {
		t.Errorf("model: got %+v, want the defaults", m)
	}
	if !slices.Contains(m.Endpoints(), "/v1/messages") {
		t.Errorf("Endpoints = %v, want /v1/messages among them", m.Endpoints())
	}
}

// TestDefaultsKeepTheAgreedNumbers checks that the defaults equal those in the documentation.
func TestDefaultsKeepTheAgreedNumbers(t *testing.T) {
	f := Defaults()
	got := fmt.Sprintln(f.Listen, f.Admin.Listen, f.Log, f.Limits, f.Timeouts, f.Stream, f.Retry, f.OnRevoke)
	want := "127.0.0.1:4000 127.0.0.1:9090 {info json true false false false} {32MiB 100MiB 64KiB 25% 15% 20000 0 16KiB}" +
		" {2s 0s 10m0s 0s 0s 10s 30s 1m15s 30s 5s 1m0s} {10s 15s 0s} {2 20%} end"
	if got != want+"\n" {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestValues(t *testing.T) {
	f := mustParse(t, `
listen: 0.0.0.0:4000
limits: { request_body: 1.5MiB, header: 16384, body_memory: 12.5%, reply_memory: 5% }
timeouts: { total: 0, idle: 1m30s }
keys:
  - id: a
    hash: { hash: "`+strings.ToUpper(hashA[7:])+`" }
  - id: b
    hash: [{ hash: "`+hashA+`", expires: 2027-03-01 }, "`+strings.Replace(hashB, "sha256:", "SHA256:", 1)+`"]
    expires: 2027-01-01T12:00:00+02:00
    active: false
    models: [llama*, x]
    operations: []
upstreams:
  - { name: a, url: "http://h:1/", concurrency: 16 }
  - { name: b, url: "http://h:2", concurrency: { text: 32, vision: 4 }, weight: 0.5 }
models:
  - id: m
    timeouts: { idle: 5s, total: 0s }
    deployments: [{ upstream: a, served: x }, { upstream: b }]
    vision: { max_pixels: 4_194_304 }
    pricing: { input: "0.10", tiers: [1, 2.5, { deep: true }] }
    supported_reasoning_efforts: []
`)
	check := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v, want %#v", what, got, want)
		}
	}
	check("request_body", f.Limits.RequestBody, Bytes(3<<19))
	check("header", f.Limits.Header, Bytes(16384))
	check("upload_body", f.Limits.UploadBody, Bytes(100<<20))
	check("body_memory", f.Limits.BodyMemory.Of(1000), int64(125))
	check("reply_memory", f.Limits.ReplyMemory.Of(1000), int64(50))
	check("idle", f.Timeouts.Idle.D(), 90*time.Second)
	check("total", f.Timeouts.Total, Duration(0))
	check("hashes", f.Keys[1].Hash, KeyHashes{
		{Hash: hashA, Expires: time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)}, {Hash: hashB},
	})
	check("expires", f.Keys[1].Expires.Equal(time.Date(2027, 1, 1, 10, 0, 0, 0, time.UTC)), true)
	check("active", f.Keys[1].Enabled(), false)
	check("operations", f.Keys[1].Operations, []string{})
	check("url", f.Upstreams[0].URL, "http://h:1")
	check("one pool", f.Upstreams[0].Concurrency, Concurrency{Shared: 16})
	check("pools", f.Upstreams[1].Concurrency, Concurrency{Text: 32, Vision: 4})
	check("weight", f.Upstreams[1].Weight, 0.5)
	check("served", f.Models[0].Deployments, []Deployment{{Upstream: "a", Served: "x"}, {Upstream: "b", Served: "m"}})
	check("efforts", f.Models[0].SupportedReasoningEfforts, []string{})
	check("vision", f.Models[0].Vision.MaxPixels, 4194304)
	check("pricing", f.Models[0].Pricing, map[string]any{
		"input": "0.10", "tiers": []any{int64(1), 2.5, map[string]any{"deep": true}},
	})
	clocks := f.Models[0].Timeouts.ApplyTo(f.Timeouts)
	check("model's idle", clocks.Idle.D(), 5*time.Second)
	check("model's answer", clocks.Answer.D(), 10*time.Minute)
}

func TestReferences(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("CFG_HOST", "h: [x") // the value would change the structure if it were inserted before parsing
	t.Setenv("CFG_KEY", "from-env")
	t.Setenv("CFG_FILE", "file:etc/secret")
	t.Setenv("CFG_DIR", "secrets")
	write(t, "etc/secrets/gpu", []byte("from-file\r\n"))
	write(t, "etc/ca.pem", []byte("-"))
	write(t, "etc/config.yaml", []byte(`
keys: [{ id: a, hash: "`+hashA+`" }]
upstreams:
  - { name: env, url: "http://h:1", api_key: "x-${CFG_KEY}-${CFG_KEY}" }
  - { name: file, url: "https://h:2", api_key: "file:${CFG_DIR}/gpu", tls: { ca: ca.pem } }
  - { name: text, url: "http://h:3", api_key: "$${CFG_KEY}$$" }
  - { name: no-file, url: "http://h:4", api_key: "${CFG_FILE}" }
models:
  - { id: m, name: "${CFG_HOST}", deployments: [{ upstream: env }] }
`))
	f, err := Load("etc/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"x-from-env-from-env", "from-file", "${CFG_KEY}$$", "file:etc/secret"} {
		if got := f.Upstreams[i].APIKey.Value(); got != want {
			t.Errorf("%s: got %q, want %q", f.Upstreams[i].Name, got, want)
		}
	}
	if got := f.Models[0].Name; got != "h: [x" {
		t.Errorf("name: got %q, want %q", got, "h: [x")
	}
	if got, want := f.ReferencedFiles(), []string{"etc/config.yaml", "etc/secrets/gpu", "etc/ca.pem"}; !slices.Equal(got, want) {
		t.Errorf("paths %q, want %q", got, want)
	}
	if got := f.Upstreams[1].TLS.CA; got != "etc/ca.pem" {
		t.Errorf("ca: got %q, want %q", got, "etc/ca.pem")
	}
	if s := fmt.Sprintf("%v %+v %#v %s", f, f.Upstreams, f.Upstreams[0].APIKey, f.Upstreams[0].APIKey); strings.Contains(s, "from-env") {
		t.Error("a formatter shows a secret")
	}
}

func TestKeysFile(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "etc/config.yaml", []byte("keys_file: more/keys.yaml\n"+minimalConfig[1:]))
	for _, form := range []string{"keys:\n  - id: b\n    hash: " + hashB + "\n", "- id: b\n  hash: " + hashB + "\n"} {
		write(t, "etc/more/keys.yaml", []byte(form))
		f, problems := LoadValid("etc/config.yaml", bundledProfiles)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if len(f.Keys) != 2 || f.Keys[1].ID != "b" || !slices.Equal(f.Keys[1].Models, []string{"*"}) {
			t.Errorf("keys: got %+v, want two, the second one b with all models", f.Keys)
		}
		if want := []string{"etc/config.yaml", "etc/more/keys.yaml"}; !slices.Equal(f.ReferencedFiles(), want) {
			t.Errorf("paths %q, want %q", f.ReferencedFiles(), want)
		}
	}
	write(t, "etc/more/keys.yaml", []byte("# none yet\n"))
	if _, problems := LoadValid("etc/config.yaml", bundledProfiles); len(problems) != 1 || problems[0].File != "etc/more/keys.yaml" {
		t.Errorf("an empty keys_file: %v", problems)
	}
}

// TestProblemsAreTheError checks the properties of Load and Parse errors that callers rely on.
func TestProblemsAreTheError(t *testing.T) {
	f, err := Parse("c.yaml", []byte("listen: [\nlog: 1\n"))
	ps, ok := errors.AsType[Problems](err)
	if f != nil || !ok || len(ps) != 1 || ps[0].File != "c.yaml" || ps[0].Line == 0 || ps[0].Excerpt == "" || ps[0].Warning {
		t.Fatalf("Load = %v, %#v, want no file and one Problem with its position", f, err)
	}
	_, err = Parse("c.yaml", []byte("log: 1\nbogus: 2\ntimeouts: { idle: 3 }\n"))
	if ps, _ = errors.AsType[Problems](err); len(ps) != 3 || !slices.IsSortedFunc(ps, func(a, b Problem) int { return a.Line - b.Line }) {
		t.Fatalf("got the error %v, want three problems in the order of lines", err)
	}
	if (Problems{{Message: "w", Warning: true}}).Err() != nil || Problems(nil).Err() != nil {
		t.Error("a warning is an error")
	}
}

func TestUnreadableFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "dir/x", nil)
	write(t, "closed.yaml", []byte(minimalConfig))
	if err := os.Chmod("closed.yaml", 0); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"absent.yaml":   "absent.yaml: does not exist",
		"dir":           "dir: is a directory, not a file",
		"dir/x/no.yaml": "dir/x/no.yaml: cannot be read: not a directory",
		"closed.yaml":   "closed.yaml: cannot be read: permission denied; let the user that runs penstock read it",
	} {
		if _, err := os.ReadFile(name); err == nil {
			continue // root can read everything
		}
		if _, err := Load(name); err == nil || err.Error() != want {
			t.Errorf("%s: got %q, want %q", name, err, want)
		}
		if f, problems := LoadValid(name, bundledProfiles); f != nil || len(problems) != 1 {
			t.Errorf("LoadValid(%q) = %v, want one problem", name, problems)
		}
	}
}

func TestFileModes(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "config.yaml", []byte("keys_file: keys.yaml\n"+minimalConfig[1:]))
	write(t, "keys.yaml", []byte("keys: []\n"))
	write(t, "open.yaml", []byte("auth: none\nupstreams: [{ name: gpu, url: http://h:1 }]\nmodels: [{ id: m, deployments: [{ upstream: gpu }] }]\n"))
	for name, mode := range map[string]os.FileMode{"config.yaml": 0o644, "keys.yaml": 0o660, "open.yaml": 0o666} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	f, problems := LoadValid("config.yaml", bundledProfiles)
	if f == nil || len(problems) != 2 || len(problems.Warnings()) != 2 ||
		problems[0].File != "config.yaml" || !strings.Contains(problems[0].Message, "0644") ||
		problems[1].File != "keys.yaml" || !strings.Contains(problems[1].Message, "0660") {
		t.Errorf("got the problems %s, want warnings about modes 0644 and 0660", problems)
	}
	if again := f.Validate(bundledProfiles); len(again) != 2 {
		t.Errorf("Validate forgets the warnings: %s", again)
	}
	if _, problems := LoadValid("open.yaml", bundledProfiles); len(problems) > 0 {
		t.Errorf("a file without secrets: %s", problems)
	}
	if _, err := Load("config.yaml"); err != nil {
		t.Errorf("warnings fail Load: %v", err)
	}
	write(t, "secret.txt", []byte("abc\n"))
	write(t, "far.yaml", []byte("auth: none\nupstreams: [{ name: gpu, url: http://h:1, api_key: file:secret.txt }]\nmodels: [{ id: m, deployments: [{ upstream: gpu }] }]\n"))
	for mode, want := range map[os.FileMode]int{0o640: 0, 0o644: 1} {
		if err := os.Chmod("secret.txt", mode); err != nil {
			t.Fatal(err)
		}
		f, problems := LoadValid("far.yaml", bundledProfiles)
		if f == nil || len(problems) != want || want > 0 && (!strings.Contains(problems[0].Message, "secret.txt has mode 0644") || problems[0].Line != 2) {
			t.Errorf("a secret's file of mode %o: %s", mode, problems)
		}
	}
}

func TestSecretsStayHidden(t *testing.T) {
	const canary = "CANARYVALUE"
	for _, src := range []string{
		"admin: { token: " + canary + ", tokn: x }\n",
		"admin: { token: [" + canary + "] }\n",
		"admin: { tokn: { a: " + canary + " } }\n",
		"admin: { token: |\n    " + canary + "\n  " + canary + "\n",
		"admin:\n  token: \"" + canary + "\n   " + canary + " and more\n",
		"admin:\n  token: '" + canary + "\n  : x\n",
		"admin: { token: two words " + canary + " }\n",
		"admin: { token: " + canary + " [ }\n",
		"keys: [{ id: [], hash: [{ hash: " + canary + ", expires: x }] }]\n",
		"keys: [{ hash: [ " + canary + ", " + canary + " ], id: 1, zz: 2 }]\n",
		"keys: [{ hash: { hash: [" + canary + "] }, models: 1 }]\n",
		"upstreams: [{ url: http://u:" + canary + "@h, zz: 1 }]\n",
		"upstreams: [{ url: \"http://u:" + canary + "@[::1\", name: 1, zz: 1 }]\n",
		"upstreams: [{ zz: 1, api_key: " + canary + ", api_key: " + canary + " }]\n",
		"cors: { origins: [\"https://u:" + canary + "@h\"] }\ntracing: { otlp: \"http://u:" + canary + "@h\" }\n",
		"password: " + canary + "\n",
	} {
		_, problems := ParseValid("c.yaml", []byte(src), bundledProfiles)
		if len(problems) == 0 {
			t.Errorf("no problem in %s", src)
		}
		if text := problems.Error(); strings.Contains(text, canary) {
			t.Errorf("the problems of %sshow the secret:\n%s", src, text)
		}
	}
}

func TestDecode(t *testing.T) {
	var e Engine
	if err := Decode("e.yaml", []byte("name: mine\nkeep_alive: 3s\nquirks: []\n"), &e); err != nil {
		t.Fatal(err)
	}
	if e.Name != "mine" || e.KeepAlive.D() != 3*time.Second || e.Quirks == nil {
		t.Errorf("Decode = %+v, want the profile mine with a keep_alive of 3s", e)
	}
	err := Decode("e.yaml", []byte("name: mine\nkeep_alive: 3\nquirk: []\n"), &e)
	if ps, _ := errors.AsType[Problems](err); len(ps) != 2 || ps[0].File != "e.yaml" {
		t.Errorf("Decode = %v, want two problems in e.yaml", err)
	}
}

// TestEditorsOfOtherSystems checks that files with CRLF and a UTF-8 byte order mark can be read.
func TestEditorsOfOtherSystems(t *testing.T) {
	src := "\ufeff" + strings.ReplaceAll("listen: 127.0.0.1:7"+minimalConfig, "\n", "\r\n")
	f, problems := ParseValid("c.yaml", []byte(src), bundledProfiles)
	if len(problems) > 0 || f.Listen != "127.0.0.1:7" {
		t.Errorf("got %v, want no problems and the listen address 127.0.0.1:7", problems)
	}
	_, problems = ParseValid("c.yaml", []byte(src+"bogus: é\r\n"), bundledProfiles)
	if len(problems) != 1 || problems[0].Line != 5 || problems[0].Excerpt != "    5 | bogus: é\n      | ^" {
		t.Errorf("got %v, want one problem in line 5", problems)
	}
	for _, src := range []string{"listen: \xff\n", "\xff\xfea\x00", "a: \x00\n"} {
		if _, problems := ParseValid("c.yaml", []byte(src), bundledProfiles); len(problems) != 1 || !strings.Contains(problems[0].Message, "UTF-8") {
			t.Errorf("ParseValid(%q) = %v, want one problem about UTF-8", src, problems)
		}
	}
}

// TestAliasesAreBounded checks that a small file cannot expand to a huge tree.
func TestAliasesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("models:\n  - id: m\n    pricing:\n      a: &a [x, x, x, x, x, x, x, x, x]\n")
	for c := 'b'; c < 'k'; c++ {
		fmt.Fprintf(&b, "      %c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 9), ", "))
	}
	start := time.Now()
	_, err := Parse("c.yaml", []byte(b.String()))
	if ps, _ := errors.AsType[Problems](err); len(ps) != 1 || !strings.Contains(ps[0].Message, "alias too often") {
		t.Errorf("got %.300v, want one problem about aliases", err)
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("parsing took %v, want at most 10s", d)
	}
	_, err = Parse("c.yaml", []byte("models: [{ id: m, pricing: { a: &a { b: *a } } }]\n"))
	if ps, _ := errors.AsType[Problems](err); len(ps) != 1 {
		t.Errorf("an alias inside of its anchor: %.300v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(minimalConfig))
	f.Add(Example())
	for _, s := range []string{
		"", "- a\n", "a: &a [*a]\n", "? a\n: b\n", "keys: {<<: [1]}\n", "listen: ${\n", "listen: !!int x\n", "a: |\n  b\n",
		"keys: [{hash: [{hash: {}}]}]\n", "upstreams: [{concurrency: [1]}]\n", "models: [{pricing: {a: .nan, b: .inf, c: ~}}]\n",
		"\xff\xfe", "a: \"\\x\"\n", "---\n...\n---\n", "<<: {listen: a}\n", "keys:\n -\n -\n", "listen: *x\n", "%YAML 1.2\n---\na: 1\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		// Parse reads secrets and other files that the source names. Their content on this machine
		// does not matter.
		file, err := Parse("fuzz.yaml", src)
		if err == nil {
			if file == nil {
				t.Fatal("neither a file nor an error")
			}
			file.Validate(bundledProfiles)
			return
		}
		ps, ok := errors.AsType[Problems](err)
		if !ok || len(ps.Errors()) == 0 {
			t.Fatalf("the error is %T: %v", err, err)
		}
		for _, p := range ps {
			if p.Message == "" || p.Line < 0 || p.Column < 0 || strings.ContainsAny(p.Message, "\n\r") {
				t.Fatalf("got %#v, want a message in one line and a valid position", p)
			}
		}
		ParseValid("fuzz.yaml", src, bundledProfiles)
	})
}
