// Package benchtest holds the helpers that the tests of the load tester share: engines, the built
// program, and made-up results.
package benchtest
