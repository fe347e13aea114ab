package config

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"penstock/config/strictyaml"
	"penstock/config/testkit/selfsigned"
)

// writePair writes a valid certificate and its key.
func writePair(t *testing.T, dir, name string) {
	t.Helper()
	selfsigned.WritePair(t, dir, name, time.Time{}, time.Now().Add(90*24*time.Hour))
}

func TestCheckCertificates(t *testing.T) {
	dir := t.TempDir()
	writePair(t, dir, "a")
	writePair(t, dir, "b")
	selfsigned.WritePair(t, dir, "old", time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour))
	selfsigned.WritePair(t, dir, "early", time.Now().Add(time.Hour), time.Now().Add(2*time.Hour))
	selfsigned.WritePair(t, dir, "late", time.Now().Add(-90*24*time.Hour), time.Now().Add(4*24*time.Hour+time.Hour))
	selfsigned.WritePair(t, dir, "short", time.Now().Add(-time.Hour), time.Now().Add(2*time.Hour))
	writePair(t, dir, "wide")
	if err := os.Chmod(filepath.Join(dir, "wide.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "junk.pem"), []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, server, upstream string
		want                   []string // each entry has a line number and a part of the message
	}{
		{"good", "cert: a.pem, key: a.key", "ca: b.pem, cert: b.pem, key: b.key", nil},
		{"another's key", "cert: a.pem, key: b.key", "", []string{":1:", "a.pem", "b.key", "does not match"}},
		{"swapped", "cert: a.key, key: a.pem", "", []string{":1:", "cannot be used"}},
		{"expired", "cert: old.pem, key: old.key", "", []string{":1:", "warning", "old.pem", "expired on"}},
		{"that ends within a week", "cert: late.pem, key: late.key", "", []string{":1:", "warning", "late.pem ends on", "in 4 days"}},
		{"of three hours that a machine renews", "cert: short.pem, key: short.key", "", nil},
		{"not valid yet", "cert: early.pem, key: early.key", "", []string{":1:", "warning", "is not valid before"}},
		{"named by nothing", "cert: '', key: ''", "", []string{":1:", "warning", "plain HTTP"}},
		{"a key for all to read", "cert: wide.pem, key: wide.key", "", []string{":1:", "warning", "has mode 0644"}},
		{"an upstream's that expired", "", "cert: old.pem, key: old.key", []string{":4:", "warning", "expired on"}},
		{"an upstream's", "", "ca: junk.pem, cert: junk.pem, key: a.key", []string{":4:", "holds no certificate", "cannot be used"}},
		{"the store's", "", " }, api_key: x }\nfleet: { store: { url: \"rediss://h\", tls: { ca: junk.pem, cert: junk.pem, key: a.key } } }\n#", []string{":5:", "junk.pem holds no certificate", "the store's", "cannot be used"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(dir, "edge.yaml")
			text := "tls: { " + c.server + " }\nkeys: [{ id: k, hash: \"sha256:" + strings.Repeat("0", 64) + "\" }]\nupstreams:\n  - { name: up, url: \"https://127.0.0.1:1\", tls: { " + c.upstream + " } }\nmodels: [{ id: m, deployments: [{ upstream: up }] }]\n"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			f, problems := LoadValid(path, KnownProfiles{Engines: []string{"auto"}})
			if f == nil {
				t.Fatal(problems)
			}
			got := f.CheckCertificates()
			if len(c.want) == 0 && got != nil {
				t.Fatal(got)
			}
			for _, w := range c.want {
				if got == nil || !strings.Contains(got.Error(), w) {
					t.Errorf("%v does not say %q", got, w)
				}
			}
		})
	}
}

// TestWarnUnusableServiceAccount checks that an unreadable account token causes a warning, at the
// position of the upstream that uses the account.
func TestWarnUnusableServiceAccount(t *testing.T) {
	dir := t.TempDir()
	writePair(t, dir, "a")
	folder := func(name, token, ca string) string {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"token": token, "ca.crt": ca} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(path, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	pem, err := os.ReadFile(filepath.Join(dir, "a.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, cluster, kubernetes, want string }{
		{"good", "", "account: " + folder("good", "secret", string(pem)), ""},
		{"the system's authorities", "", "account: " + folder("system", "secret", ""), ""},
		{"no token", "", "account: " + folder("none", "", string(pem)), "token"},
		{"an empty token", "", "account: " + folder("empty", "\n", string(pem)), "token is empty"},
		{"not an authority", "", "account: " + folder("junk", "secret", "junk"), "ca.crt holds no certificate"},
		{"nothing is sent", "", "server: \"http://127.0.0.1:8001\"", ""},
		{"outside of a cluster", "", "namespace: llm", "does not run in a pod"},
		{"a server from outside", "", "server: \"https://127.0.0.1:1\"", ""},
		{"a pod without an account", "10.0.0.1", "namespace: llm", MountedAccountFolder},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", c.cluster)
			path := filepath.Join(dir, "edge.yaml")
			text := "auth: none\nupstreams:\n  - { name: up, url: \"http://vllm:1\", kubernetes: { selector: app=vllm, " + c.kubernetes + " } }\nmodels: [{ id: m, deployments: [{ upstream: up }] }]\n"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			f, problems := LoadValid(path, KnownProfiles{Engines: []string{"auto"}})
			if f == nil {
				t.Fatal(problems)
			}
			got := f.CheckCertificates()
			if c.want == "" && got != nil {
				t.Fatal(got)
			}
			if c.want != "" && (len(got) != 1 || len(got.Errors()) > 0 || !strings.Contains(got.Error(), c.want)) {
				t.Errorf("%v does not warn of %q", got, c.want)
			}
		})
	}
}

// TestFolderOfCertificates checks that a folder in which the edge cannot store certificates is
// reported, and that the check leaves no file in a folder.
func TestFolderOfCertificates(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), []byte("x"))
	locked := filepath.Join(dir, "locked")
	if err := os.Mkdir(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string]string{"": "", "new/below": "", "file": "is no folder", "file/below": "cannot be kept there", "locked/below": "cannot be kept there"} {
		if folder == "locked/below" && os.Geteuid() == 0 {
			continue // root can write there
		}
		f := &File{TLS: TLS{ACME: ACME{Domains: []string{"a.test"}, Folder: filepath.Join(dir, folder)}}, origin: &fileReadRecord{positions: new(strictyaml.Positions)}}
		if got := fmt.Sprint(f.CheckCertificates()); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("CheckCertificates with the folder %q = %q, want it to contain %q", folder, got, want)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestOpenFolderOfCertificates checks that a folder causes a warning if other users can replace the
// certificates in it or read their keys.
func TestOpenFolderOfCertificates(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no modes")
	}
	for name, c := range map[string]struct {
		folder, below, file fs.FileMode
		want                string
	}{
		"as the edge makes it":      {0o700, 0o700, 0o600, ""},
		"names can be read":         {0o755, 0o755, 0o600, ""},
		"for everybody":             {0o777, 0o700, 0o600, "certificates has mode 0777"},
		"for a group":               {0o770, 0o700, 0o600, "certificates has mode 0770"},
		"below":                     {0o700, 0o777, 0o600, "ca.test has mode 0777"},
		"a key that can be read":    {0o700, 0o700, 0o644, "account.key holds a key and has mode 0644"},
		"a key that is the group's": {0o700, 0o700, 0o640, ""},
	} {
		dir := filepath.Join(t.TempDir(), "certificates")
		file := filepath.Join(dir, "ca.test", "account.key")
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, file, []byte("key"))
		// set the modes explicitly, independent of the umask
		for path, mode := range map[string]fs.FileMode{dir: c.folder, filepath.Dir(file): c.below, file: c.file} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
		f := &File{TLS: TLS{ACME: ACME{Domains: []string{"a.test"}, Folder: dir}}, origin: &fileReadRecord{positions: new(strictyaml.Positions)}}
		got := f.CheckCertificates()
		if text := fmt.Sprint(got); (c.want == "") != (text == "") || !strings.Contains(text, c.want) || got.Err() != nil {
			t.Errorf("%s: CheckCertificates = %q, want only warnings that contain %q", name, text, c.want)
		}
	}
}
