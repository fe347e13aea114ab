package workload

import (
	_ "embed"
	"math/rand/v2"
	"strings"
)

//go:embed vocabulary.txt
var vocabularyText string

// vocabulary are common short English words: one token each, with the space before them, in nearly
// every vocabulary of today.
var vocabulary = strings.Fields(vocabularyText)

// appendWords appends n words of the vocabulary, each with a space behind it.
func appendWords(dst []byte, rng *rand.Rand, n int) []byte {
	for range n {
		dst = append(append(dst, vocabulary[rng.IntN(len(vocabulary))]...), ' ')
	}
	return dst
}
