//go:build !amd64 && !arm64

package jsonx

// On these processors, skipBlocksByWord scans the strings.
var hasVectorText = false

func vectorText(*byte, int) (block int, mask, escapes, wide, open uint64) {
	panic("jsonx: no vectors here")
}
