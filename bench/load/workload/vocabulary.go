package workload

import (
	_ "embed"
	"math/rand/v2"
	"strings"
)

//go:embed vocabulary.txt
var vocabularyText string

// vocabulary are common short English words. With the space before it, each is one token in nearly
// every current vocabulary.
var vocabulary = strings.Fields(vocabularyText)

// appendWords appends n words of the vocabulary, each followed by a space.
func appendWords(dst []byte, rng *rand.Rand, n int) []byte {
	for range n {
		dst = append(append(dst, vocabulary[rng.IntN(len(vocabulary))]...), ' ')
	}
	return dst
}
