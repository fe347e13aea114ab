package main

import "testing"

// TestLostCalls checks that aborted calls, which only the fleet counts, do not hide lost calls.
func TestLostCalls(t *testing.T) {
	before := usageTotals{calls: 2, completion: 8}
	if n := lostCalls(before, usageTotals{calls: 2 + 7 - 20, completion: 8 + (7-20)*instantTokens, estimated: -20}); n != 7 {
		t.Errorf("%d calls are lost, want 7", n)
	}
}
