package proxy

import (
	"io"
	"runtime/pprof"
)

// writeStacks tells where every goroutine is, those together that are at the same place: functions and lines alone. What Go tells
// of stacks by itself at SIGQUIT has words of memory beside each function: its arguments, and what was in their places before.
// Some are pieces of keys and prompts.
func writeStacks(w io.Writer) error { return pprof.Lookup("goroutine").WriteTo(w, 1) }
