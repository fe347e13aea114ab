package fleet

import (
	"strings"
	"testing"
)

// TestUnknownCommand checks that the error for an unknown command is recognized, because it does
// not concern only one key.
func TestUnknownCommand(t *testing.T) {
	for text, want := range map[string]bool{
		"unknown command 'EVALSHA', with args beginning with: 'a' ":   true,
		"ERR unknown command `PEXPIRE`, with args beginning with: ":   true,
		"Unknown Redis command called from script script: 0a, on @1.": true,
		"Unknown command called from script script: 0a, on @user_1.":  true,
		"hash value is not an integer":                                false,
		"WRONGTYPE Operation against a key":                           false,
		"":                                                            false,
	} {
		if got := isUnknownCommand(text); got != want {
			t.Errorf("isUnknownCommand(%q) = %t, want %t", text, got, want)
		}
	}
	if r := rejectionRemedy(noCommandCode, "penstock"); strings.Contains(r, "delete") || !strings.Contains(r, "EVALSHA") || !strings.Contains(r, "PEXPIRE") {
		t.Error(r)
	}
}
