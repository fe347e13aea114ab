package proxy

import (
	"fmt"
	"io"
	"runtime"
	"runtime/pprof"
	"strings"
)

// What Go tells of stacks by itself, after a panic and at SIGQUIT, has words of memory beside each function: its arguments, and
// what was in their places before. Some are pieces of keys and prompts. So stacks are told here, as functions and lines alone.

// stack is where the running goroutine is, from who calls stack outwards.
func stack() string {
	var at [64]uintptr
	var b strings.Builder
	frames := runtime.CallersFrames(at[:runtime.Callers(2, at[:])])
	for {
		f, more := frames.Next()
		fmt.Fprintf(&b, "%s %s:%d\n", f.Function, f.File, f.Line)
		if !more {
			return b.String()
		}
	}
}

// writeStacks tells where every goroutine is, those together that are at the same place.
func writeStacks(w io.Writer) error { return pprof.Lookup("goroutine").WriteTo(w, 1) }
