//go:build !amd64 && !arm64

package jsonx

// On other processors strings are scanned by words: see passWords.
var hasVector = false

func vectorText(*byte, int) (block int, mask, escapes, wide, open uint64) {
	panic("jsonx: no vectors here")
}
