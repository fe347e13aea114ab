package routing

import (
	"bytes"
	"math/bits"
	"slices"
	"testing"
)

// TestHashBlocks checks that the hash of a block covers the prompt up to the end of the block. A
// partial last block must have no hash.
func TestHashBlocks(t *testing.T) {
	prompt := bytes.Repeat([]byte("0123456789abcdef"), 3*blockBytes/16)
	all := HashBlocks(nil, 1, prompt)
	if len(all) != 3 || all[0] == all[1] || all[1] == all[2] {
		t.Fatalf("%d blocks of the same text: %x", len(all), all)
	}
	if got := HashBlocks(nil, 1, prompt[:3*blockBytes-1]); !slices.Equal(got, all[:2]) {
		t.Errorf("a byte less: %x", got)
	}
	if got := HashBlocks(nil, 2, prompt); got[0] == all[0] {
		t.Error("the seed says nothing")
	}
	prompt[blockBytes] ^= 1
	if got := HashBlocks(nil, 1, prompt); got[0] != all[0] || got[1] == all[1] || got[2] == all[2] {
		t.Errorf("the second block changed: %x", got)
	}
	if got := HashBlocks(nil, 1, make([]byte, 2*maxHashedPrompt)); len(got) != maxHashedPrompt/blockBytes {
		t.Errorf("%d blocks of 2 MiB", len(got))
	}
}

// TestPromptSeedOfOwner checks that equal prompts of different owners have different hashes.
func TestPromptSeedOfOwner(t *testing.T) {
	seen := map[uint64]bool{}
	for _, model := range []string{"m", "n"} {
		for _, owner := range []string{"", "key a", "key b"} {
			for _, tools := range []string{"", "[]"} {
				seen[PromptSeed(model, owner, []byte(tools))] = true
			}
		}
	}
	if len(seen) != 12 {
		t.Errorf("%d seeds of 12", len(seen))
	}
}

func BenchmarkHashBlocks(b *testing.B) {
	for name, n := range map[string]int{"16KiB": 16 << 10, "128KiB": 128 << 10, "384KiB": 384 << 10, "1MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			prompt, dst := make([]byte, n), make([]uint64, 0, maxHashedPrompt/blockBytes)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				dst = HashBlocks(dst[:0], 1, prompt)
			}
		})
	}
}

// TestHashBlocksOfTwoChanges checks that prompts that differ in two bytes have different hashes,
// regardless of the distance between the bytes. The changes must not cancel each other out.
func TestHashBlocksOfTwoChanges(t *testing.T) {
	prompt := bytes.Repeat([]byte("0123456789abcdef"), blockBytes/16)
	seen := map[uint64]bool{HashBlocks(nil, 1, prompt)[0]: true}
	changed := 0
	for i := 0; i < blockBytes; i += 7 {
		for j := i + 8; j < blockBytes; j += 8 {
			for _, bit := range []byte{1, 0x20, 0x80} {
				prompt[i] ^= bit
				prompt[j] ^= 0x40 + bit
				seen[HashBlocks(nil, 1, prompt)[0]] = true
				prompt[i] ^= bit
				prompt[j] ^= 0x40 + bit
				changed++
			}
		}
	}
	if len(seen) != changed+1 {
		t.Errorf("%d blocks of %d", len(seen), changed+1)
	}
}

// TestHashBlocksOfZeros checks that prompts that begin with a long run of the same byte still have
// different hashes if they differ after the run.
func TestHashBlocksOfZeros(t *testing.T) {
	for _, fill := range []byte{0, ' ', 0xff} {
		run := bytes.Repeat([]byte{fill}, 64<<10)
		seen := map[uint64]int{}
		for first := range 256 {
			prompt := slices.Clone(run)
			prompt[0] = byte(first)
			hashes := HashBlocks(nil, 1, prompt)
			last := hashes[len(hashes)-1]
			if before, ok := seen[last]; ok {
				t.Fatalf("behind a run of %#x the beginnings %d and %d are the same", fill, before, first)
			}
			seen[last] = first
		}
	}
}

// TestHashBlocksUnrolled compares hashBlocks with a simple loop that computes the same hash. The
// edges of a fleet exchange hashes, so the hashes must never change.
func TestHashBlocksUnrolled(t *testing.T) {
	prompt := make([]byte, 5*blockBytes)
	for i := range prompt {
		prompt[i] = byte(splitmix64(uint64(i)))
	}
	start := [2]hashState{{1, 2}, {3, 4}}
	got := make([]uint64, 5)
	hashBlocks(got, &start, prompt, hashSalt)
	for n, hash := range got {
		want := uint64(0)
		for i := range start {
			c := &start[i]
			for k := range blockBytes / 32 {
				w := prompt[n*blockBytes+i*blockBytes/2+16*k:]
				low, high := c.low^loadWord(w), c.high^loadWord(w[8:])
				if k%2 == 0 {
					low ^= hashSalt
				} else {
					high ^= hashSalt
				}
				c.high, c.low = bits.Mul64(low, high)
			}
			want ^= c.low ^ c.high
		}
		if hash != want {
			t.Errorf("block %d: %x, want %x", n, hash, want)
		}
	}
}
