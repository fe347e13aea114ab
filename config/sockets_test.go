package config_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"penstock/config"
)

// TestCheckSockets checks that a path at which no socket can be opened is reported with its line. A
// missing socket of an engine or a hook must cause only a warning, because the socket may appear
// later.
func TestCheckSockets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ln, err := net.Listen("unix", filepath.Join(dir, "live"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ listen, admin, engine, hook, want string }{
		{"DIR/new", "DIR/live", "DIR/later", "DIR/later", ""},
		{"DIR/none/new", "DIR/live", "DIR/live", "DIR/later", "config.yaml:1:9: there is no folder DIR/none for the Unix socket: create it"},
		{"DIR/file", "DIR/live", "DIR/live", "DIR/later", "config.yaml:1:9: DIR/file exists and is not a socket"},
		{"DIR/file/new", "DIR/live", "DIR/live", "DIR/later", "there is no folder DIR/file"},
		{"DIR/new", "DIR/file", "DIR/live", "DIR/later", "config.yaml:2:18: DIR/file exists and is not a socket"},
		{"DIR/new", "DIR/live", "DIR/none/vllm", "DIR/later", "config.yaml:4:29: warning: there is no folder DIR/none"},
		{"DIR/new", "DIR/live", "DIR/file", "DIR/later", "config.yaml:4:29: warning: DIR/file exists and is not a socket"},
		{"DIR/new", "DIR/live", "DIR/live", "DIR/none/guard", "config.yaml:6:32: warning: there is no folder DIR/none"},
	} {
		in := strings.NewReplacer("LISTEN", c.listen, "ADMIN", c.admin, "ENGINE", c.engine, "HOOK", c.hook, "DIR", dir)
		in2 := strings.NewReplacer("DIR", dir)
		src := in2.Replace(in.Replace("listen: unix:LISTEN\nadmin: { listen: unix:ADMIN }\nauth: none\nupstreams: [{ name: a, url: unix:ENGINE }]\nmodels: [{ id: m, deployments: [{ upstream: a }] }]\nhooks: [{ name: guard, before: unix:HOOK }]\n"))
		f, problems := config.Parse("config.yaml", []byte(src))
		if f == nil {
			t.Fatalf("%v: %v", c, problems)
		}
		got := f.CheckSockets()
		want := in2.Replace(c.want)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0].String(), want)) {
			t.Errorf("%v: %v, want %q", c, got, want)
		}
	}
}
