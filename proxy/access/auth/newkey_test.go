package auth

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
)

func TestNewKey(t *testing.T) {
	form := regexp.MustCompile(`^pstk_[0-9A-Za-z]{49}$`)
	seen := map[string]bool{}
	for range 100 {
		plain, hash, err := NewKey()
		if err != nil {
			t.Fatal(err)
		}
		if !form.MatchString(plain) || !HasValidChecksum(plain) || seen[plain] {
			t.Fatalf("new key = %q, want the form, a checksum and a key not seen before", plain)
		}
		seen[plain] = true
		if hash != HashKey(plain) || !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(hash) {
			t.Fatalf("hash = %q, want %q", hash, HashKey(plain))
		}
	}
}

// TestKeyFormat compares a key and its hash with constants. Operators' configurations contain such
// hashes, so the format must never change.
func TestKeyFormat(t *testing.T) {
	plain, hash, err := newKey(bytes.NewReader(bytes.Repeat([]byte{7, 255, 62, 11}, 64)))
	if err != nil {
		t.Fatal(err)
	}
	const (
		wantPlain = "pstk_7B7B7B7B7B7B7B7B7B7B7B7B7B7B7B7B7B7B7B7B7B73awWC3"
		wantHash  = "sha256:9522392cb0cbcd597a7e80ddba1560fcbd0c534c0c3752709124c49431c5b1fb"
	)
	if plain != wantPlain || hash != wantHash {
		t.Errorf("key %s, hash %s", plain, hash)
	}
	// The expected hash is from FIPS 180-2, B.1.
	if got := HashKey("abc"); got != "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("Hash(abc) = %s", got)
	}
}

func TestNewKeyRandomFails(t *testing.T) {
	fail := errors.New("no entropy")
	if plain, hash, err := newKey(iotest.ErrReader(fail)); plain != "" || hash != "" || !errors.Is(err, fail) {
		t.Errorf("newKey = %q, %q, %v; want no key and the error %v", plain, hash, err, fail)
	}
}

func TestChecksum(t *testing.T) {
	plain, _, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for i := range plain {
		for _, b := range []byte("0Aa~") {
			if plain[i] == b {
				continue
			}
			if bad := plain[:i] + string(b) + plain[i+1:]; HasValidChecksum(bad) {
				t.Errorf("a wrong byte at %d passes", i)
			}
		}
	}
	for _, bad := range []string{"", KeyPrefix, plain[1:], plain[:len(plain)-1], plain + "0", strings.ToUpper(plain)} {
		if HasValidChecksum(bad) {
			t.Errorf("HasValidChecksum(%q) = true, want false", bad)
		}
	}
}
