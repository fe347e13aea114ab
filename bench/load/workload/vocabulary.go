package workload

import (
	_ "embed"
	"math/rand/v2"
	"strings"
)

//go:embed vocabulary.txt
var vocabularyText string

// vocabulary contains common short English words. With a leading space, each is a single token in
// nearly every current vocabulary.
var vocabulary = strings.Fields(vocabularyText)

// appendRandomWords appends n random words, each followed by a space.
func appendRandomWords(dst []byte, rng *rand.Rand, n int) []byte {
	for range n {
		dst = append(append(dst, vocabulary[rng.IntN(len(vocabulary))]...), ' ')
	}
	return dst
}
