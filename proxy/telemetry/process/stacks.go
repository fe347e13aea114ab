package process

import (
	"io"
	"runtime/pprof"
)

// WriteStacks writes the stack of every goroutine as functions and lines, equal stacks once. Go's
// own dump at SIGQUIT prints words of memory beside each function: its arguments and stale stack
// slots, which may hold pieces of keys and prompts.
func WriteStacks(w io.Writer) error { return pprof.Lookup("goroutine").WriteTo(w, 1) }

// WriteHeap writes what the heap holds by the functions that allocated it, sampled, and the
// runtime's memory counts. It contains nothing from memory itself.
func WriteHeap(w io.Writer) error { return pprof.Lookup("heap").WriteTo(w, 1) }
