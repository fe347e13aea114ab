package load

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"penstock/bench/benchtest"
	"penstock/bench/exit"
	"penstock/bench/process"
	"penstock/bench/result"
	"penstock/config/testkit/fastset"
)

// TestClientIsTheLimit runs the real program on one processor against a server that costs next to
// nothing: when it asks for as much as it can take the verdict says that it measured itself, and
// when it asks for little the verdict does not.
func TestClientIsTheLimit(t *testing.T) {
	fastset.LeaveOut(t, "a client at its limit")
	benchtest.OwnProgram(t)
	program, err := process.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server, err := startNoopServer()
	if err != nil {
		t.Fatal(err)
	}
	defer server.close()
	for name, c := range map[string]struct {
		load      []string
		saturated bool
	}{
		"as fast as it can": {[]string{"-c", "32", "-H", "X-Null-Tokens: 300"}, true},
		"slow streams":      {[]string{"-c", "12", "-H", "X-Null-Tokens: 8", "-H", "X-Null-Gap: 20ms"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var found bool
			for range 5 { // other programs may leave a client that asks for little even less
				r, out, err := limited(t, program, append(c.load, server.url()))
				client, v := r.Penstock.Client, r.Penstock.Verdict
				if client.GOMAXPROCS != 1 || r.Completed < 20 {
					t.Fatalf("%d requests on %d processors", r.Completed, client.GOMAXPROCS)
				}
				found = slices.ContainsFunc(v.Reasons, func(r result.Reason) bool { return r.Code == "client_saturated" && r.Invalidates })
				var ended *exec.ExitError
				if found && (!errors.As(err, &ended) || ended.ExitCode() != exit.Invalid || !bytes.Contains(out, []byte("NOT VALID"))) {
					t.Errorf("%v:\n%s", err, out)
				}
				if found == c.saturated {
					return
				}
				t.Logf("%+v: %v", client, v.Reasons)
			}
			t.Errorf("saturated: %v", found)
		})
	}
}

// limited runs the program on one processor.
func limited(t *testing.T, program string, args []string) (r *result.Result, out []byte, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "r.json")
	cmd := exec.Command(program, append([]string{"bench", "run", "-m", "null", "-z", "1s", "--no-floor", "--quiet", "-o", file}, args...)...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	out, err = cmd.CombinedOutput()
	r, readErr := result.ReadResult(file)
	if readErr != nil {
		t.Fatalf("%v, %v: %s", readErr, err, out)
	}
	return r, out, err
}
