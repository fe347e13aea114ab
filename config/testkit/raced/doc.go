// Package raced reports whether a test is built for the race detector, under which code is slow and
// allocates: tests do not hold times, memory and allocations then. Tests of any package can use it,
// because it imports nothing of ours.
package raced
