package config

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// TestExampleKeysAreNobodys checks that the key hashes in the example do not belong to keys that
// could be guessed, because operators copy the example.
func TestExampleKeysAreNobodys(t *testing.T) {
	words := []string{"", "key", "secret", "password", "example", "changeme", "penstock", "team", "a", "b", "c", "admin", "sk", "foo", "bar", "hello"}
	words = append(words, "test", "test-key", "api-key", "team-a", "team-b")
	known := map[string]string{}
	for _, w := range words {
		for _, form := range []string{w, w + "\n", strings.ToUpper(w)} {
			for n := -1; n < 100; n++ {
				guess := form
				if n >= 0 {
					guess = fmt.Sprint(form, n)
				}
				sum := sha256.Sum256([]byte(guess))
				known[hex.EncodeToString(sum[:])] = guess
			}
		}
	}
	hashes := 0
	for lines := bufio.NewScanner(bytes.NewReader(Example())); lines.Scan(); {
		_, after, found := strings.Cut(lines.Text(), HashPrefix)
		if !found || len(after) < 64 {
			continue
		}
		hashes++
		if word, ok := known[after[:64]]; ok {
			t.Errorf("the example has the hash of %q: an operator who keeps that line has opened the edge", word)
		}
	}
	if hashes != 4 { // one of them is the hash of a certificate's public key
		t.Errorf("%d hashes in the example, 4 are known", hashes)
	}
}
