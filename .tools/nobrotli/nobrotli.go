// Package brrr stands in for the brotli coder that fasthttp imports. Penstock neither accepts nor
// sends brotli, but the linker cannot know that: the coder and its dictionaries were 1.4 MB of the
// program. Whatever is to be read or written here fails.
package brrr

import (
	"errors"
	"io"
)

// The levels that fasthttp names.
const (
	BestSpeed       = 0
	BestCompression = 11
)

var errUnsupported = errors.New("brotli is not part of this program")

// Reader reads nothing.
type Reader struct{}

// NewReader returns a Reader.
func NewReader(io.Reader) *Reader { return &Reader{} }

// Reset does nothing.
func (*Reader) Reset(io.Reader) {}

// Read fails.
func (*Reader) Read([]byte) (int, error) { return 0, errUnsupported }

// Writer writes nothing.
type Writer struct{}

// NewWriter returns a Writer.
func NewWriter(io.Writer, int) (*Writer, error) { return &Writer{}, nil }

// Reset does nothing.
func (*Writer) Reset(io.Writer) {}

// Write fails.
func (*Writer) Write([]byte) (int, error) { return 0, errUnsupported }

// Flush fails.
func (*Writer) Flush() error { return errUnsupported }

// Close fails.
func (*Writer) Close() error { return errUnsupported }
