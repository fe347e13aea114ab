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

// Prefix starts every key that NewKey makes. Secret scanners can search for it, and keys from
// elsewhere are unlikely to start with it.
const Prefix = "pstk_"

const (
	alphabet   = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	secretLen  = 43 // 43 of 62 possible characters: 256 bits
	checkLen   = 6  // 6 of 62 possible characters: 32 bits
	keyLen     = len(Prefix) + secretLen + checkLen
	hashPrefix = "sha256:"
)

// NewKey makes a key: the prefix, 256 random bits and a checksum, all in letters and digits. hash
// is the key's hash, as the configuration holds it. An error comes from the random source.
func NewKey() (plain, hash string, err error) {
	return newKey(rand.Reader)
}

func newKey(random io.Reader) (plain, hash string, err error) {
	key := make([]byte, 0, keyLen)
	key = append(key, Prefix...)
	var buf [64]byte
	for len(key) < len(Prefix)+secretLen {
		if _, err := io.ReadFull(random, buf[:]); err != nil {
			return "", "", fmt.Errorf("read random bytes for a key: %w", err)
		}
		for _, b := range buf {
			// The values 62 and 63 are discarded. Wrapped around, they would make two characters
			// more likely than the others.
			if b &= 63; int(b) < len(alphabet) && len(key) < len(Prefix)+secretLen {
				key = append(key, alphabet[b])
			}
		}
	}
	key = appendCheck(key, key)
	return string(key), Hash(string(key)), nil
}

// Hash returns the hash of any complete key, as the configuration holds it: "sha256:" and 64
// hexadecimal digits.
func Hash(plain string) string {
	sum := sha256.Sum256([]byte(plain))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// guessableLen is the length below which a key cannot have the 128 bits that a fast hash requires.
const guessableLen = 20

// Guessable reports whether a key from elsewhere is too short or too uniform to withstand guessing
// against its hash.
func Guessable(plain string) bool {
	different := map[rune]bool{}
	for _, r := range plain {
		different[r] = true
	}
	return len(plain) < guessableLen || len(different) < 8
}

// CheckKey returns an error for a key that could never be used, because no header can carry it, or
// because it has our prefix but a wrong checksum.
func CheckKey(plain string) error {
	for i := range len(plain) {
		if c := plain[i]; c <= ' ' || c >= 0x7f {
			return errors.New("a key consists of visible ASCII characters")
		}
	}
	if strings.HasPrefix(plain, Prefix) && !Checksum(plain) {
		return errors.New("a key that begins with " + Prefix + " has a checksum, which is wrong here: a character is missing or mistyped")
	}
	return nil
}

// Checksum reports whether plain has the form of a key that NewKey makes, including the checksum.
// It does not check whether the key exists.
func Checksum(plain string) bool { return checksum([]byte(plain)) }

func checksum(key []byte) bool {
	if len(key) != keyLen || string(key[:len(Prefix)]) != Prefix {
		return false
	}
	body := key[:keyLen-checkLen]
	for _, b := range body[len(Prefix):] {
		if (b < '0' || b > '9') && (b < 'A' || b > 'Z') && (b < 'a' || b > 'z') {
			return false
		}
	}
	var want [checkLen]byte
	return bytes.Equal(appendCheck(want[:0], body), key[keyLen-checkLen:])
}

// appendCheck appends the CRC-32 (IEEE) of body as six digits of base 62.
func appendCheck(dst, body []byte) []byte {
	sum := crc32.ChecksumIEEE(body)
	var digits [checkLen]byte
	for i := checkLen - 1; i >= 0; i-- {
		digits[i] = alphabet[sum%uint32(len(alphabet))]
		sum /= uint32(len(alphabet))
	}
	return append(dst, digits[:]...)
}
