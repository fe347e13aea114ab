// Package raced reports whether a test is built with the race detector. Such a build is slow and
// allocates, so tests skip checks of times, memory and allocations. The package imports no package
// of ours, so tests of any package can use it.
package raced
