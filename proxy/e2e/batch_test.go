package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/openai/openai-go/v3"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// batchOf writes a batch of n chats. more contains additional members for their bodies.
func batchOf(t *testing.T, p *penstock, n int, more string) (in string, args []string) {
	t.Helper()
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"custom_id":"call-%d","method":"POST","url":"/v1/chat/completions","body":%s}`+"\n", i, p.ChatRequest(more))
	}
	dir := t.TempDir()
	in, out, key := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "key")
	for path, text := range map[string]string{in: text.String(), key: p.Key + "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return out, []string{"batch", in, "-o", out, "--url", p.URL, "--key-file", key}
}

// readBatchOutput reads an output file. Each line must be complete, and each id may occur only once.
func readBatchOutput(t *testing.T, out string) (status map[string]int) {
	t.Helper()
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	status = map[string]int{}
	for line := range bytes.Lines(text) {
		var a struct {
			ID       string
			CustomID string `json:"custom_id"`
			Response *struct {
				Status    int    `json:"status_code"`
				RequestID string `json:"request_id"`
				Body      json.RawMessage
			}
			Error *struct{ Code, Message string }
		}
		if err := json.Unmarshal(line, &a); err != nil || a.ID == "" || (a.Response == nil) == (a.Error == nil) {
			t.Fatalf("line %q, %v; want an id and an answer or an error", line, err)
		}
		if _, there := status[a.CustomID]; there {
			t.Errorf("%s is there twice", a.CustomID)
		}
		if status[a.CustomID] = 0; a.Response != nil {
			status[a.CustomID] = a.Response.Status
			var c openai.ChatCompletion
			if err := json.Unmarshal(a.Response.Body, &c); a.Response.RequestID == "" || a.Response.Status == 200 && (err != nil || len(c.Choices) != 1) {
				t.Errorf("answer %s, %v; want a request id and one choice", line, err)
			}
		}
	}
	return status
}

// TestBatch checks that a batch uses all slots of an edge without a queue, and waits after
// refusals. If the batch is started again, it must send nothing.
func TestBatch(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Upstream: "concurrency: 3"})
	out, args := batchOf(t, p, 60, `"sim":{"tokens":2,"delay_ms":20}`)
	for range 2 {
		if _, errs, code := rig.RunProgram(t, "", args...); code != 0 {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		if got := readBatchOutput(t, out); len(got) != 60 {
			t.Errorf("%d lines, want 60", len(got))
		}
	}
	if s := p.Engines[0].Stats(); s.Requests != 60 || s.Peak > 3 {
		t.Errorf("%d requests at the engine, %d at once", s.Requests, s.Peak)
	}
}

// TestBatchLineErrors checks that the error for a line is in the answer to that line, and that the
// batch waits while the engine is down. A wrong key or an invalid input must end the batch before
// its first call.
func TestBatchLineErrors(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Retry: "attempts: 1"})
	p.Engines[0].SetFault(sim.Fault{Spec: "status=503;retry-after=1", Count: 2}, sim.Fault{Spec: "reset-before", Count: 1})
	out, args := batchOf(t, p, 9, "")
	text, err := os.ReadFile(args[1])
	if err != nil {
		t.Fatal(err)
	}
	wrong := strings.Replace(string(text), `"model":"sim"`, `"model":"none"`, 1)
	if err := os.WriteFile(args[1], []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := rig.RunProgram(t, "", args...); code != 3 || !strings.Contains(errs, "1 lines have an error") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	got := readBatchOutput(t, out)
	for i := range 9 {
		if want := map[bool]int{true: 404, false: 200}[i == 0]; got[fmt.Sprint("call-", i)] != want {
			t.Errorf("call-%d: %d, want %d", i, got[fmt.Sprint("call-", i)], want)
		}
	}
	invalid := strings.Replace(wrong, `"model":"none"`, `"model":5`, 1)
	for _, text := range []string{wrong, invalid, invalid} { // the model may exist when the batch is run again
		if err := os.WriteFile(args[1], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, errs, code := rig.RunProgram(t, "", args...)
		if code != 3 || !strings.Contains(errs, "8 answered before, 0 answered now, 1 without") {
			t.Errorf("exit code %d: %s", code, errs)
		}
	}
	if got := readBatchOutput(t, out); got["call-0"] != 400 || len(got) != 9 {
		t.Errorf("call-0: %d of %d lines", got["call-0"], len(got))
	}
	served := p.Engines[0].Stats().Requests
	for code, change := range map[int][2]string{1: {p.Key, "wrong"}, 2: {"POST", "GET"}} {
		_, args := batchOf(t, p, 3, "")
		path := args[1]
		if code == 1 {
			path = args[len(args)-1]
		}
		text, _ := os.ReadFile(path)
		if err := os.WriteFile(path, bytes.Replace(text, []byte(change[0]), []byte(change[1]), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, errs, got := rig.RunProgram(t, "", args...); got != code || strings.Contains(errs, p.Key) {
			t.Errorf("exit code %d, want %d: %s", got, code, errs)
		}
	}
	if n := p.Engines[0].Stats().Requests; n != served {
		t.Errorf("the engine got %d requests more", n-served)
	}
}

// TestBatchAtTheWrongAddress checks that a batch ends without writing an answer if the server does
// not have the endpoint.
func TestBatchAtTheWrongAddress(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	out, args := batchOf(t, p, 5, "")
	_, errs, code := rig.RunProgram(t, "", append(args, "--url", p.URL+"/elsewhere")...)
	if code != 1 || !strings.Contains(errs, "the answer is 404") || len(readBatchOutput(t, out)) != 0 {
		t.Errorf("exit code %d, %d lines: %s", code, len(readBatchOutput(t, out)), errs)
	}
}

// TestBatchContinues checks that a batch that was killed or interrupted continues where it stopped.
func TestBatchContinues(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		p := start(t, rig.Setup{Upstream: "concurrency: 4"})
		out, args := batchOf(t, p, 40, `"sim":{"tokens":2,"delay_ms":150}`)
		// Prevents the batch from ending before the signal.
		p.Engines[0].SetFault(sim.Fault{Spec: "blackhole", After: 12})
		others := p.Metric("penstock_client_connections")
		cmd := rig.StartProcess(t, args...)
		lines := func() int {
			text, _ := os.ReadFile(out)
			return bytes.Count(text, []byte("\n"))
		}
		rig.WaitFor(t, rig.WaitTimeout, "a part of the batch is done", func() bool { return lines() == 12 && p.Engines[0].Stats().Running == 4 })
		cmd.Signal(signal)
		<-cmd.Done
		had := lines()
		if code := cmd.Cmd.ProcessState.ExitCode(); had >= 40 || signal == syscall.SIGINT && code != 130 {
			t.Fatalf("%v: %d lines, exit code %d", signal, had, code)
		}
		// The edge may not have started the last call.
		rig.WaitFor(t, rig.WaitTimeout, "edge and engine are at rest", func() bool {
			return p.Metric("penstock_client_connections") <= others && p.Metric("penstock_calls_inflight") == 0 && p.Engines[0].Stats().Running == 0
		})
		p.Engines[0].SetFault()
		before := p.Engines[0].Stats().Requests
		whole, _ := os.ReadFile(out)
		if err := os.WriteFile(out, append(whole, `{"id":"x","custom_id":"call-3`...), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, errs, code := rig.RunProgram(t, "", args...); code != 0 {
			t.Fatalf("%v: exit code %d: %s", signal, code, errs)
		}
		if n := p.Engines[0].Stats().Requests - before; n != int64(40-had) || len(readBatchOutput(t, out)) != 40 {
			t.Errorf("%v: %d were done, and %d asked for after it", signal, had, n)
		}
	}
}
