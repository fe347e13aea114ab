package main

import "testing"

// TestUncountedCalls checks that aborted calls, which only the fleet counts, do not hide lost
// calls.
func TestUncountedCalls(t *testing.T) {
	before := usageTotals{calls: 2, completion: 8}
	if n := uncountedCalls(before, usageTotals{calls: 2 + 7 - 20, completion: 8 + (7-20)*shortAnswerTokens, estimated: -20}); n != 7 {
		t.Errorf("%d calls are lost, want 7", n)
	}
}
