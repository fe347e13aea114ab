// Package process adapts the Go runtime to the share of the machine that the process may use. It
// controls how much memory the process may use (memlimit.go), how often it collects garbage
// (gc.go), and how a reload avoids delaying requests (boost.go).
//
// # Design
//
// Memory. The runtime's memory limit is the container's limit minus a tenth, which is reserved for
// memory that the kernel counts in addition to the heap. The collector therefore works harder
// before the kernel would kill the process.
//
// The collector's pace. By default, a process with many open streams would reserve half of its
// memory for garbage that the streams do not produce. PaceGC reduces this reserve if the live heap
// is large. If the heap is tiny, the default reserve is so small that a collection runs every few
// hundred requests. Each collection delays the requests that are running. Of the slowest 1 % of
// short streams, most were slow because of a collection. PaceGC therefore increases the reserve for
// a tiny heap. If the process may use 512 MiB of memory, PaceGC lets the heap of a busy process
// grow to 64 MiB before a collection. An idle process returns the extra memory at the collection
// that the runtime forces every two minutes.
//
// Reloads. Only a reload computes for a long time and produces much garbage. BoostProcessors
// protects requests from both effects. On one core, the median wait of requests during a reload of
// 1,000 keys was 24 ms, because the parsing goroutine occupied the only processor. With
// BoostProcessors, the median wait is half a millisecond, as at any other time. Without it, a
// reload causes three or four collections, which take a quarter of its time. With it, there is one
// collection, at the end of the reload and before the pace is restored.
package process
