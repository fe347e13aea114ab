// Package process fits the Go runtime to the share of the machine that the process may use. It
// decides how much memory the process may use (memlimit.go), how often it collects garbage (gc.go),
// and how a reload avoids delaying requests (boost.go). The settings apply to the whole process, so
// two edges within one process share them. The package also writes what a bug report needs: the
// goroutine stacks of a process that hangs, its heap by function (stacks.go), and how much of the
// machine it may use (facts.go).
//
// # Design
//
// Memory. The runtime's memory limit is the container's, minus a tenth for memory that the kernel
// counts in addition to the heap. The collector then works harder before the kernel would kill the
// process.
//
// The collector's pace. By default a process with many held streams would reserve half of its
// memory for garbage that the streams do not produce. PaceGC reduces this reserve once the live
// heap is large. While the heap is tiny, the default leaves almost no room, and a collection would
// run every few hundred requests. Each collection delays the requests that run meanwhile: of the
// slowest hundredth of short streams, most were slow because of a collection. For a tiny heap
// PaceGC therefore allows more room, and while the process is busy it lets the heap grow to 64 MiB
// before a collection (this needs 512 MiB of memory). A ballast, a large object that is never used,
// has the same effect, but looks like a leak to an operator. An idle process returns the extra
// memory at the collection that the runtime forces every two minutes.
//
// Only a reload computes for long and produces much garbage at once. Boost shields requests from
// both effects. On one core, requests during a reload of 1,000 keys waited 24 ms in the median,
// because the goroutine that parsed held the only processor; now they wait half a millisecond, as
// at any time. Without Boost a reload causes three or four collections, which take a quarter of its
// work. With Boost there is one, at the end of the reload and before the pace is restored:
// otherwise a single request would have to mark the whole heap.
package process
