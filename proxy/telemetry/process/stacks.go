package process

import (
	"io"
	"runtime/pprof"
)

// WriteGoroutineStacks writes the stack of every goroutine as functions and lines, and merges equal
// stacks. Go's dump at SIGQUIT also prints raw memory, which may contain parts of keys and prompts.
func WriteGoroutineStacks(w io.Writer) error { return pprof.Lookup("goroutine").WriteTo(w, 1) }

// WriteHeapProfile writes a sample of the heap, grouped by allocating function. It does not write
// the contents of memory.
func WriteHeapProfile(w io.Writer) error { return pprof.Lookup("heap").WriteTo(w, 1) }
