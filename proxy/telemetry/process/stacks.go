package process

import (
	"io"
	"runtime/pprof"
)

// WriteStacks writes the stack of every goroutine as functions and lines, with equal stacks merged.
// Go's own dump at SIGQUIT also prints raw memory for each function: arguments and stale stack
// slots, which may contain pieces of keys and prompts.
func WriteStacks(w io.Writer) error { return pprof.Lookup("goroutine").WriteTo(w, 1) }

// WriteHeap writes a sample of the heap by the functions that allocated it, and the runtime's
// memory counts. The sample contains no memory contents.
func WriteHeap(w io.Writer) error { return pprof.Lookup("heap").WriteTo(w, 1) }
