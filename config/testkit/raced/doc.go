// Package raced reports whether a test is built with the race detector. Code is then slow and
// allocates, so tests do not check times, memory and allocations. Tests of any package can use it,
// because it imports no package of ours.
package raced
