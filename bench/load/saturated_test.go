package load

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"penstock/bench/benchtest"
	"penstock/bench/exit"
	"penstock/bench/process"
	"penstock/bench/result"
	"penstock/config/testkit/fastset"
)

// TestClientIsTheLimit runs the real program on one processor against a server that needs almost no
// CPU time. If the program sends as much load as it can, the verdict must say that the client was
// the limit. If the load is low, the verdict may say so only if other programs took the processor.
func TestClientIsTheLimit(t *testing.T) {
	fastset.SkipIfShort(t, "a client at its limit")
	benchtest.BuildProgram(t)
	program, err := process.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		clients   string
		tokens    int
		gap       time.Duration
		saturated bool
	}{
		"as fast as it can": {"32", 300, 0, true},
		"slow streams":      {"12", 8, 20 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := startNoopServer(c.tokens, c.gap)
			if err != nil {
				t.Fatal(err)
			}
			defer server.close()
			var found bool
			for range 12 { // other programs may leave the server too little
				r, out, err := runOnOneCPU(t, program, []string{"-c", c.clients, server.url()})
				client, v := r.Penstock.Client, r.Penstock.Verdict
				if client.GOMAXPROCS != 1 || r.Completed < 20 {
					t.Fatalf("%d requests on %d processors", r.Completed, client.GOMAXPROCS)
				}
				found = slices.ContainsFunc(v.Reasons, func(r result.Reason) bool { return r.Code == "client_saturated" && r.Invalidates })
				var ended *exec.ExitError
				if found && (!errors.As(err, &ended) || ended.ExitCode() != exit.InvalidResult || !bytes.Contains(out, []byte("NOT VALID"))) {
					t.Errorf("run of a saturated client: %v, want code %d and NOT VALID:\n%s", err, exit.InvalidResult, out)
				}
				// Other programs left the client too little.
				waited := client.CPUWaitShare != nil && *client.CPUWaitShare > *client.CPUShare
				if found == c.saturated || found && waited {
					return
				}
				t.Logf("%+v: %v", client, v.Reasons)
			}
			t.Errorf("client saturated: %v, want %v", found, c.saturated)
		})
	}
}

// runOnOneCPU runs the program on one processor.
func runOnOneCPU(t *testing.T, program string, args []string) (r *result.Result, out []byte, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "r.json")
	cmd := exec.Command(program, append([]string{"bench", "run", "-m", "null", "-z", "1s", "--quiet", "-o", file}, args...)...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	out, err = cmd.CombinedOutput()
	r, readErr := result.ReadResult(file)
	if readErr != nil {
		t.Fatalf("result: %v, run: %v; want a result: %s", readErr, err, out)
	}
	return r, out, err
}
