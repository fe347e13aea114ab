// Package raced reports whether a test runs with the race detector. Such a build is slow and
// allocates more, so tests skip checks of times, memory and allocations. The package imports no
// other package of the program, so tests in any package can use it.
package raced
