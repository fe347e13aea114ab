package auth

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// KeyPrefix is the prefix of every key that NewKey creates. Secret scanners can search for it.
const KeyPrefix = "pstk_"

const (
	keyAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	secretLen   = 43 // 43 characters from an alphabet of 62 have 256 bits
	checksumLen = 6  // 6 characters from an alphabet of 62 have 35 bits, enough for a CRC-32
	keyLen      = len(KeyPrefix) + secretLen + checksumLen
	hashPrefix  = "sha256:"
)

// NewKey creates a key from KeyPrefix, 256 random bits and a checksum. hash is the key's hash for
// the configuration. NewKey fails only if the random source fails.
func NewKey() (plain, hash string, err error) {
	return newKey(rand.Reader)
}

func newKey(random io.Reader) (plain, hash string, err error) {
	key := make([]byte, 0, keyLen)
	key = append(key, KeyPrefix...)
	var buf [64]byte
	for len(key) < len(KeyPrefix)+secretLen {
		if _, err := io.ReadFull(random, buf[:]); err != nil {
			return "", "", fmt.Errorf("read random bytes for a key: %w", err)
		}
		for _, b := range buf {
			// Discarding the values 62 and 63 makes all characters equally likely.
			if b &= 63; int(b) < len(keyAlphabet) && len(key) < len(KeyPrefix)+secretLen {
				key = append(key, keyAlphabet[b])
			}
		}
	}
	key = appendChecksum(key, key)
	return string(key), HashKey(string(key)), nil
}

// HashKey returns a key's hash for the configuration: "sha256:" followed by 64 hexadecimal digits.
func HashKey(plain string) string {
	sum := sha256.Sum256([]byte(plain))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// minSecretLen is the length below which a key is guessable. A shorter key cannot have the 128 bits
// that a fast hash requires.
const minSecretLen = 20

// IsGuessable reports whether a key chosen by an operator is too short, or has too few different
// characters, to be stored as a fast hash.
func IsGuessable(plain string) bool {
	different := map[rune]bool{}
	for _, r := range plain {
		different[r] = true
	}
	return len(plain) < minSecretLen || len(different) < 8
}

// CheckKey returns an error for a key that can never be used. Such a key either contains characters
// that a header cannot contain, or starts with KeyPrefix and has a wrong checksum.
func CheckKey(plain string) error {
	for i := range len(plain) {
		if c := plain[i]; c <= ' ' || c >= 0x7f {
			return errors.New("a key consists of visible ASCII characters")
		}
	}
	if strings.HasPrefix(plain, KeyPrefix) && !HasValidChecksum(plain) {
		return errors.New("a key that begins with " + KeyPrefix + " has a checksum, which is wrong here: a character is missing or mistyped")
	}
	return nil
}

// HasValidChecksum reports whether plain has the format of a key created by NewKey and a valid
// checksum. HasValidChecksum does not look up the key.
func HasValidChecksum(plain string) bool { return hasValidChecksum([]byte(plain)) }

func hasValidChecksum(key []byte) bool {
	if len(key) != keyLen || string(key[:len(KeyPrefix)]) != KeyPrefix {
		return false
	}
	body := key[:keyLen-checksumLen]
	for _, b := range body[len(KeyPrefix):] {
		if (b < '0' || b > '9') && (b < 'A' || b > 'Z') && (b < 'a' || b > 'z') {
			return false
		}
	}
	var want [checksumLen]byte
	return bytes.Equal(appendChecksum(want[:0], body), key[keyLen-checksumLen:])
}

// appendChecksum appends the CRC-32 (IEEE) of body as six digits of base 62.
func appendChecksum(dst, body []byte) []byte {
	sum := crc32.ChecksumIEEE(body)
	var digits [checksumLen]byte
	for i := checksumLen - 1; i >= 0; i-- {
		digits[i] = keyAlphabet[sum%uint32(len(keyAlphabet))]
		sum /= uint32(len(keyAlphabet))
	}
	return append(dst, digits[:]...)
}
