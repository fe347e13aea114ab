// Package process fits the Go runtime to the share of the machine that the process may use. It
// decides how much memory the process may use (memlimit.go), how often the process collects garbage
// (gc.go), and how a reload avoids delaying requests (boost.go). The settings apply to the whole
// process, so two edges within one process share them. The package also writes data for bug
// reports: the goroutine stacks of a process that hangs, its heap by function (stacks.go), and how
// much of the machine it may use (facts.go).
//
// # Design
//
// Memory. The runtime's memory limit is the container's, minus a tenth for memory that the kernel
// counts in addition to the heap. The collector then works harder before the kernel would kill the
// process.
//
// The collector's pace. By default a process with many open streams would reserve half of its
// memory for garbage that the streams do not produce. PaceGC reduces this reserve once the live
// heap is large. While the heap is tiny, the default leaves almost no room, and a collection would
// run every few hundred requests. Each collection delays the requests that run during it. Of the
// slowest hundredth of short streams, most were slow because of a collection. So PaceGC allows more
// room for a tiny heap. While the process is busy, PaceGC lets the heap grow to 64 MiB before a
// collection, if the process may use 512 MiB of memory. A ballast, a large object that is never
// used, has the same effect, but looks like a leak to an operator. An idle process returns the
// extra memory at the collection that the runtime forces every two minutes.
//
// Only a reload computes for long and produces much garbage at once. Boost shields requests from
// both effects. On one core, requests during a reload of 1,000 keys waited 24 ms in the median,
// because the goroutine that parsed held the only processor. Now they wait half a millisecond, as
// at any other time. Without Boost a reload causes three or four collections, which take a quarter
// of its work. With Boost there is one collection, at the end of the reload and before the pace is
// restored. Otherwise a single request would have to mark the whole heap.
package process
