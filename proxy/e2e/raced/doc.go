// Package raced tells tests, of any package, whether they are built for the race detector, under which everything is slow and
// allocates: times, memory and allocations are not held then. It imports nothing of ours, so that all may use it.
package raced
