//go:build (amd64 || arm64) && (linux || darwin)

package chat

import (
	"encoding/base64"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"penstock/config/testkit/guardpage"
)

// TestWithoutVectors checks that GODEBUG disables the vector code, because .ci/run and .ci/full
// rely on this. Without GODEBUG, arm64 must run the vector code.
func TestWithoutVectors(t *testing.T) {
	off := strings.Contains(os.Getenv("GODEBUG"), map[string]string{"amd64": "cpu.avx2=off", "arm64": "cpu.asimd=off"}[runtime.GOARCH])
	if off && hasVectorBase64 {
		t.Error("the vector code runs all the same")
	} else if !off && !hasVectorBase64 && runtime.GOARCH == "arm64" {
		t.Error("the vector code does not run")
	}
}

// TestVectorBase64 compares vectorBase64 with the standard library. It checks every byte at every
// position in base64 blocks, at both ends of readable memory, and at every offset in a cache line.
func TestVectorBase64(t *testing.T) {
	if !hasVectorBase64 {
		t.Skip("no vectors here")
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	memory := guardpage.GuardedMemory(t, 1)
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 64 {
		blocks := 1 + n%4
		size := 32 * blocks
		for _, i := range []int{0, len(memory) - size, 64 + n} {
			s := memory[i : i+size]
			for j := range s {
				s[j] = alphabet[random.IntN(len(alphabet))]
			}
			if _, err := base64.StdEncoding.DecodeString(string(s)); err != nil {
				t.Fatal(err)
			}
			for j, was := range s {
				for c := range 256 {
					s[j] = byte(c)
					if got, want := vectorBase64(&s[0], blocks), strings.IndexByte(alphabet, byte(c)) >= 0; got != want {
						t.Fatalf("byte %#x at %d of %d: %v, want %v", c, j, size, got, want)
					}
				}
				s[j] = was
			}
		}
	}
}
