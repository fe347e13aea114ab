package proxy

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"penstock/config"
	"penstock/proxy/front/listen"
)

// TestOpenPorts checks that a port that is invalid or in use is reported once, with its setting and
// a remedy.
func TestOpenPorts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	for _, c := range []struct{ public, admin, want string }{
		{address, "", "listen: " + address + " is taken by another process: choose another address, or, for a second edge on it, start both with --share-port"},
		{"127.0.0.1:0", address, "admin.listen: " + address + " is taken"},
		{"192.0.2.1:4000", "", "listen: 192.0.2.1:4000: bind: "},
	} {
		f := config.Defaults()
		f.Listen, f.Admin.Listen = c.public, c.admin
		_, err := openListeners(f, listen.PortOptions{}, listen.PortOptions{})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	// Only root may open the port.
	denied := &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EACCES)}
	if err := explainListenError("listen", "0.0.0.0:443", denied); !strings.Contains(err.Error(), "listen: this user may not open 0.0.0.0:443: choose a port") {
		t.Error(err)
	}
}

// TestLoadOtherFileAsLedger checks that a ledger path that names something other than a ledger is a
// problem of the configuration, with the number of its line.
func TestLoadOtherFileAsLedger(t *testing.T) {
	name := filepath.Join(t.TempDir(), "edge.yaml")
	for ledger, good := range map[string]bool{"usage.ledger": true, "edge.yaml": false, ".": false, os.DevNull: false} {
		text := "ledger: " + ledger + "\nauth: none\nupstreams:\n  - { name: up, url: \"http://127.0.0.1:1\" }\nmodels: [{ id: m, deployments: [{ upstream: up }] }]\n"
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, problems := LoadConfig(name)
		if good != (f != nil) || !good && !strings.Contains(problems.Error(), "edge.yaml:1:9: ") {
			t.Errorf("ledger %s: %v, want good: %v", ledger, problems, good)
		}
	}
}

// TestSiblingConfigParser checks that problems in a configuration sent for checking use the name
// given by the sender.
func TestSiblingConfigParser(t *testing.T) {
	text := "auth: none\nupstreams: [{ name: u, url: \"http://127.0.0.1:1\" }]\nmodels:\n  - { id: m, deployments: [{ upstream: u }] }\n"
	for called, want := range map[string]string{"../new.yaml": "../new.yaml", "": "folder/candidate"} {
		parse := SiblingConfigParser("folder/edge.yaml")
		f, problems := parse([]byte(text), called)
		if f == nil {
			t.Fatal(problems)
		}
		if p := f.ProblemAt("models[0].deployments", "it is wrong"); p.File != want || p.Line != 4 {
			t.Errorf("called %q: problem at %+v, want %s, line 4", called, p, want)
		}
		if _, problems := parse([]byte(text+"polcy: x\n"), called); len(problems) != 1 || problems[0].File != want || problems[0].Line != 5 {
			t.Errorf("called %q, a wrong one: %+v", called, problems)
		}
	}
}

// TestDamagedRuntimeKeys checks a damaged file with keys created at run time. It must be an error
// before the edge starts, and a warning while the edge is running.
func TestDamagedRuntimeKeys(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	name, made := filepath.Join(folder, "edge.yaml"), filepath.Join(folder, "made.yaml")
	text := "auth: none\nadmin: { token: \"" + strings.Repeat("x", 40) + "\", keys: { file: made.yaml } }\n" +
		"upstreams: [{ name: up, url: \"http://127.0.0.1:1\" }]\nmodels: [{ id: m, deployments: [{ upstream: up }] }]\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, problems := LoadConfig(name); f == nil {
		t.Fatalf("without the file: %v", problems)
	}
	if err := os.WriteFile(made, []byte("{{{garbage\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, problems := LoadConfig(name); f != nil || !strings.Contains(problems.Error(), "made.yaml:1: ") {
		t.Errorf("before a start: %v", problems)
	}
	f, problems, _ := ConfigReloader(name)()
	if f == nil || !strings.Contains(problems.Error(), "made.yaml:1: ") || len(problems.Warnings()) != len(problems) {
		t.Errorf("at a reload: %v", problems)
	}
}
