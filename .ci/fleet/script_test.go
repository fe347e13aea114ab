package main

import (
	"testing"
)

// TestScriptCost checks that the store executes the script for each message, and that the cost is
// measured.
func TestScriptCost(t *testing.T) {
	program, err := findStore()
	if err != nil {
		t.Skip("SKIPPED: ", err)
	}
	s := store{program: program, dir: t.TempDir()}
	if s.port, err = freePort(); err != nil {
		t.Fatal(err)
	}
	if err = s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.process.Kill()
	each, err := s.scriptCost(t.Context())
	if err != nil || each <= 0 {
		t.Errorf("%v us, %v", each, err)
	}
	t.Logf("%.1f us", each)
}
