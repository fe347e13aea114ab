package process

import (
	"os"
	"runtime"
)

// ResourceFacts describe how much of the machine the process may use, and how much it uses.
type ResourceFacts struct {
	PID        int `json:"pid"`
	Processors int `json:"processors"`
	// MaxProcs is the number of processors that can be used at a time (GOMAXPROCS).
	MaxProcs     int          `json:"max_processors"`
	MemoryLimit  int64        `json:"memory_limit_bytes,omitempty"`
	MemorySource MemorySource `json:"memory_limit_source,omitempty"`
	Goroutines   int          `json:"goroutines"`
	Heap         uint64       `json:"heap_bytes"` // bytes of objects, including garbage
	// Bytes obtained from the operating system and not returned.
	HeapHeld    uint64 `json:"heap_os_bytes"`
	Stacks      uint64 `json:"stacks_bytes"`
	Collections uint32 `json:"collections"`
	NextGC      uint64 `json:"next_collection_at_bytes"`
}

// CurrentFacts returns the current facts. Reading the runtime's statistics briefly stops the
// process.
func CurrentFacts() ResourceFacts {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f := ResourceFacts{
		PID: os.Getpid(), Processors: runtime.NumCPU(), MaxProcs: runtime.GOMAXPROCS(0), Goroutines: runtime.NumGoroutine(),
		Heap: m.HeapAlloc, HeapHeld: m.HeapSys - m.HeapReleased, Stacks: m.StackInuse,
		Collections: m.NumGC, NextGC: m.NextGC,
	}
	if l := appliedMemoryLimit.Load(); l != nil {
		f.MemoryLimit, f.MemorySource = l.bytes, l.source
	}
	return f
}
