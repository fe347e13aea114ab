package bench

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestClientIsTheLimit runs the real program on one processor against a server that costs next to nothing: when it asks for as much as
// it can take the verdict says that it measured itself, and when it asks for little the verdict does not.
func TestClientIsTheLimit(t *testing.T) {
	ownProgram(t)
	program, err := executable()
	if err != nil {
		t.Fatal(err)
	}
	server, err := startNull()
	if err != nil {
		t.Fatal(err)
	}
	defer server.close()
	for name, c := range map[string]struct {
		load      []string
		saturated bool
	}{
		"as fast as it can": {[]string{"-c", "32", "-H", "X-Null-Tokens: 300"}, true},
		"slow streams":      {[]string{"-c", "4", "-H", "X-Null-Tokens: 8", "-H", "X-Null-Gap: 20ms"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "r.json")
			cmd := exec.Command(program, append([]string{"bench", "run", server.url(), "-m", "null", "-z", "2s", "--no-floor", "--no-progress", "-o", file}, c.load...)...)
			cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
			out, err := cmd.CombinedOutput()
			r, readErr := ReadResult(file)
			if readErr != nil {
				t.Fatalf("%v, %v: %s", readErr, err, out)
			}
			v := r.Penstock.Verdict
			found := slices.ContainsFunc(v.Reasons, func(r Reason) bool { return r.Code == "client_saturated" && r.Invalidates })
			if found != c.saturated {
				t.Errorf("saturated %v with a processor share of %s and %s waited for: %v", found, shareText(r.Penstock.Client.CPUShare), shareText(r.Penstock.Client.CPUWaitShare), v.Reasons)
			}
			if r.Penstock.Client.GOMAXPROCS != 1 || r.Completed < 20 {
				t.Errorf("%d requests on %d processors", r.Completed, r.Penstock.Client.GOMAXPROCS)
			}
			var exit *exec.ExitError
			if c.saturated && (!errors.As(err, &exit) || exit.ExitCode() != ExitInvalid || !bytes.Contains(out, []byte("NOT VALID"))) {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
}
