// Package process fits the Go runtime to the process's part of the machine: how much memory it may use (memlimit.go), how often
// garbage is collected (gc.go), and how a reload's work keeps out of the way of requests (burst.go). All of it is the whole
// process's, so a second edge within one process has the same.
//
// # Design
//
// Memory. The limit of a container is given to the runtime, less a tenth for what the kernel counts beside the heap, so that the
// collector works harder before the kernel kills the process.
//
// The collector's pace. Half of what a process of many held streams occupies would be room for garbage that they do not
// make: PaceGC gives that up once the live heap is large. While it is tiny the room is next to nothing, and PaceGC gives more of it,
// because collections would come every few hundred requests.
//
// A reload is the one thing that computes for long and makes much garbage in a moment. Burst keeps both from the requests: on one
// core those that came during a reload of 1,000 keys waited 24 ms in the median, for the goroutine that parsed held the only
// processor; now half a millisecond, as ever. The three or four collections that would fall into a reload, a quarter of its work,
// are one at its end, begun before its room is taken back: else a single request would have to mark everything.
package process
