// Package raced reports whether a test runs with the race detector. A build with the detector is
// slow and allocates more, so tests skip checks of times, memory and allocations. The package
// imports no other package of this module, so tests in any package can use it.
package raced
