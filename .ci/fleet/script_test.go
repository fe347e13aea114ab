package main

import (
	"testing"
)

// TestMeasureScriptMicros checks that the store executes the script for each message, and that the
// cost is measured.
func TestMeasureScriptMicros(t *testing.T) {
	program, err := findStore()
	if err != nil {
		t.Skip("SKIPPED: ", err)
	}
	s := storeProcess{program: program, dir: t.TempDir()}
	if s.port, err = freePort(); err != nil {
		t.Fatal(err)
	}
	if err = s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.process.Kill()
	each, err := s.measureScriptMicros(t.Context())
	if err != nil || each <= 0 {
		t.Errorf("%v us, %v", each, err)
	}
	t.Logf("%.1f us", each)
}
