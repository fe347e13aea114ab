package bench

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"penstock/bench/benchtest"
	"penstock/bench/compare"
	"penstock/bench/exit"
)

func TestReportCommand(t *testing.T) {
	good, bad := benchtest.SaveResult(t, benchtest.FullResult(t)), filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"completed":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out.html")
	for _, c := range []struct {
		c    ReportCmd
		code int
	}{
		{ReportCmd{File: good, Output: out}, 0},
		{ReportCmd{File: good, CheckFlags: compare.CheckFlags{Assert: []string{"failed==24"}}}, 0},
		{ReportCmd{File: good, CheckFlags: compare.CheckFlags{Assert: []string{"failed==0"}}}, exit.CheckFailed},
		{ReportCmd{File: good, CheckFlags: compare.CheckFlags{Assert: []string{"failed"}}}, exit.Usage},
		{ReportCmd{File: bad}, exit.Usage},
		{ReportCmd{File: bad + "x"}, exit.Usage},
	} {
		var text, notes bytes.Buffer
		err := c.c.run(&text, &notes)
		code := 0
		var e *exit.Error
		if errors.As(err, &e) {
			code = e.Code
		}
		if code != c.code || (code == 0 && c.c.Output == "") != strings.HasPrefix(text.String(), "<!doctype html>") && code != exit.CheckFailed {
			t.Errorf("%+v: code %d, want %d: %v; %d bytes", c.c, code, c.code, err, text.Len())
		}
	}
	if b, err := os.ReadFile(out); err != nil || !bytes.HasPrefix(b, []byte("<!doctype html>")) {
		t.Errorf("file: %v, %d bytes", err, len(b))
	}
}
