package main

import "testing"

// TestLostCalls: only the fleet counts calls that were cut off, and they do not make up for lost
// ones.
func TestLostCalls(t *testing.T) {
	before := booked{calls: 2, completion: 8}
	if n := lostCalls(before, booked{calls: 2 + 7 - 20, completion: 8 + (7-20)*instantTokens, estimated: -20}); n != 7 {
		t.Errorf("%d calls are lost, want 7", n)
	}
}
