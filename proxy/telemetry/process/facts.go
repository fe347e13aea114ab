package process

import (
	"os"
	"runtime"
)

// Facts are what the process may use of the machine, and how much it uses.
type Facts struct {
	PID          int          `json:"pid"`
	Processors   int          `json:"processors"`     // of the machine
	MaxProcs     int          `json:"max_processors"` // that it may use at once (GOMAXPROCS)
	MemoryLimit  int64        `json:"memory_limit_bytes,omitempty"`
	MemorySource MemorySource `json:"memory_limit_source,omitempty"`
	Goroutines   int          `json:"goroutines"`
	Heap         uint64       `json:"heap_bytes"`    // objects, those that are garbage included
	HeapHeld     uint64       `json:"heap_os_bytes"` // that the system has given for the heap and not got back
	Stacks       uint64       `json:"stacks_bytes"`
	Collections  uint32       `json:"collections"` // of garbage, since the start
	NextGC       uint64       `json:"next_collection_at_bytes"`
}

// Look returns the current facts. It stops the process for a moment, as each read of the runtime's
// counts does.
func Look() Facts {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f := Facts{
		PID: os.Getpid(), Processors: runtime.NumCPU(), MaxProcs: runtime.GOMAXPROCS(0), Goroutines: runtime.NumGoroutine(),
		Heap: m.HeapAlloc, HeapHeld: m.HeapSys - m.HeapReleased, Stacks: m.StackInuse,
		Collections: m.NumGC, NextGC: m.NextGC,
	}
	if l := applied.Load(); l != nil {
		f.MemoryLimit, f.MemorySource = l.bytes, l.source
	}
	return f
}
